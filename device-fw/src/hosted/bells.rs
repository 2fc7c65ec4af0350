//! Doorbells of a hosted image: an eventfd for each direction, which came with the window.

use hamr_comm::abi::preamble::FOR_EVER;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;

/// Both directions.
pub(super) struct Bells {
    /// Rung by the host; does not block.
    own: OwnedFd,
    host: OwnedFd,
}

impl Bells {
    pub(super) fn new(own: OwnedFd, host: OwnedFd) -> Self {
        Self { own, host }
    }

    /// Rings the host.
    pub(super) fn ring(&self) {
        // The only error is a counter at its end, and then the host is being woken already.
        let _ = rustix::io::write(&self.host, &1u64.to_ne_bytes());
    }

    /// Sleeps until the host rings, at most so many microseconds.
    pub(super) fn sleep(&self, micros: u32) {
        let limit = Timespec { tv_sec: (micros / 1_000_000).into(), tv_nsec: (micros % 1_000_000 * 1000).into() };
        let limit = (micros != FOR_EVER).then_some(&limit);
        let mut fds = [PollFd::new(&self.own, PollFlags::IN)];
        // A signal ends the sleep early, which is right.
        if poll(&mut fds, limit).is_ok_and(|n| n > 0) {
            // One read takes all rings since the last.
            let _ = rustix::io::read(&self.own, &mut [0; 8]);
        }
    }
}
