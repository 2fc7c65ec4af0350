//! What the thread of a link and those who wait know of each other. It carries while nobody waits; who waits carries by itself,
//! without a hop between threads.
//!
//! ```text
//!           somebody waits                     one sleeps, and for long
//! Watches -----------------> Naps ------------------------------------------> Parked
//!    ^                        |  ^                                              |
//!    +--- nobody did since ---+  +----------------- it has left ----------------+
//! ```

use super::carry::{Descriptor, sleep, wake};
use rustix::event::PollFlags;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// Between two looks whether somebody waits.
pub(super) const NAP: Duration = Duration::from_micros(300);
/// Naps beside one who sleeps, behind which it is left alone.
pub(super) const MOST_NAPS: u32 = 8;

/// What the thread does.
pub(super) const AWAKE: u32 = 0;
/// It sleeps until something comes;
pub(super) const WATCHES: u32 = 1;
/// or until who sleeps on that has left;
pub(super) const PARKED: u32 = 2;
/// or for a nap.
pub(super) const NAPS: u32 = 3;
/// What is published sooner than so many nanoseconds behind what was carried waits for more, in one write.
const GATHER: u64 = 5000;

/// What those who wait and the thread know of each other.
pub(super) struct Tender {
    /// Wakes the thread.
    kick: Arc<OwnedFd>,
    does: AtomicU32,
    /// Somebody has looked by itself since the last nap began.
    is_polled: AtomicBool,
    /// When something was carried last, in nanoseconds of `begin`.
    carried: AtomicU64,
    begin: Instant,
    /// Those who sleep until something comes.
    sleepers: AtomicU32,
}

/// One of them.
pub(super) struct Sleeper<'a>(Option<&'a Tender>);

impl Tender {
    pub(super) fn new(kick: Arc<OwnedFd>) -> Self {
        let [does, sleepers] = [AWAKE, 0].map(AtomicU32::new);
        let (is_polled, carried) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { kick, does, is_polled, carried, begin: Instant::now(), sleepers }
    }

    /// There may be something to carry for which nobody waits.
    pub(super) fn look(&self) {
        wake(&self.kick);
    }

    /// What was carried is answered sooner than the thread has meant to look again.
    pub(super) fn hurry(&self) {
        if self.does.load(Ordering::Relaxed) == WATCHES {
            self.look();
        }
    }

    /// Something is carried now.
    pub(super) fn carries(&self) {
        self.carried.store(self.begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// Is what was published just now to wait for more? Then who waits for it carries it, or the thread does.
    pub(super) fn gathers(&self) -> bool {
        let last = self.carried.load(Ordering::Relaxed);
        if (self.begin.elapsed().as_nanos() as u64).saturating_sub(last) >= GATHER {
            return false;
        }
        // The thread has looked behind this, or is found asleep.
        fence(Ordering::SeqCst);
        if matches!(self.does.load(Ordering::Relaxed), WATCHES | PARKED) {
            self.look();
        }
        true
    }

    /// Somebody waits, and looks by itself.
    pub(super) fn waits(&self) {
        self.is_polled.store(true, Ordering::Relaxed);
    }

    /// Has somebody, since this was asked last?
    pub(super) fn was_polled(&self) -> bool {
        self.is_polled.swap(false, Ordering::Relaxed)
    }

    /// Who waits does not look any more.
    pub(super) fn watch(&self) {
        self.is_polled.store(false, Ordering::Relaxed);
        // The thread looks at what was polled behind this, or is found in its nap.
        fence(Ordering::SeqCst);
        if self.does.load(Ordering::Relaxed) == NAPS {
            self.look();
        }
    }

    /// Somebody sleeps, for so many microseconds at most.
    pub(super) fn sleeper(&self, max_us: u32) -> Sleeper<'_> {
        // Who takes a notification alone goes on to do something else.
        if max_us == 1 {
            return Sleeper(None);
        }
        self.waits();
        // S0, before S1.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        if self.does.load(Ordering::SeqCst) == WATCHES {
            self.look();
        }
        Sleeper(Some(self))
    }

    /// S1, before S0, or the sleeper finds it.
    pub(super) fn does(&self, what: u32) {
        self.does.store(what, Ordering::SeqCst);
    }

    pub(super) fn has_sleeper(&self) -> bool {
        self.sleepers.load(Ordering::SeqCst) != 0
    }

    /// Ready when the thread is to look.
    pub(super) fn descriptor(&self) -> Descriptor {
        (self.kick.clone(), PollFlags::IN)
    }

    pub(super) fn sleep(&self, limit: Duration) {
        if sleep(&[self.descriptor()], Some(limit)) == [true] {
            self.kicked();
        }
    }

    pub(super) fn kicked(&self) {
        let _ = rustix::io::read(&*self.kick, &mut [0; 8]);
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        let Some(tender) = self.0 else { return };
        tender.sleepers.fetch_sub(1, Ordering::SeqCst);
        if tender.does.load(Ordering::SeqCst) == PARKED {
            tender.look();
        }
    }
}
