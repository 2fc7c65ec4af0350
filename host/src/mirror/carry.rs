//! The thread that steps a mirror: it looks for a while, and then sleeps until either side has something.

use hamr_comm::abi::window::Shared;
use hamr_comm::am::{Idle, IdleStep, patience};
use hamr_comm::mirror::{HostCopy, Lost, Mirror, Side};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Microseconds of vain looks before a sleep.
const SPIN: u64 = 20;
/// Between two looks at a side that notifies nobody.
const PAUSE: Duration = Duration::from_micros(100);
/// Longest sleep, should a notification be lost.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// A side whose thread can sleep until there is something to take.
pub trait FarSide: Side + Send {
    /// Descriptors of which one is ready then.
    fn descriptors(&self) -> Vec<(Arc<OwnedFd>, PollFlags)>;
    /// One of them is.
    fn woken(&mut self) {}
}

/// A copy in this program: who publishes in it wakes the thread by itself.
impl FarSide for HostCopy<Shared> {
    fn descriptors(&self) -> Vec<(Arc<OwnedFd>, PollFlags)> {
        Vec::new()
    }
}

/// Carries until a side is lost, or `goes_on` says no, which is asked behind each step. `kick` ends a sleep.
pub(super) fn run<H: FarSide, D: FarSide>(
    mirror: &mut Mirror<H, D>,
    kick: &OwnedFd,
    mut goes_on: impl FnMut(&mut Mirror<H, D>) -> bool,
) -> Result<(), Lost> {
    let begin = Instant::now();
    let (mut idle, mut is_notified) = (Idle::new(), false);
    while goes_on(mirror) {
        if mirror.step()? {
            if !idle.is_spinning() {
                mirror.cancel_wait();
            }
            idle.found();
            continue;
        }
        let spin = patience::limit(SPIN);
        match idle.step(begin.elapsed().as_micros() as u64, Some(spin)) {
            IdleStep::Poll => patience::rest(),
            IdleStep::PrepareWait => is_notified = mirror.prepare_wait(),
            IdleStep::Sleep => {
                sleep(mirror, kick, if is_notified { LONGEST_SLEEP } else { PAUSE });
                idle.woken();
            }
        }
    }
    Ok(())
}

fn sleep<H: FarSide, D: FarSide>(mirror: &mut Mirror<H, D>, kick: &OwnedFd, limit: Duration) {
    let (host, device) = mirror.sides();
    let [of_host, of_device] = [host.descriptors(), device.descriptors()];
    let all = of_host.iter().chain(&of_device);
    let mut fds: Vec<_> = all.map(|(fd, flags)| PollFd::new(&**fd, *flags)).collect();
    fds.push(PollFd::new(kick, PollFlags::IN));
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    // A signal ends it early, which is right.
    let _ = poll(&mut fds, Some(&limit));
    let is_ready = |fds: &[PollFd<'_>]| fds.iter().any(|fd| !fd.revents().is_empty());
    let (far, own) = fds.split_at(of_host.len() + of_device.len());
    let (far_host, far_device) = far.split_at(of_host.len());
    let (host_is_ready, device_is_ready) = (is_ready(far_host), is_ready(far_device));
    if is_ready(own) {
        let _ = rustix::io::read(kick, &mut [0; 8]);
    }
    if host_is_ready {
        host.woken();
    }
    if device_is_ready {
        device.woken();
    }
}

/// Carries for a host at the other end of `host`, until that is lost.
///
/// # Errors
/// No descriptor for this thread; and why it ended.
pub fn serve<H: FarSide, D: FarSide>(host: H, device: D) -> Lost {
    let kick = match crate::doorbells::event() {
        Ok(kick) => kick,
        Err(e) => return Lost(e.to_string()),
    };
    match run(&mut Mirror::new(host, device), &kick, |_| true) {
        Ok(()) => Lost("it was to end".into()),
        Err(lost) => lost,
    }
}
