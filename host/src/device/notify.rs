//! Notifying a device that sleeps (abi §7, rules 21 and 22), and being notified by it, from the
//! host's side.

use super::Device;
use crate::reactor::{Notified, Registration, Wake};
use crate::wait_queue::Fence;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// When [`Device::poll_peer`] last asked for the peer.
pub(super) struct PeerPoll {
    since: Instant,
    /// Milliseconds after `since`.
    last: AtomicU32,
}

impl PeerPoll {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), last: AtomicU32::new(0) }
    }

    /// True once a millisecond.
    fn is_due(&self) -> bool {
        let now = self.since.elapsed().as_millis() as u32;
        self.last.swap(now, Ordering::Relaxed) != now
    }
}

impl Device {
    /// After a message was published: notifies a device that sleeps. Without a fence this is one
    /// load of a cache line that changes only when the device goes to sleep or wakes up.
    #[inline(always)]
    pub(crate) fn notify(&self, fence: Fence) {
        match fence {
            Fence::Relaxed if !self.wait_queue.device_is_waiting() => {}
            fence => self.notify_now(fence),
        }
    }

    #[inline(never)]
    fn notify_now(&self, fence: Fence) {
        if self.is_here() {
            self.wait_queue.notify(fence, || self.link.notify());
        }
    }

    /// For a caller that polls and does not wait: lets a device inside this process run, and checks
    /// once a millisecond whether the peer is there.
    pub(crate) fn poll_peer(&self) {
        self.link.wait(0);
        if self.peer_poll.is_due() {
            self.notify(Fence::Full);
            self.check_peer();
        }
    }
}

impl Notified for Device {
    fn descriptors(&self) -> Vec<Arc<OwnedFd>> {
        self.link.descriptors()
    }

    fn longest_sleep(&self) -> Option<Duration> {
        self.options.longest_sleep
    }

    fn attend(&self, next_check: Instant) -> Option<Registration> {
        self.wait_queue.attend(next_check)
    }

    fn on_wake(&self, wake: Wake) {
        match wake {
            Wake::Notified => {
                // Takes the doorbell; does not sleep, because there is one, or the device is gone.
                self.link.wait(1);
                self.service.pass_on();
                self.check_peer();
                self.wait_queue.wake_from_reactor();
            }
            Wake::Due => {
                self.check_peer();
                self.wait_queue.wake_from_reactor();
            }
            Wake::DueBesideLeader => {
                self.check_peer();
                self.wait_queue.wake_expired(Instant::now());
            }
            Wake::Other => self.wait_queue.wake_expired(Instant::now()),
            Wake::NoReactor => self.wait_queue.wake_all(),
        }
    }
}
