//! Ways to call: by the node, by a stream that threads share, as a future, in two halves; around a
//! handler that takes time; one call at a time by the clock.

use super::floors::Gap;
use super::instructions::{host_submit, host_take};
use super::{BoxError, PER_SAMPLE, SAMPLES};
use hamr::{Buffer, Node, SharedStream, Stream};
use hamr_kernels::bench::{call_host, empty, empty_task, pointers, spend};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Lengths of the handlers of `call_over_handler`, in nanoseconds.
pub(crate) const HANDLERS: [u32; 5] = [100, 500, 1000, 2000, 5000];
/// Calls of one repetition of `call_single`.
const SINGLE: usize = 4000;

/// `Node::sync`: an empty call on the thread's own stream.
pub(crate) fn by_node(node: &Node) -> Result<Vec<f64>, BoxError> {
    (0..SAMPLES).map(|_| Gap::NONE.sample(|| Ok(node.sync(empty::with())?))).collect()
}

/// A call with a scalar and two buffers.
pub(crate) fn pointers_of(stream: &Stream<'_>, [x, y]: &[Buffer<f32>; 2]) -> Result<Vec<f64>, BoxError> {
    let once = |_| Gap::NONE.sample(|| Ok(stream.sync(pointers::with(0.5, x.ptr(), y.ptr()))?));
    (0..SAMPLES).map(once).collect()
}

/// An empty task.
pub(crate) fn task(stream: &Stream<'_>) -> Result<Vec<f64>, BoxError> {
    (0..SAMPLES / 5).map(|_| Gap::NONE.sample(|| Ok(stream.sync(empty_task::with())?))).collect()
}

/// An empty call that a task makes, of the thread that waits for it.
pub(crate) fn from_device(stream: &Stream<'_>) -> Result<Vec<f64>, BoxError> {
    let once = |_| {
        let begin = Instant::now();
        stream.sync(call_host::with(PER_SAMPLE, 0))?;
        Ok(begin.elapsed().as_nanos() as f64 / f64::from(PER_SAMPLE))
    };
    (0..SAMPLES / 5).map(once).collect()
}

/// `Stream::start` and `Started::wait`: an empty call in two halves, in the functions whose
/// instructions are counted. A second copy of either would change what the compiler inlines there.
pub(crate) fn in_two_halves(stream: &Stream<'_>) -> Result<Vec<f64>, BoxError> {
    let once = || match host_submit(stream).is_some_and(host_take) {
        true => Ok(()),
        false => Err("a call failed".into()),
    };
    (0..SAMPLES).map(|_| Gap::NONE.sample(once)).collect()
}

/// An empty call as a future, polled in a loop.
pub(crate) fn awaited(stream: &Stream<'_>) -> Result<Vec<f64>, BoxError> {
    let mut task = Context::from_waker(Waker::noop());
    let once = |_| {
        Gap::NONE.sample(|| {
            let mut pending = pin!(stream.offload(empty::with())?);
            loop {
                if let Poll::Ready(done) = Future::poll(Pin::as_mut(&mut pending), &mut task) {
                    return Ok(done?);
                }
            }
        })
    };
    (0..SAMPLES).map(once).collect()
}

/// An empty call on a stream that `threads` threads call at the same time, per call of any. They
/// all run on the host's processor, as far as there is no other: the device needs its own.
pub(crate) fn shared(stream: &SharedStream, threads: u32) -> Result<Vec<f64>, BoxError> {
    let calls = PER_SAMPLE * SAMPLES / threads;
    let work = || -> Result<(), String> {
        for _ in 0..calls {
            stream.sync(empty::with()).map_err(|e| e.to_string())?;
        }
        Ok(())
    };
    if threads == 1 {
        return (0..SAMPLES).map(|_| Gap::NONE.sample(|| Ok(stream.sync(empty::with())?))).collect();
    }
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        work()?;
        others.into_iter().try_for_each(|other| other.join().map_err(|_| "a thread panicked".to_owned())?)
    })?;
    Ok(vec![begin.elapsed().as_nanos() as f64 / f64::from(calls * threads)])
}

/// Single empty calls by the clock, which is read twice for each.
pub(crate) fn single(stream: &Stream<'_>) -> Result<Vec<f64>, BoxError> {
    let once = |_| {
        let begin = Instant::now();
        stream.sync(empty::with())?;
        Ok(begin.elapsed().as_nanos() as f64)
    };
    (0..SINGLE).map(once).collect()
}

/// How long a handler takes on the device, by its number of turns.
pub(crate) struct Handlers {
    per_turn: f64,
}

impl Handlers {
    /// Calibrates: the difference of two handlers, in which the calls cancel out. Of each the
    /// fastest run, since an interrupt only adds.
    pub(crate) fn calibrate(stream: &Stream<'_>) -> Result<Self, BoxError> {
        const TURNS: u32 = 30_000;
        let mut fastest = [f64::INFINITY; 2];
        for _ in 0..6 {
            for (turns, fastest) in [TURNS, 3 * TURNS].into_iter().zip(&mut fastest) {
                let begin = Instant::now();
                stream.sync(spend::with(turns))?;
                *fastest = fastest.min(begin.elapsed().as_nanos() as f64);
            }
        }
        match (fastest[1] - fastest[0]) / f64::from(2 * TURNS) {
            per_turn if per_turn > 0.0 => Ok(Self { per_turn }),
            _ => Err("a handler of more turns took no longer".into()),
        }
    }

    /// A handler of `ns`: its turns, and the time that they take.
    pub(crate) fn of(&self, ns: u32) -> (u32, f64) {
        let turns = (f64::from(ns) / self.per_turn).round();
        (turns as u32, turns * self.per_turn)
    }

    /// Calls of a handler of so many turns.
    pub(crate) fn around(stream: &Stream<'_>, turns: u32) -> Result<Vec<f64>, BoxError> {
        let once = |_| Gap::NONE.sample(|| Ok(stream.sync(spend::with(turns))?));
        (0..SAMPLES / 5).map(once).collect()
    }
}

/// An empty call on each of `streams` in turn.
pub(crate) fn in_turn(streams: &[Stream<'_>]) -> Result<Vec<f64>, BoxError> {
    let mut turn = streams.iter().cycle();
    let mut once = || match turn.next() {
        Some(stream) => Ok(stream.sync(empty::with())?),
        None => Err("no stream".into()),
    };
    // The slots of a stream that was just opened are in no cache of either side; the first calls
    // bring them in.
    for _ in 0..2 * streams.len() {
        once()?;
    }
    (0..SAMPLES).map(|_| Gap::NONE.sample(&mut once)).collect()
}
