//! Ringing a device that sleeps (abi §7, rules 21 and 22), from the host's side.

use super::Inner;
use std::sync::atomic::Ordering;

impl Inner {
    /// Rule 21, after a message was published: rings a device that sleeps. What it looks at is a line that changes only when
    /// the device goes to sleep or gets up.
    #[inline(always)]
    pub(crate) fn tell(&self) {
        if self.sleepers.device_is_down() {
            self.ring_device();
        }
    }

    /// The same after the ring message at `x`, for which perhaps nobody waits: every sixteenth time with a fence (rule 22).
    #[inline(always)]
    pub(crate) fn tell_of(&self, x: u64) {
        if x & 15 == 15 {
            self.ring_sleeper();
        } else {
            self.tell();
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn ring_device(&self) {
        self.sleepers.glance(|| self.link.ring());
    }

    /// Rule 22: whatever was published before this is found by the device, if it has to be rung for that.
    pub(crate) fn ring_sleeper(&self) {
        self.sleepers.look(|| self.link.ring());
    }

    /// For those who look again and again without waiting: gives a device inside this process its turn, and asks once a
    /// millisecond whether the peer is there.
    pub(crate) fn look_around(&self) {
        self.link.wait(0);
        let now = self.attached.elapsed().as_millis() as u32;
        if self.looked.swap(now, Ordering::Relaxed) != now {
            self.ring_sleeper();
            self.look_at_peer();
        }
    }
}
