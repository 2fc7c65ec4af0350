//! Programs over GASNet's interface, each a call of every rank of a world. They check, and return how
//! many things they checked.

use hamr_comm::world::RankId;
use hamr_comm::{Fault, offload};
use hamr_gas::{BarrierName, Event, GasError, Handlers, Kinds, Msg, Rank, SegRange, Token, Which};

/// What handlers count and keep.
#[derive(Default)]
pub struct State {
    /// Replies of echoes, with what was wrong in them.
    replies: u32,
    wrong: u32,
    /// Messages without a reply, and the sum of their first arguments.
    noted: u32,
    sum: u64,
    /// Ranks that have come to their end.
    ended: u32,
    /// What the next replies must be.
    seed: u32,
    nargs: usize,
    len: usize,
}

const ECHO_SHORT: u8 = 10;
const ECHO_MEDIUM: u8 = 11;
const ECHO_LONG: u8 = 12;
const NOTE: u8 = 13;
const END: u8 = 14;
const SUM: u8 = 15;
const BAD_REPLY: u8 = 16;
const PANICS: u8 = 17;
const EXITS: u8 = 18;
const ECHOED_SHORT: u8 = 200;
const ECHOED_MEDIUM: u8 = 201;
const ECHOED_LONG: u8 = 255;
const SUMMED: u8 = 0;

static TABLE: Handlers<State> = Handlers::new()
    .request(ECHO_SHORT, Kinds::SHORT, "echo_short", |_, msg, token| token.reply_short(ECHOED_SHORT, msg.args()))
    .request(ECHO_MEDIUM, Kinds::MEDIUM, "echo_medium", |_, mut msg, token| {
        let payload = msg.payload();
        token.reply_medium(ECHOED_MEDIUM, msg.args(), payload);
    })
    .request(ECHO_LONG, Kinds::LONG, "echo_long", echo_long)
    .request(NOTE, Kinds::ANY, "note", |state, msg, _| {
        state.noted += 1;
        state.sum += u64::from(msg.args().first().copied().unwrap_or_default() as u32);
    })
    .request(END, Kinds::SHORT, "end", |state, _, _| state.ended += 1)
    .request(SUM, Kinds::MEDIUM, "sum", |_, mut msg, token| {
        let sum = sum(msg.payload());
        token.reply_short(SUMMED, &[msg.args().first().copied().unwrap_or_default(), sum as i32]);
    })
    .request(BAD_REPLY, Kinds::SHORT, "bad_reply", |_, msg, token| match msg.args() {
        [0] => token.reply_short(ECHO_SHORT, &[]),
        [1] => token.reply_short(77, &[]),
        [2] => token.reply_medium(ECHOED_SHORT, &[], &[]),
        [3] => token.reply_long(ECHOED_LONG, &[], &[0; 4], u64::MAX),
        _ => token.reply_short(ECHOED_SHORT, &[0; 17]),
    })
    .request(PANICS, Kinds::SHORT, "panics", |_, _, _| panic!("a message asked for it"))
    .request(EXITS, Kinds::SHORT, "exits", |_, msg, token| token.exit(msg.args().first().map_or(0, |code| *code as u8)))
    .reply(SUMMED, Kinds::SHORT, "summed", |state, msg| {
        state.replies += 1;
        let wrong = !matches!(*msg.args(), [a, b] if a == b);
        state.wrong += u32::from(wrong);
    })
    .reply(ECHOED_SHORT, Kinds::SHORT, "echoed_short", |state, msg| {
        let ok = has_args(state, &msg);
        count(state, ok);
    })
    .reply(ECHOED_MEDIUM, Kinds::MEDIUM, "echoed_medium", |state, mut msg| {
        let ok = has_args(state, &msg) && is_pattern(state, msg.payload());
        count(state, ok);
    })
    .reply(ECHOED_LONG, Kinds::LONG, "echoed_long", |state, msg| {
        let mut ok = has_args(state, &msg) && msg.landed().is_some_and(|at| at.len == state.len as u64);
        let mut at = msg.landed().map_or(0, |at| at.off);
        let mut seen = 0;
        while ok && seen < state.len {
            let mut bytes = [0; 64];
            let (bytes, _) = bytes.split_at_mut((state.len - seen).min(64));
            ok = msg.get(at, bytes).is_ok();
            ok &= bytes.iter().enumerate().all(|(i, byte)| *byte == pattern(state.seed, seen + i));
            (at, seen) = (at + bytes.len() as u64, seen + bytes.len());
        }
        count(state, ok);
    });

fn count(state: &mut State, ok: bool) {
    state.replies += 1;
    state.wrong += u32::from(!ok);
}

/// Where long requests of a rank go, and replies to this one: each pair has places of its own.
const PLACE: u64 = 8192;

/// Copies what came to where the asking rank waits for it.
fn echo_long(_: &mut State, msg: Msg<'_>, token: Token<'_>) {
    let Some(at) = msg.landed() else { return };
    let mut bytes = [0; 4096];
    let (bytes, _) = bytes.split_at_mut((at.len as usize).min(4096));
    if msg.get(at.off, bytes).is_ok() {
        let dest = (64 + u64::from(msg.me().0)) * PLACE;
        token.reply_long(ECHOED_LONG, msg.args(), bytes, dest);
    }
}

fn argument(seed: u32, i: usize) -> i32 {
    (seed.wrapping_mul(0x9E37_79B9) ^ (i as u32).wrapping_mul(0x85EB_CA6B)) as i32
}

fn pattern(seed: u32, i: usize) -> u8 {
    (seed as usize * 31 + i * 7 + (i >> 8)) as u8
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(7, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)))
}

fn has_args(state: &State, msg: &Msg<'_>) -> bool {
    msg.args().len() == state.nargs && msg.args().iter().enumerate().all(|(i, arg)| *arg == argument(state.seed, i))
}

fn is_pattern(state: &State, bytes: &[u8]) -> bool {
    bytes.len() == state.len && bytes.iter().enumerate().all(|(i, byte)| *byte == pattern(state.seed, i))
}

/// Every rank is told that this one is done, and this one waits for all: none leaves while another
/// needs it.
fn finish(rank: &mut Rank<State>) -> Result<(), GasError> {
    let size = rank.size();
    for to in (0..size).map(RankId) {
        rank.request_short(to, END, &[])?;
    }
    rank.block_until(|state| state.ended == size)
}

fn expect(ok: bool, what: &str) -> Result<(), Fault> {
    if ok { Ok(()) } else { Err(Fault::msg(what)) }
}

/// Requests of every kind with every number of arguments to every rank, this one among them, and their
/// replies.
#[offload]
pub fn arities(rank: &mut Rank<State>) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    let (me, size, most) = (rank.me(), rank.size(), rank.max_medium());
    let mut asked = 0;
    for to in (0..size).map(RankId) {
        for nargs in 0..=16 {
            for len in [0, 1, 7, 40 - nargs.min(9) * 4, 41, 64, 500, 1024] {
                let args: [i32; 16] = core::array::from_fn(|i| argument(asked, i));
                let (args, _) = args.split_at(nargs);
                let mut data = [0; 1024];
                let (data, _) = data.split_at_mut(len.min(most));
                data.iter_mut().enumerate().for_each(|(i, byte)| *byte = pattern(asked, i));
                *rank.state_mut() = State { seed: asked, nargs, len, replies: 0, ..*rank.state() };
                rank.request_short(to, ECHO_SHORT, args)?;
                rank.request_medium(to, ECHO_MEDIUM, args, data)?;
                rank.request_long(to, ECHO_LONG, args, data, u64::from(me.0) * PLACE)?;
                rank.block_until(|state| state.replies == 3)?;
                if rank.state().wrong != 0 {
                    use core::fmt::Write;
                    let mut text = heapless::String::<80>::new();
                    let _ = write!(text, "an echo of rank {to} differs: {nargs} arguments, {len} bytes");
                    return Err(Fault::msg(&text));
                }
                asked += 1;
            }
        }
    }
    finish(rank)?;
    Ok(asked)
}

/// `depth` medium messages in flight, of lengths up to the longest, with their checksums.
#[offload]
pub fn checksums(rank: &mut Rank<State>, rounds: u32, depth: u32) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    let most = rank.max_medium();
    let mut sent = 0;
    // No larger than an image has room for.
    let mut data = [0; 4032];
    for round in 0..rounds {
        let to = RankId((rank.me().0 + round) % rank.size());
        for i in 0..depth {
            let len = ((round + i) as usize * 97) % (data.len().min(most) + 1);
            let (data, _) = data.split_at_mut(len);
            data.iter_mut().enumerate().for_each(|(k, byte)| *byte = pattern(sent, k));
            let wanted = sum(data) as i32;
            rank.request_medium(to, SUM, &[wanted], data)?;
            sent += 1;
        }
        rank.block_until(|state| state.replies == sent)?;
    }
    expect(rank.state().wrong == 0, "a checksum differs")?;
    finish(rank)?;
    Ok(sent)
}

/// All ranks send messages without replies to all at the same time, of all kinds; none is lost or comes
/// twice.
#[offload]
pub fn flood(rank: &mut Rank<State>, each: u32) -> Result<u64, Fault> {
    rank.attach(&TABLE)?;
    let size = rank.size();
    for i in 1..=each {
        for to in (0..size).map(RankId) {
            match i % 8 {
                0 => rank.request_medium(to, NOTE, &[i as i32], &[1; 100])?,
                1 => rank.request_long(to, NOTE, &[i as i32], &[1; 8], u64::from(rank.me().0) * PLACE)?,
                2 => rank.request_short(to, NOTE, &[i as i32; 14])?,
                _ => rank.request_short(to, NOTE, &[i as i32])?,
            }
        }
    }
    rank.block_until(|state| state.noted == size * each)?;
    finish(rank)?;
    expect(rank.state().noted == size * each, "a message came twice")?;
    Ok(rank.state().sum)
}

/// Each refused message has its error, and the next one works.
#[offload]
pub fn limits(rank: &mut Rank<State>) -> Result<u32, Fault> {
    let to = RankId(rank.size() - 1);
    expect(rank.request_short(to, NOTE, &[]) == Err(GasError::NotAttached), "not attached")?;
    rank.attach(&TABLE)?;
    expect(rank.attach(&TABLE) == Err(GasError::AlreadyAttached), "attached twice")?;
    let (size, most) = (rank.size(), rank.max_medium());
    expect(most >= 512 && most + 64 <= 16 << 10, "the longest medium payload")?;
    static LONG: [u8; 16 << 10] = [0; 16 << 10];
    let checks = [
        rank.request_short(RankId(size), NOTE, &[]) == Err(GasError::NoRank(size)),
        rank.request_short(to, NOTE, &[0; 17]) == Err(GasError::Arguments(17)),
        rank.request_medium(to, NOTE, &[], LONG.get(..most + 1).unwrap_or_default())
            == Err(GasError::TooLong { len: most + 1, max: most }),
        rank.request_short(to, 99, &[]) == Err(GasError::NoHandler { rank: to.0, at: 99 }),
        rank.request_short(to, ECHOED_SHORT, &[])
            == Err(GasError::WrongSide { rank: to.0, at: ECHOED_SHORT, name: "echoed_short" }),
        matches!(rank.request_medium(to, ECHO_SHORT, &[], &[]),
            Err(GasError::WrongKind { rank, at: ECHO_SHORT, name: "echo_short", .. }) if rank == to.0),
        matches!(rank.request_long(to, NOTE, &[], &[1, 2], rank.segment_len(to)? - 1),
            Err(GasError::Reach { rank, .. }) if rank == to.0),
        rank.segment_len(RankId(size)) == Err(GasError::NoRank(size)),
        // The longest ones.
        rank.request_medium(to, NOTE, &[0; 16], LONG.get(..most).unwrap_or_default()).is_ok(),
        rank.request_long(to, NOTE, &[], &[], rank.segment_len(to)?).is_ok(),
    ];
    for (i, ok) in checks.iter().enumerate() {
        expect(
            *ok,
            ["rank", "arguments", "medium", "index", "side", "kind", "segment", "no segment", "longest", "end"]
                .get(i)
                .copied()
                .unwrap_or_default(),
        )?;
    }
    finish(rank)?;
    Ok(checks.len() as u32)
}

/// Calls that do not wait fill the lane of a rank that does not poll, and are refused then.
#[offload]
pub fn busy(rank: &mut Rank<State>) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    let (me, size) = (rank.me().0, rank.size());
    if me == 0 && size > 1 {
        let mut sent = 0;
        while rank.try_request_short(RankId(1), NOTE, &[1]).is_ok() {
            sent += 1;
            expect(sent <= 100, "a lane without an end")?;
        }
        expect(rank.try_request_medium(RankId(1), NOTE, &[1], &[]) == Err(GasError::Busy), "no room")?;
        expect(sent > 2, "room for some")?;
        rank.task().barrier()?;
        // The other one polls now.
        rank.request_long(RankId(1), NOTE, &[sent], &[], 0)?;
    } else {
        rank.task().barrier()?;
    }
    if me == 1 {
        rank.block_until(|state| state.noted > 2 && state.sum + 2 >= 2 * u64::from(state.noted))?;
    }
    finish(rank)?;
    Ok(rank.state().noted)
}

#[rustfmt::skip]
static OTHER: Handlers<State> = Handlers::new()
    .request(10, Kinds::SHORT, "echo_short", |_, _, _| {})
    .request(11, Kinds::MEDIUM, "another", |_, _, _| {});
static SHORTER: Handlers<State> = Handlers::new().request(10, Kinds::SHORT, "echo_short", |_, _, _| {});

/// The rank of this number has another table than the others. Returns the error of `attach`.
#[offload]
pub fn unequal(rank: &mut Rank<State>, who: u32) -> Result<heapless::String<120>, Fault> {
    use core::fmt::Write;
    let table = if rank.me().0 == who { &SHORTER } else { &OTHER };
    let mut text = heapless::String::new();
    if let Err(why) = rank.attach(table) {
        let _ = write!(text, "{why}");
    }
    Ok(text)
}

/// Rank 0 asks rank 1 for a reply that it cannot send.
#[offload]
pub fn bad_reply(rank: &mut Rank<State>, which: i32) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    if rank.me().0 == 0 {
        rank.request_short(RankId(1 % rank.size()), BAD_REPLY, &[which])?;
    }
    rank.block_until(|state| state.replies != 0)?;
    Ok(0)
}

/// Barriers with and without names, in two phases and in one. What ranks put before one is there behind
/// it, and messages are served in it.
#[offload]
pub fn barriers(rank: &mut Rank<State>, rounds: u32) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    let (me, size) = (rank.me().0, rank.size());
    let next = RankId((me + 1) % size);
    for round in 1..=rounds {
        let world = rank.task().world().ok_or_else(|| Fault::msg("a rank"))?;
        world.put_value(next, 0, round * 100 + me)?;
        let name = if round % 2 == 0 { BarrierName::Anonymous } else { BarrierName::Named(round) };
        let agreed = if round % 3 == 0 {
            rank.barrier_notify(name)?;
            rank.request_short(next, NOTE, &[1])?;
            let mut agreed = rank.barrier_try(name)?;
            while agreed.is_none() {
                rank.poll()?;
                agreed = rank.barrier_try(name)?;
            }
            agreed.flatten()
        } else {
            rank.barrier(name)?
        };
        expect(agreed == (round % 2 == 1).then_some(round), "another name")?;
        let world = rank.task().world().ok_or_else(|| Fault::msg("a rank"))?;
        expect(world.get_value::<u32>(rank.me(), 0)? == round * 100 + (me + size - 1) % size, "what was put before")?;
        rank.barrier(BarrierName::Anonymous)?;
    }
    rank.block_until(|state| state.noted == rounds / 3)?;
    rank.barrier(BarrierName::Anonymous)?;
    Ok(rounds)
}

/// Bytes that one rank has at another for transfers.
const SHARE: u64 = 32 << 10;

/// Puts, gets, values and fills of all kinds to every rank and back; by copies, or over messages.
#[offload]
pub fn transfers(rank: &mut Rank<State>, over_messages: bool) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    rank.use_messages(over_messages);
    let (me, size) = (rank.me(), rank.size());
    let mut done = 0;
    // Its own share: each rank writes in those of all.
    let (at, back) = (u64::from(me.0) * SHARE, u64::from(size) * SHARE);
    for to in (0..size).map(RankId) {
        for len in [0, 1, 2, 4, 8, 9, 31, 32, 33, 48, 49, 100, 1000, 4096] {
            let mut data = [0; 4096];
            let (data, _) = data.split_at_mut(len);
            let mut read = [0; 4096];
            let (read, _) = read.split_at_mut(len);
            // Aligned and not.
            for shift in [0, 1, 8] {
                done += 1;
                data.iter_mut().enumerate().for_each(|(i, byte)| *byte = pattern(done, i));
                rank.put(to, at + shift, data)?;
                rank.get(to, at + shift, read)?;
                expect(read == data, "a get behind a put")?;
                let event = rank.put_nb(to, at + 8192 + shift, data)?;
                rank.wait(event)?;
                // Into the own segment, and from there to where it came from.
                let own = SegRange { off: back + shift, len: len as u64 };
                let event = rank.get_nb_into(to, at + 8192 + shift, own)?;
                rank.wait(event)?;
                rank.get(me, own.off, read)?;
                expect(read == data, "a get into the segment")?;
                let mut event = rank.put_nb_from(to, at + 16384 + shift, own)?;
                while !rank.test(&mut event) {
                    rank.poll()?;
                }
                read.fill(0);
                rank.get(to, at + 16384 + shift, read)?;
                expect(read == data, "a put from the segment")?;
            }
            rank.fill(to, at, done as u8, len as u64)?;
            rank.get(to, at, read)?;
            expect(read.iter().all(|byte| *byte == done as u8), "a fill")?;
        }
        values(rank, to, at)?;
        implicit(rank, to, at, back)?;
        refusals(rank, to)?;
    }
    rank.barrier(BarrierName::Anonymous)?;
    Ok(done)
}

/// Numbers of every size, aligned and not.
fn values(rank: &mut Rank<State>, to: RankId, at: u64) -> Result<(), Fault> {
    let wide = 0xFEDC_BA98_7654_3210_u64;
    for shift in 0..8 {
        let at = at + shift;
        rank.put_value(to, at, wide)?;
        expect(rank.get_value::<u64>(to, at)? == wide, "8 bytes")?;
        rank.put_value(to, at, 0x8765_4321_u32)?;
        expect(rank.get_value::<u32>(to, at)? == 0x8765_4321, "4 bytes")?;
        expect(rank.get_value::<u64>(to, at)? == wide & !0xFFFF_FFFF | 0x8765_4321, "the rest of 8 bytes")?;
        let event = rank.put_value_nb(to, at, 0x5A5A_u16)?;
        rank.wait(event)?;
        rank.put_value_nbi(to, at + 2, 0xA5_u8)?;
        rank.wait_nbi(Which::Puts)?;
        expect(rank.get_value::<u32>(to, at)? == 0x87A5_5A5A, "1 and 2 bytes")?;
    }
    Ok(())
}

/// Transfers without events, in access regions and outside, more than there are events.
fn implicit(rank: &mut Rank<State>, to: RankId, at: u64, back: u64) -> Result<(), Fault> {
    for i in 0..100 {
        rank.put_nbi(to, at + i * 8, &(i * 3).to_le_bytes())?;
    }
    rank.wait_nbi(Which::Puts)?;
    expect(rank.test_nbi(Which::All), "all are done")?;
    rank.get_nbi_into(to, at, SegRange { off: back, len: 800 })?;
    rank.wait_nbi(Which::Gets)?;
    for i in 0..100 {
        expect(rank.get_value::<u64>(rank.me(), back + i * 8)? == i * 3, "an implicit get")?;
    }
    let event = rank.region(|rank| {
        let inner = rank.region(|_| Ok(()));
        assert!(inner == Err(GasError::Region));
        rank.fill_nbi(to, at, 9, 2000)?;
        rank.put_nbi_from(to, at + 2000, SegRange { off: back, len: 800 })
    })?;
    // The region's event is not among those without one.
    rank.wait_nbi(Which::All)?;
    rank.wait(event)?;
    expect(rank.get_value::<u64>(to, at + 1992)? == 0x0909_0909_0909_0909, "a fill in a region")?;
    expect(rank.get_value::<u64>(to, at + 2000 + 99 * 8)? == 297, "a put in a region")?;
    let mut events = [const { Event::DONE }; 80];
    expect(rank.test_all(&mut events) && rank.test_some(&mut events), "none is under way")?;
    for (i, event) in events.iter_mut().enumerate() {
        *event = rank.put_value_nb(to, at + i as u64 * 4, i as u32)?;
    }
    while !rank.test_all(&mut events) {
        rank.wait_some(&mut events)?;
    }
    for (i, event) in events.iter_mut().enumerate() {
        *event = rank.put_value_nb(to, at + i as u64 * 4, i as u32 + 1)?;
    }
    rank.wait_all(&mut events)?;
    expect(events.iter().all(|event| *event == Event::DONE), "all were waited for")?;
    for i in 0..events.len() {
        expect(rank.get_value::<u32>(to, at + i as u64 * 4)? == i as u32 + 1, "a value with an event")?;
    }
    Ok(())
}

/// What leaves a segment is refused by name, and nothing is written.
fn refusals(rank: &mut Rank<State>, to: RankId) -> Result<(), Fault> {
    let len = rank.segment_len(to)?;
    let none = RankId(rank.size());
    let own = SegRange { off: rank.segment_len(rank.me())? - 7, len: 8 };
    let mut byte = [0; 8];
    let refused = |result: Result<(), GasError>, at: RankId| {
        expect(matches!(result, Err(GasError::Reach { rank, .. }) if rank == at.0), "a transfer outside of a segment")
    };
    refused(rank.put(to, len - 7, &[1; 8]), to)?;
    refused(rank.get(to, len - 7, &mut byte), to)?;
    refused(rank.put(to, u64::MAX, &[1; 8]), to)?;
    refused(rank.fill(to, len - 1, 1, 2), to)?;
    refused(rank.fill(to, 1, 1, u64::MAX), to)?;
    refused(rank.put_nbi_from(to, 0, own), rank.me())?;
    refused(rank.get_nbi_into(to, 0, own), rank.me())?;
    refused(rank.get_nbi_into(to, len - 7, SegRange { off: 0, len: 8 }), to)?;
    expect(rank.put(none, 0, &[1]).is_err() && rank.get(none, 0, &mut byte).is_err(), "no rank")
}

/// One rank has another name than the others, or says something else. The outcome at each rank: 0 agreed
/// on none, 1 on a name, 2 a mismatch that names `who`, 3 one that does not.
#[offload]
pub fn barrier_names(rank: &mut Rank<State>, who: u32, what: u32) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    let usual = BarrierName::Named(5);
    let (notify, wait) = match what {
        _ if rank.me().0 != who => (usual, usual),
        0 => (usual, usual),
        1 => (BarrierName::Named(6), BarrierName::Named(6)),
        2 => (BarrierName::Mismatch, BarrierName::Mismatch),
        3 => (BarrierName::Anonymous, BarrierName::Anonymous),
        4 => (BarrierName::Anonymous, usual),
        5 => (BarrierName::Anonymous, BarrierName::Named(6)),
        _ => (usual, BarrierName::Mismatch),
    };
    expect(rank.barrier_wait(wait) == Err(GasError::BarrierOrder { notified: false }), "not notified")?;
    rank.barrier_notify(notify)?;
    expect(rank.barrier_notify(notify) == Err(GasError::BarrierOrder { notified: true }), "notified twice")?;
    let outcome = match rank.barrier_wait(wait) {
        Ok(None) => 0,
        Ok(Some(name)) => name - 4,
        Err(GasError::BarrierNames { one, other }) if one.0 == who || other.0 == who => 2,
        Err(GasError::BarrierNames { .. }) => 3,
        Err(other) => return Err(other.into()),
    };
    // The next one is as any.
    expect(rank.barrier(BarrierName::Named(7))? == Some(7), "the next barrier")?;
    rank.hold_interrupts()?;
    expect(rank.hold_interrupts() == Err(GasError::Interrupts { held: true }), "held twice")?;
    rank.resume_interrupts()?;
    expect(rank.resume_interrupts() == Err(GasError::Interrupts { held: false }), "resumed twice")?;
    Ok(outcome)
}

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
            let base = lane.ok_or_else(|| Fault::msg("no lane"))?.req_base + (next() % 17) * 64;
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

/// All but the last rank wait in a barrier, for ever; that one polls.
#[offload]
pub fn waits_in_a_barrier(rank: &mut Rank<State>) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    if rank.me().0 + 1 == rank.size() {
        rank.block_until(|_| false)?;
    }
    rank.barrier(BarrierName::Anonymous)?;
    Ok(0)
}

/// The last rank has rank 0 panic, or exit with a code, while all ranks wait for messages.
#[offload]
pub fn ends(rank: &mut Rank<State>, code: Option<u8>) -> Result<u32, Fault> {
    rank.attach(&TABLE)?;
    if rank.me().0 + 1 == rank.size() {
        match code {
            None => rank.request_short(RankId(0), PANICS, &[])?,
            Some(code) => rank.request_short(RankId(0), EXITS, &[i32::from(code)])?,
        }
    }
    rank.block_until(|_| false)?;
    Ok(0)
}
