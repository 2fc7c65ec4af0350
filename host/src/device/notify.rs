//! Notifying a device that sleeps (abi §7, rules 21 and 22), from the host's side.

use super::Device;
use crate::reactor::{Notified, Registration, Wake};
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
    /// Rule 21, after a message was published: rings a device that sleeps. What it looks at is a line that changes only when
    /// the device goes to sleep or gets up.
    #[inline(always)]
    pub(crate) fn notify(&self) {
        if self.wait_queue.device_is_waiting() {
            self.notify_device();
        }
    }

    /// The same after the ring message at `x`, for which perhaps nobody waits: every sixteenth time with a fence (rule 22).
    #[inline(always)]
    pub(crate) fn notify_at(&self, x: u64) {
        if x & 15 == 15 {
            self.notify_fenced();
        } else {
            self.notify();
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn notify_device(&self) {
        self.wait_queue.needs_notify_relaxed(|| self.link.notify());
    }

    /// Rule 22: whatever was published before this is found by the device, if it has to be notified for that.
    pub(crate) fn notify_fenced(&self) {
        self.wait_queue.look(|| self.link.notify());
    }

    /// For those who look again and again without waiting: gives a device inside this process its turn, and asks once a
    /// millisecond whether the peer is there.
    pub(crate) fn poll_peer(&self) {
        self.link.wait(0);
        if self.peer_poll.is_due() {
            self.notify_fenced();
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
