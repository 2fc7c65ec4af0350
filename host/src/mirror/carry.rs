//! A side that lies elsewhere, and the thread that carries for a host there: it looks for a while, and then sleeps until either
//! side has something.

use hamr_comm::am::{Idle, IdleStep, patience};
use hamr_comm::mirror::{Lost, Mirror, Side};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Microseconds of vain looks before a sleep: the time of a call and of its caller's next one.
pub(super) const SPIN: u64 = 100;
/// Between two looks at a side that notifies nobody.
pub(super) const PAUSE: Duration = Duration::from_micros(100);
/// Longest sleep, should a notification be lost.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// What a thread sleeps on, and what for.
pub type Descriptor = (Arc<OwnedFd>, PollFlags);

/// A side whose thread can sleep until there is something to take.
pub trait FarSide: Side + Send {
    /// Do its operations wait for what is not in this program? Then the thread of the link alone carries, and who waits for what it
    /// brings has a limit of its own.
    const BLOCKS: bool = false;

    /// Of which one is ready then, or when more of what was put can go.
    fn descriptors(&self) -> Vec<Descriptor>;
    /// Is it asked whether something has come, because nothing tells?
    fn is_asked(&self) -> bool {
        false
    }
    /// The longest sleep where nothing notifies of what comes.
    fn pause(&self) -> Duration {
        PAUSE
    }
    /// One of them is.
    fn woken(&mut self) {}
    /// Is what was put on its way still?
    fn is_full(&self) -> bool {
        false
    }
}

/// Carries for a host at the other end of `host`, until that is lost.
pub fn serve<H: FarSide, D: FarSide>(host: H, device: D) -> Lost {
    let mut mirror = Mirror::new(host, device);
    let begin = Instant::now();
    let (mut idle, mut is_notified) = (Idle::new(), false);
    loop {
        match mirror.step() {
            Err(lost) => return lost,
            Ok(true) => {
                if !idle.is_spinning() {
                    mirror.cancel_wait();
                }
                idle.found();
                continue;
            }
            Ok(false) => {}
        }
        let spin = if patience::must_sleep() { 0 } else { SPIN };
        match idle.step(begin.elapsed().as_micros() as u64, Some(spin)) {
            IdleStep::Poll => patience::rest(),
            IdleStep::PrepareWait => is_notified = mirror.prepare_wait(),
            IdleStep::Sleep => {
                let (host, device) = mirror.sides();
                let mut all = host.descriptors();
                let of_host = all.len();
                all.extend(device.descriptors());
                let ready =
                    sleep(&all, Some(if is_notified { LONGEST_SLEEP } else { device.pause().min(host.pause()) }));
                let (host_is_ready, device_is_ready) = ready.split_at(of_host);
                if host_is_ready.contains(&true) {
                    host.woken();
                }
                if device_is_ready.contains(&true) {
                    device.woken();
                }
                idle.woken();
            }
        }
    }
}

/// Sleeps until a descriptor is ready, or so long. Which are.
pub(super) fn sleep(descriptors: &[Descriptor], limit: Option<Duration>) -> Vec<bool> {
    let mut fds: Vec<_> = descriptors.iter().map(|(fd, flags)| PollFd::new(&**fd, *flags)).collect();
    let limit = limit.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() });
    // A signal ends it early, which is right.
    let _ = poll(&mut fds, limit.as_ref());
    fds.iter().map(|fd| !fd.revents().is_empty()).collect()
}

pub(super) fn wake(fd: &OwnedFd) {
    // The only error is a counter at its end, and then it is readable.
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}
