//! Calls: one at a time by size, many in flight, unread, one-way.

use super::floors::Gap;
use super::{BoxError, SAMPLES};
use hamr::{Pending, Stream};
use hamr_kernels::bench::{empty, sum_4, sum_6, sum_8, sum_14, sum_many};
use std::hint::black_box;
use std::time::Instant;

/// Unread results of `call_unread`.
const UNREAD: usize = 100_000;
/// Calls of one sample of `call_async` and `call_window`.
const PIPELINED: usize = 1280;

/// An empty call, waited for.
pub(crate) fn call_empty(stream: &Stream<'_>, gap: Gap) -> Result<Vec<f64>, BoxError> {
    (0..SAMPLES).map(|_| gap.sample(|| Ok(stream.sync(empty::with())?))).collect()
}

/// One function per handler: the result of a call is an argument of the next one.
macro_rules! sized_calls {
    ($($name:ident: $handler:ident, $words:literal;)*) => {$(
        pub(crate) fn $name(stream: &Stream<'_>) -> Result<Vec<f64>, BoxError> {
            let gap = Gap::NONE;
            let mut a = [0u64; $words];
            let once = |_| {
                gap.sample(|| {
                    a[0] = black_box(stream.sync($handler::with(a))?);
                    Ok(())
                })
            };
            (0..SAMPLES).map(once).collect()
        }
    )*};
}

sized_calls! {
    call_48b: sum_6, 6;
    call_64b: sum_8, 8;
    call_112b: sum_14, 14;
}

/// `WORDS` times 8 bytes of arguments, and their number in 4 more; 8 of result.
pub(crate) fn call_words<const WORDS: usize>(stream: &Stream<'_>) -> Result<Vec<f64>, BoxError> {
    let words: heapless::Vec<u64, 128> = (0..WORDS as u64).collect();
    let once = |_| {
        Gap::NONE.sample(|| {
            black_box(stream.sync(sum_many::with(words.clone()))?);
            Ok(())
        })
    };
    (0..SAMPLES).map(once).collect()
}

/// 32 bytes of arguments, 8 of result.
pub(crate) fn call_32b(stream: &Stream<'_>) -> Result<Vec<f64>, BoxError> {
    let mut a = 0u64;
    let once = |_| {
        Gap::NONE.sample(|| {
            a = black_box(stream.sync(sum_4::with(a, 2, 3, 4))?);
            Ok(())
        })
    };
    (0..SAMPLES).map(once).collect()
}

/// `WINDOW` calls in flight; each result is read before the next call is sent.
pub(crate) fn call_async<const WINDOW: usize>(stream: &Stream<'_>) -> Result<Vec<f64>, BoxError> {
    let mut out = Vec::new();
    for _ in 0..3 {
        let begin = Instant::now();
        let mut flight = [const { None }; WINDOW];
        for i in 0..PIPELINED + WINDOW {
            let place = &mut flight[i % WINDOW];
            if let Some(pending) = Option::take(place) {
                Pending::wait(pending)?;
            }
            if i < PIPELINED {
                *place = Some(stream.offload(empty::with())?);
            }
        }
        out.push(begin.elapsed().as_nanos() as f64 / PIPELINED as f64);
    }
    Ok(out)
}

/// [`UNREAD`] calls sent before any result is read; then read last first. The first round, which
/// touches the memory for the first time, is not counted.
pub(crate) fn call_unread(stream: &Stream<'_>) -> Result<Vec<f64>, BoxError> {
    let mut out = Vec::new();
    let mut flight = Vec::with_capacity(UNREAD);
    for round in 0..2 {
        let begin = Instant::now();
        for i in 0..UNREAD as u64 {
            flight.push((i, stream.offload(sum_4::with(i, 1, 0, 0))?));
        }
        while let Some((i, pending)) = flight.pop() {
            if pending.wait()? != i + 1 {
                return Err(format!("call {i} got another call's result").into());
            }
        }
        if round > 0 {
            out.push(begin.elapsed().as_nanos() as f64 / UNREAD as f64);
        }
    }
    Ok(out)
}

/// Calls without a result, until all have run.
pub(crate) fn one_way(stream: &Stream<'_>) -> Result<Vec<f64>, BoxError> {
    const CALLS: u32 = 20_000;
    let begin = Instant::now();
    for _ in 0..CALLS {
        stream.send(empty::with())?;
    }
    stream.flush()?;
    let ns = begin.elapsed().as_nanos() as f64 / f64::from(CALLS);
    match stream.one_way_failures() {
        0 => Ok(vec![ns]),
        failed => Err(format!("{failed} one-way calls failed").into()),
    }
}
