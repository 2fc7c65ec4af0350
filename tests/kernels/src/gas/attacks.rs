//! Ranks that break the rules, and messages without an end.

use super::*;
use hamr_comm::offload;

static QUIET: Handlers<State> = Handlers::new()
    .request(ECHO_SHORT, Kinds::SHORT, "echo_short", |_, msg, token| token.reply_short(ECHOED_SHORT, msg.args()))
    .request(ECHO_MEDIUM, Kinds::MEDIUM, "echo_medium", |_, mut msg, token| {
        let payload = msg.payload();
        token.reply_medium(ECHOED_MEDIUM, msg.args(), payload);
    })
    .request(ECHO_LONG, Kinds::LONG, "echo_long", echo_long)
    .reply(ECHOED_SHORT, Kinds::SHORT, "echoed_short", |state, _| state.replies += 1)
    .reply(ECHOED_MEDIUM, Kinds::MEDIUM, "echoed_medium", |state, mut msg| {
        msg.payload();
        state.replies += 1;
    })
    .reply(ECHOED_LONG, Kinds::LONG, "echoed_long", |state, msg| {
        let mut bytes = [0; 64];
        state.wrong += u32::from(msg.landed().is_some_and(|at| msg.get(at.off, &mut bytes).is_err()));
        state.replies += 1;
    });

/// The last rank writes what it likes into the lanes of the others, which send and poll meanwhile. They
/// have errors, or garbled values. Returns how many messages a rank served.
#[offload]
pub fn hostile(rank: &mut Rank<State>, seed: u64) -> Result<u32, Fault> {
    rank.attach(&QUIET)?;
    let (me, last) = (rank.me(), RankId(rank.size() - 1));
    let mut random = seed | 1;
    let mut next = || {
        // xorshift64 (Marsaglia 2003).
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut served = 0;
    if me == last {
        let gas = rank.task().gas_world().ok_or_else(|| Fault::msg("no GAS"))?;
        let (window, layout) = (gas.window(), gas.layout());
        for _ in 0..20_000 {
            let victim = RankId((next() % u64::from(last.0.max(1))) as u32);
            let lane = if next() % 2 == 0 { layout.lane(victim, me) } else { layout.lane(me, victim) };
            let lane = lane.ok_or_else(|| Fault::msg("no lane"))?;
            let base = lane.req_base + (next() % u64::from(lane.slots())) * 64;
            let handler = [10, 11, 12, 200, 201, 255, next() & 0xFFFF][(next() % 7) as usize];
            let key = [0x1000, 0x2000, 0, 0x3000][(next() % 4) as usize] | handler & 0xFFF;
            let key = if next() % 4 == 0 { 0x2001 + next() % 3 } else { key };
            // Words that are counted as they should be, so that they are taken; and any.
            let word = 1 << 24 | (1 + next() % 40);
            let at = base + (next() % 8) * 8;
            let value = match at % 64 {
                48 => word << 32 | handler & 0xFF | 1 << 25 | (next() % 49) << 16,
                56 => word << 32 | key | (next() % 49) << 16,
                0 if next() % 2 == 0 => next() & 0xFFFF_01FF | (next() % 4096) << 32,
                _ => next(),
            };
            window.store(at, value).map_err(|_| Fault::msg("outside of GAS"))?;
        }
    } else {
        let data = [1; 200];
        for i in 0..20_000_u32 {
            let to = RankId(i % rank.size());
            let off = u64::from(me.0) * PLACE;
            let sent = match i % 4 {
                0 => rank.try_request_short(to, ECHO_SHORT, &[1, 2, 3]),
                1 => rank.try_request_medium(to, ECHO_MEDIUM, &[1; 14], &data),
                2 => rank.try_request_long(to, ECHO_LONG, &[1], &data, off),
                _ => rank.poll().map(|found| served += found),
            };
            if !matches!(sent, Ok(()) | Err(GasError::Busy)) {
                // The same from now on.
                expect(rank.poll().is_err() || sent.is_err(), "an error that is forgotten")?;
                break;
            }
        }
    }
    rank.task().barrier()?;
    Ok(served)
}

/// Messages without an end.
#[offload]
pub fn floods_for_ever(rank: &mut Rank<State>) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    loop {
        for to in (0..rank.size()).map(RankId) {
            rank.request_medium(to, NOTE, &[1], &[7; 100])?;
        }
    }
}
