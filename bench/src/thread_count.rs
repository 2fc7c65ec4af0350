//! Two threads that call at the same time, each in its stream, for callgrind to count.

use super::BoxError;
use super::ahead::Ahead;
use hamr::Stream;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls of both threads so far.
static TURN: AtomicU64 = AtomicU64::new(0);

/// Makes `calls` calls by `call` in two threads, which take turns: callgrind runs one thread at a time,
/// and each finds what the other has left. Returns the streams, which stay open.
pub(super) fn run<'n>(
    streams: [(Stream<'n>, Ahead); 2],
    calls: u64,
    call: impl Fn(&Stream<'_>) -> bool + Copy + Send,
) -> Result<[Stream<'n>; 2], BoxError> {
    let ran = std::thread::scope(|scope| {
        let mut first = 0;
        let threads = streams.map(|(stream, mut ahead)| {
            let turns = (first..calls).step_by(2);
            first += 1;
            scope.spawn(move || {
                let all = threads_counted(&stream, &mut ahead, turns, call);
                (stream, all)
            })
        });
        threads.map(|thread| thread.join())
    });
    let mut all = true;
    let streams = ran.map(|joined| {
        joined.map(|(stream, ran)| {
            all &= ran;
            stream
        })
    });
    match streams {
        [Ok(a), Ok(b)] if all => Ok([a, b]),
        _ => Err("a call of two threads failed".into()),
    }
}

/// Calls what is counted; nothing is waited for in there.
#[inline(never)]
fn threads_counted(
    stream: &Stream<'_>,
    ahead: &mut Ahead,
    turns: impl Iterator<Item = u64>,
    call: impl Fn(&Stream<'_>) -> bool,
) -> bool {
    let mut all = true;
    for turn in turns {
        while TURN.load(Ordering::Acquire) != turn {
            std::thread::yield_now();
        }
        ahead.answer(0);
        all &= call(stream);
        TURN.store(turn + 1, Ordering::Release);
    }
    all
}
