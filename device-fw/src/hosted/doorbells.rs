//! Doorbells of a hosted image: an end of a pair of sockets for each direction, which came with the
//! window.

use hamr_comm::abi::preamble::FOR_EVER;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// Notifies the peer behind a doorbell.
pub(super) fn notify(doorbell: &OwnedFd) {
    // An error means that it is full, and then the peer is being notified already, or gone. No signal
    // says so: a rank may be a program that has not ignored SIGPIPE.
    let _ = send(doorbell, &1u64.to_ne_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

/// Both directions.
pub(super) struct ProcessDoorbells {
    /// Written by the host, and by other ranks.
    own: OwnedFd,
    host: OwnedFd,
}

impl ProcessDoorbells {
    pub(super) fn new(own: OwnedFd, host: OwnedFd) -> Self {
        Self { own, host }
    }

    /// Has the host notified since the last sleep?
    pub(super) fn is_notified(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.own, PollFlags::IN)], Some(&now)).is_ok_and(|n| n > 0)
    }

    /// Notifies the host.
    pub(super) fn notify(&self) {
        notify(&self.host);
    }

    /// Sleeps until the host notifies, at most so many microseconds.
    pub(super) fn sleep(&self, micros: u32) {
        let limit = Timespec { tv_sec: (micros / 1_000_000).into(), tv_nsec: (micros % 1_000_000 * 1000).into() };
        let limit = (micros != FOR_EVER).then_some(&limit);
        let mut fds = [PollFd::new(&self.own, PollFlags::IN)];
        // A signal ends the sleep early, which is right.
        if poll(&mut fds, limit).is_ok_and(|n| n > 0) {
            // One read takes all notifications since the last.
            let _ = recv(&self.own, &mut [0; 512], RecvFlags::DONTWAIT);
        }
    }
}
