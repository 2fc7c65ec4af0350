//! What the system offers for a round trip between two threads on two processors: a shared cache
//! line, a pipe, an eventfd. The line also says which spell the machine is in.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::{read, write};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// A line's round trip below this many nanoseconds: the processors share a cache, as `hamr-bench`
/// has it.
const NEAR_BELOW: f64 = 200.0;

/// The two processors of every measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cpus {
    pub(super) host: usize,
    pub(super) device: usize,
}

impl Cpus {
    /// The first two that this process may use.
    pub(super) fn find() -> Option<Self> {
        let allowed = sched_getaffinity(None).ok()?;
        let mut free = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
        Some(Self { host: free.next()?, device: free.next()? })
    }
}

/// `near` or `far`, by a few round trips of a cache line.
pub(super) fn spell(cpus: Cpus) -> &'static str {
    if line(cpus) < NEAR_BELOW { "near" } else { "far" }
}

#[repr(align(128))]
struct Line(AtomicU32);

/// Nanoseconds per round trip of a line: the faster of polling with pauses and without.
pub(super) fn line(cpus: Cpus) -> f64 {
    const ROUNDS: u32 = 20_000;
    let once = |paused: bool| {
        let line = Line(AtomicU32::new(0));
        let await_value = |value| {
            // Acquire and Release pair with each other: the other thread's store below.
            while line.0.load(Ordering::Acquire) != value {
                if paused {
                    spin_loop();
                }
            }
        };
        let ping = || {
            for i in 0..ROUNDS {
                line.0.store(2 * i + 1, Ordering::Release);
                await_value(2 * i + 2);
            }
        };
        let pong = || {
            for i in 0..ROUNDS {
                await_value(2 * i + 1);
                line.0.store(2 * i + 2, Ordering::Release);
            }
        };
        beside(cpus, pong, ping) / f64::from(ROUNDS)
    };
    once(false).min(once(true))
}

/// Nanoseconds per round trip of a byte through two pipes, or of an eventfd each way.
pub(super) fn descriptors(cpus: Cpus) -> std::io::Result<[(&'static str, f64); 2]> {
    let pipe = || rustix::pipe::pipe();
    let (there, back) = (pipe()?, pipe()?);
    let pipes = round_trips(cpus, (&there.1, &there.0), (&back.1, &back.0), &[1]);
    let event = || eventfd(0, EventfdFlags::CLOEXEC);
    let (there, back) = (event()?, event()?);
    let events = round_trips(cpus, (&there, &there), (&back, &back), &1u64.to_ne_bytes());
    Ok([("POSIX pipe", pipes), ("eventfd", events)])
}

/// Each pair: where to write, where to read.
fn round_trips(cpus: Cpus, there: (&OwnedFd, &OwnedFd), back: (&OwnedFd, &OwnedFd), message: &[u8]) -> f64 {
    const ROUNDS: u32 = 3000;
    // All ends stay open and every message fits, so no call fails while the system has memory.
    let send = |to: &OwnedFd| write(to, message).is_ok();
    let receive = |from: &OwnedFd| read(from, &mut [0; 8]).is_ok();
    let pong = || {
        (0..ROUNDS).all(|_| receive(there.1) && send(back.0));
    };
    let ping = || {
        (0..ROUNDS).all(|_| send(there.0) && receive(back.1));
    };
    beside(cpus, pong, ping) / f64::from(ROUNDS)
}

/// Nanoseconds that `own` takes on the host's processor, beside `other` on the device's.
fn beside(cpus: Cpus, other: impl FnOnce() + Send, own: impl FnOnce() + Send) -> f64 {
    let on = |cpu: usize| {
        let mut set = CpuSet::new();
        set.set(cpu);
        // Where it is refused, the threads run where the system puts them, and the row is slow.
        let _ = sched_setaffinity(None, &set);
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            on(cpus.device);
            other();
        });
        let timed = scope.spawn(move || {
            on(cpus.host);
            let begin = Instant::now();
            own();
            begin.elapsed().as_nanos() as f64
        });
        timed.join().unwrap_or(f64::NAN)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_makes_its_round_trips() {
        let Some(cpus) = Cpus::find() else { return };
        assert_ne!(cpus.host, cpus.device);
        assert!(line(cpus) > 1.0);
        for (name, ns) in descriptors(cpus).expect("pipes and eventfds") {
            assert!(ns > 100.0, "{name}: {ns} ns");
        }
    }
}
