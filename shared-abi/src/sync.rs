//! The one door to atomics and fences, so that a model checker can swap them (`--cfg loom`).
//!
//! [`Order`] is what differs between a window in coherent memory and one behind a bus: how a word is published, how it is
//! observed, and what orders a store before a later load (abi §7.4).

#[cfg(all(not(loom), target_has_atomic = "64"))]
pub use core::sync::atomic::AtomicU64;
#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// The fences of one kind of memory. A window is generic over it, so the fast path has no branch on it.
pub trait Order: Copy + Send + Sync + 'static {
    /// Makes every earlier store of this side visible before any later one (ahead of a published word).
    fn before_publish();
    /// Keeps every later load of this side behind the word just observed.
    fn after_observe();
    /// Orders every earlier store before every later load: the sleep handshake (abi §7.4). Acquire and Release do not.
    fn full();
}

/// Memory that both sides cache coherently: Release and Acquire on the word are enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coherent;

impl Order for Coherent {
    #[inline(always)]
    fn before_publish() {}
    #[inline(always)]
    fn after_observe() {}
    #[inline(always)]
    fn full() {
        fence(Ordering::SeqCst);
    }
}
