//! Calls between two sides that sleep: each call is a notification in each direction. The floor is
//! the same between two threads that only use an eventfd each.

use super::stats::median;
use super::table::{Beside, Key, Table};
use super::{BoxError, REPETITIONS};
use hamr::{Node, Stream};
use hamr_comm::{Call, Fault, Handler};
use hamr_kernels::bench::{call_host, call_other, empty};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::{read, write};
use std::time::{Duration, Instant};

/// Samples of one repetition, a round trip each.
const SAMPLES: u32 = 100;
/// Calls of one sample on one processor, of which each may take half a millisecond.
const ON_ONE: u32 = 20;
/// The pause before each round trip, after which both sides sleep.
const PAUSE: Duration = Duration::from_micros(60);

/// Adds the row `call_asleep`: both the device and this program sleep between calls.
pub(crate) fn call_asleep(node: &Node, cpu: usize, table: &mut Table) -> Result<(), BoxError> {
    let stream = node.stream()?;
    sample(|| call(&stream))?;
    let doorbells = FloorDoorbells::new(cpu)?;
    for _ in 0..REPETITIONS {
        let floor = sample(|| doorbells.round_trip())?;
        let calls = sample(|| call(&stream))?;
        table.add(Key::new("call_asleep"), &calls, Some(Beside { what: "eventfds", ns: &floor }));
    }
    Ok(())
}

/// Adds the row `call_one_processor`: the device has this program's processor, beside a device there that sleeps at once.
pub(crate) fn call_one_processor(node: &Node, asleep: &Node, table: &mut Table) -> Result<(), BoxError> {
    let (stream, to_asleep) = (node.stream()?, asleep.stream()?);
    let each = |stream: &Stream<'_>| -> Result<f64, BoxError> {
        let begin = Instant::now();
        for _ in 0..ON_ONE {
            call(stream)?;
        }
        Ok(begin.elapsed().as_nanos() as f64 / f64::from(ON_ONE))
    };
    for _ in 0..REPETITIONS {
        let floor = each(&to_asleep)?;
        table.add(Key::new("call_one_processor"), &[each(&stream)?], Some(Beside { what: "asleep", ns: &[floor] }));
    }
    Ok(())
}

/// Adds the row `host_call_asleep`: the device calls this program, of which no thread waits, and both
/// sleep between calls.
pub(crate) fn host_call_asleep(node: &Node, cpu: usize, table: &mut Table) -> Result<(), BoxError> {
    let stream = node.stream()?;
    let doorbells = FloorDoorbells::new(cpu)?;
    let pause = PAUSE.as_micros() as u32;
    for _ in 0..REPETITIONS {
        let floor = sample(|| doorbells.round_trip())?;
        let ns = from_device(&stream, call_host::with(SAMPLES, pause))?;
        table.add(Key::new("host_call_asleep"), &[ns], Some(Beside { what: "eventfds", ns: &floor }));
    }
    Ok(())
}

/// Adds the row `relay_call_asleep`: a task of `node` calls the device `other`, and all three programs sleep
/// between calls. Awake they would need three processors.
pub(crate) fn relay_call_asleep(node: &Node, other: &Node, table: &mut Table) -> Result<(), BoxError> {
    let (stream, to_other) = (node.stream()?, other.stream()?);
    let (pause, number) = (PAUSE.as_micros() as u32, other.info().node);
    for _ in 0..REPETITIONS {
        let to_host = from_device(&stream, call_host::with(SAMPLES, pause))?;
        let apart = to_host + median(&sample(|| call(&to_other))?);
        let ns = from_device(&stream, call_other::with(number, SAMPLES, pause))?;
        table.add(Key::new("relay_call_asleep"), &[ns], Some(Beside { what: "the two apart", ns: &[apart] }));
    }
    Ok(())
}

/// Nanoseconds of each of [`SAMPLES`] that a task makes, while this thread sleeps.
fn from_device<H>(stream: &Stream<'_>, calls: Call<H>) -> Result<f64, BoxError>
where
    H: Handler<Output = Result<u64, Fault>>,
{
    let calls = stream.offload(calls)?;
    while !calls.is_done() {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(calls.wait()? as f64 * 1000.0 / f64::from(SAMPLES))
}

fn call(stream: &Stream<'_>) -> Result<(), BoxError> {
    Ok(stream.sync(empty::with())?)
}

fn sample(mut once: impl FnMut() -> Result<(), BoxError>) -> Result<Vec<f64>, BoxError> {
    let one = |_| {
        let begin = Instant::now();
        while begin.elapsed() < PAUSE {
            std::hint::spin_loop();
        }
        let begin = Instant::now();
        once()?;
        Ok(begin.elapsed().as_nanos() as f64)
    };
    (0..SAMPLES).map(one).collect()
}

/// Two threads that wake each other.
struct FloorDoorbells {
    there: OwnedFd,
    back: OwnedFd,
}

impl FloorDoorbells {
    /// The second thread runs on the device's processor until this value is dropped.
    fn new(cpu: usize) -> Result<Self, BoxError> {
        let one = || eventfd(0, EventfdFlags::CLOEXEC);
        let (there, back) = (one()?, one()?);
        let (theirs, answer) = (there.try_clone()?, back.try_clone()?);
        let work = move || {
            let mut set = rustix::thread::CpuSet::new();
            set.set(cpu);
            // Without that processor the floor is still valid.
            let _ = rustix::thread::sched_setaffinity(None, &set);
            let mut notified = [0; 8];
            // A value above one means the end.
            while read(&theirs, &mut notified).is_ok() && u64::from_ne_bytes(notified) == 1 {
                if write(&answer, &1u64.to_ne_bytes()).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("hamr-floor".into()).spawn(work)?;
        Ok(Self { there, back })
    }

    fn round_trip(&self) -> Result<(), BoxError> {
        write(&self.there, &1u64.to_ne_bytes())?;
        read(&self.back, &mut [0; 8])?;
        Ok(())
    }
}

impl Drop for FloorDoorbells {
    fn drop(&mut self) {
        // An error means that there is no thread to end.
        let _ = write(&self.there, &2u64.to_ne_bytes());
    }
}
