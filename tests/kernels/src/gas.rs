//! Programs over GASNet's interface, each a call of every rank of a world. They check, and return how
//! many things they checked.

mod attacks;
mod memory;
mod messages;
mod phases;
mod teams;

pub use attacks::*;
pub use memory::*;
pub use messages::*;
pub use phases::*;
pub use teams::*;

use hamr_comm::Fault;
use hamr_comm::world::RankId;
use hamr_gas::{GasError, Handlers, Kinds, Msg, Rank, Token};

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
const SUM_LONG: u8 = 19;
const SUMMED: u8 = 0;

static TABLE: Handlers<State> = Handlers::new()
    .request(ECHO_SHORT, Kinds::SHORT, "echo_short", |state: &mut State, msg, token| {
        state.wrong += u32::from(msg.kind() != Kinds::SHORT);
        token.reply_short(ECHOED_SHORT, msg.args());
    })
    .request(ECHO_MEDIUM, Kinds::MEDIUM, "echo_medium", echo_medium)
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
    .request(SUM_LONG, Kinds::LONG, "sum_long", sum_long)
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
        let ok = msg.kind() == Kinds::MEDIUM && has_args(state, &msg) && is_pattern(state, msg.payload());
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

/// Every other reply is a prepared one.
fn echo_medium(state: &mut State, mut msg: Msg<'_>, token: Token<'_>) {
    state.wrong += u32::from(msg.kind() != Kinds::MEDIUM);
    let (args, payload) = (msg.args(), msg.payload());
    if args.len() % 2 == 0 {
        return token.reply_medium(ECHOED_MEDIUM, args, payload);
    }
    let prepared = token.prepare_medium(payload.len(), usize::MAX).and_then(|mut reply| {
        for (at, piece) in (0..).step_by(100).zip(payload.chunks(100)) {
            reply.write(at, piece)?;
        }
        let (end, size) = (reply.write(reply.size(), &[1]), reply.size());
        state.wrong += u32::from(end != Err(GasError::TooLong { len: size + 1, max: size }));
        reply.commit(ECHOED_MEDIUM, args, payload.len())
    });
    state.wrong += u32::from(prepared.is_err());
}

/// Copies what came to where the asking rank waits for it; every other time piece by piece.
fn echo_long(state: &mut State, msg: Msg<'_>, token: Token<'_>) {
    let Some(at) = msg.landed() else { return };
    let (mut bytes, dest) = ([0; 4096], (64 + u64::from(msg.me().0)) * PLACE);
    if msg.args().len() % 2 == 0 {
        let (bytes, _) = bytes.split_at_mut((at.len as usize).min(4096));
        if msg.get(at.off, bytes).is_ok() {
            token.reply_long(ECHOED_LONG, msg.args(), bytes, dest);
        }
        return;
    }
    let prepared = token.prepare_long(at.len as usize, usize::MAX, dest).and_then(|mut reply| {
        for from in (0..at.len).step_by(100) {
            let (bytes, _) = bytes.split_at_mut((at.len - from).min(100) as usize);
            state.wrong += u32::from(msg.get(at.off + from, bytes).is_err());
            reply.write(from as usize, bytes)?;
        }
        reply.commit(ECHOED_LONG, msg.args(), at.len as usize)
    });
    state.wrong += u32::from(prepared.is_err());
}

fn sum_long(_: &mut State, msg: Msg<'_>, token: Token<'_>) {
    let Some(at) = msg.landed() else { return };
    let mut bytes = [0; 2048];
    let (bytes, _) = bytes.split_at_mut((at.len as usize).min(2048));
    if msg.get(at.off, bytes).is_ok() {
        token.reply_short(SUMMED, &[msg.args().first().copied().unwrap_or_default(), sum(bytes) as i32]);
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
