//! Calls: one at a time, many in flight, unread, one-way, on one stream of many.

use super::floors::Gap;
use super::{BoxError, PER_SAMPLE};
use hamr::{Node, Stream};
use hamr_kernels::bench::{empty, sum_4, sum_6};
use std::hint::black_box;
use std::time::Instant;

/// Calls in flight of `call_async`.
pub(crate) const WINDOW: usize = 64;
/// Unread results of `call_unread`.
pub(crate) const UNREAD: usize = 100_000;

/// An empty call, waited for.
pub(crate) fn call_empty(stream: &Stream<'_>, samples: u32, gap: Gap) -> Result<Vec<f64>, BoxError> {
    (0..samples).map(|_| gap.sample(|| Ok(stream.sync(empty::with())?))).collect()
}

/// 32 bytes of arguments, 8 of result.
pub(crate) fn call_32b(stream: &Stream<'_>, samples: u32, gap: Gap) -> Result<Vec<f64>, BoxError> {
    let mut a = 0u64;
    (0..samples)
        .map(|_| {
            gap.sample(|| {
                a = black_box(stream.sync(sum_4::with(a, 2, 3, 4))?);
                Ok(())
            })
        })
        .collect()
}

/// 48 bytes of arguments, 8 of result.
pub(crate) fn call_48b(stream: &Stream<'_>, samples: u32, gap: Gap) -> Result<Vec<f64>, BoxError> {
    let mut a = [0u64; 6];
    (0..samples)
        .map(|_| {
            gap.sample(|| {
                a[0] = black_box(stream.sync(sum_6::with(a))?);
                Ok(())
            })
        })
        .collect()
}

/// [`WINDOW`] calls in flight; each result is read before the next call is sent.
pub(crate) fn call_async(stream: &Stream<'_>, samples: u32) -> Result<Vec<f64>, BoxError> {
    const CALLS: usize = 20 * WINDOW;
    let mut out = Vec::new();
    for _ in 0..samples {
        let begin = Instant::now();
        let mut flight = [(); WINDOW].map(|()| None);
        for i in 0..CALLS + WINDOW {
            let place = &mut flight[i % WINDOW];
            if let Some(pending) = Option::take(place) {
                hamr::Pending::wait(pending)?;
            }
            if i < CALLS {
                *place = Some(stream.offload(empty::with())?);
            }
        }
        out.push(begin.elapsed().as_nanos() as f64 / CALLS as f64);
    }
    Ok(out)
}

/// [`UNREAD`] calls sent before any result is read; then read last first.
pub(crate) fn call_unread(stream: &Stream<'_>, samples: u32) -> Result<Vec<f64>, BoxError> {
    let mut out = Vec::new();
    let mut flight = Vec::with_capacity(UNREAD);
    for _ in 0..samples {
        let begin = Instant::now();
        for i in 0..UNREAD as u64 {
            flight.push((i, stream.offload(sum_4::with(i, 1, 0, 0))?));
        }
        while let Some((i, pending)) = flight.pop() {
            if pending.wait()? != i + 1 {
                return Err(format!("call {i} got another call's result").into());
            }
        }
        out.push(begin.elapsed().as_nanos() as f64 / UNREAD as f64);
    }
    Ok(out)
}

/// Calls without a result, until all have run.
pub(crate) fn one_way(stream: &Stream<'_>, samples: u32) -> Result<Vec<f64>, BoxError> {
    const CALLS: u32 = 20_000;
    let mut out = Vec::new();
    for _ in 0..samples {
        let begin = Instant::now();
        for _ in 0..CALLS {
            stream.send(empty::with())?;
        }
        stream.flush()?;
        out.push(begin.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    if stream.one_way_failures() != 0 {
        return Err(format!("{} one-way calls failed", stream.one_way_failures()).into());
    }
    Ok(out)
}

/// An empty call on one of 64 open streams; the others are idle.
pub(crate) fn streams_64(node: &Node, which: usize, samples: u32, gap: Gap) -> Result<Vec<f64>, BoxError> {
    let streams = (0..64).map(|_| node.stream()).collect::<Result<Vec<_>, _>>()?;
    let stream = streams.get(which % 64).ok_or("no stream")?;
    // The slots of a stream that was just opened are in no cache of either side; the first calls
    // bring them in.
    for _ in 0..PER_SAMPLE {
        stream.sync(empty::with())?;
    }
    call_empty(stream, samples, gap)
}
