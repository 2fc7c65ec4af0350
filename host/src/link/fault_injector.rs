//! Faults of a connection and of a peer, for tests.

use super::{Decorator, Link, Peer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Breaks another link on purpose: drops doorbells, delays the peer, flips bits in the window,
/// stops the peer.
pub struct FaultInjector<L> {
    inner: L,
    faults: Arc<Faults>,
}

/// The switches of a [`FaultInjector`] link; all off at first. Shared, so a test changes them while
/// the host runs.
#[derive(Default)]
pub struct Faults {
    drop_notifications: AtomicBool,
    skip_waits: AtomicU32,
    killed: AtomicBool,
    dropped: AtomicU64,
}

impl Faults {
    /// Loses every doorbell from now on (or no longer).
    pub fn drop_notifications(&self, on: bool) {
        self.drop_notifications.store(on, Ordering::Relaxed);
    }

    /// Doorbells lost so far.
    pub fn dropped_notifications(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The next `n` waits do nothing: on a loopback link the device stands still for that long.
    pub fn delay(&self, n: u32) {
        self.skip_waits.store(n, Ordering::Relaxed);
    }

    /// The peer is gone from now on: it runs no more, and [`Link::peer`] reports that.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
    }
}

impl<L: Link> FaultInjector<L> {
    /// Wraps `inner`; the second half switches the faults on and off.
    pub fn new(inner: L) -> (Self, Arc<Faults>) {
        let faults = Arc::new(Faults::default());
        (Self { inner, faults: faults.clone() }, faults)
    }

    /// Inverts bits of one word of the window, as a bad wire or a bad peer would.
    pub fn flip(&self, off: u64, mask: u32) {
        if let Ok(word) = self.inner.window().word(off) {
            word.publish(word.load() ^ mask);
        }
    }
}

impl<L: Link> Decorator for FaultInjector<L> {
    fn inner(&self) -> &dyn Link {
        &self.inner
    }
    fn notify(&self) {
        if self.faults.drop_notifications.load(Ordering::Relaxed) {
            self.faults.dropped.fetch_add(1, Ordering::Relaxed);
        } else {
            self.inner.notify();
        }
    }
    fn wait(&self, max_us: u32) {
        let skip = self.faults.skip_waits.load(Ordering::Relaxed);
        if skip > 0 {
            self.faults.skip_waits.store(skip - 1, Ordering::Relaxed);
        } else if !self.faults.killed.load(Ordering::Acquire) {
            self.inner.wait(max_us);
        }
    }
    fn peer(&self) -> Peer {
        if self.faults.killed.load(Ordering::Acquire) {
            Peer::Gone("killed by a fault".into())
        } else {
            self.inner.peer()
        }
    }
    fn restart(&self, limit: Duration) -> Result<(), String> {
        self.faults.killed.store(false, Ordering::Release);
        self.inner.restart(limit)
    }
}
