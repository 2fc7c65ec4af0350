//! Doorbells between this process and a device's: an eventfd for each direction.

use crate::Error;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Both directions. They outlive the lives of their device: a ring of an old life wakes somebody who then finds nothing.
pub(crate) struct Bells {
    /// Rung by the device.
    pub(crate) own: Arc<OwnedFd>,
    /// Rung by this process.
    pub(crate) device: OwnedFd,
}

impl Bells {
    pub(crate) fn new() -> Result<Self, Error> {
        // Should somebody else take the ring that a thread was told of, it must not wait in its read, where neither the device's end
        // nor a limit would wake it.
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let one = || eventfd(0, flags).map_err(Error::os("making a doorbell"));
        Ok(Self { own: Arc::new(one()?), device: one()? })
    }

    /// Rings the device.
    pub(crate) fn ring(&self) {
        // The only error is a counter at its end, and then the device is being woken already.
        let _ = rustix::io::write(&self.device, &1u64.to_ne_bytes());
    }

    /// Wakes this process, as the device does.
    pub(crate) fn wake(&self) {
        let _ = rustix::io::write(&self.own, &1u64.to_ne_bytes());
    }

    /// Sleeps until the device rings or `end` is readable, or until `limit` has passed.
    pub(crate) fn sleep(&self, end: &OwnedFd, limit: Option<Duration>) {
        let limit = limit.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() });
        let mut fds = [PollFd::new(&*self.own, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
        // A signal ends the sleep early, which is right.
        if poll(&mut fds, limit.as_ref()).is_ok_and(|n| n > 0) && fds[0].revents().contains(PollFlags::IN) {
            // One read takes all rings since the last.
            let _ = rustix::io::read(&*self.own, &mut [0; 8]);
        }
    }
}
