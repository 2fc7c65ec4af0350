//! The one door to atomics and fences, so that a model checker can swap them (`--cfg loom`).
//!
//! [`Order`] is what differs between a window in coherent memory and one behind a bus: how a word
//! is published, how it is observed, and what orders a store before a later load (abi §7.4).

#[cfg(all(not(loom), target_has_atomic = "64"))]
pub use core::sync::atomic::AtomicU64;
#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(loom)]
pub use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

/// How a word is published and observed in one kind of memory. A window is generic over it, so the
/// fast path has no branch on it.
pub trait Order: Copy + Send + Sync + 'static {
    /// Is an aligned 64-bit access of this memory one access for the peer too? Then a header and
    /// its published word are stored and loaded together, where the processor has such atomics. On
    /// a bus a bridge may make two of it.
    const PAIRED: bool = false;
    /// Stores the word behind every earlier access of this side, for a peer that observes it.
    fn publish(word: &core::sync::atomic::AtomicU32, value: u32);
    /// Loads the word; every later access of this side comes behind it.
    fn observe(word: &core::sync::atomic::AtomicU32) -> u32;
    /// Orders every earlier store before every later load: the sleep handshake (abi §7.4). The
    /// other two do not.
    fn full();
}

/// Memory that both sides cache coherently: Release and Acquire on the word are enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coherent;

impl Order for Coherent {
    const PAIRED: bool = true;
    #[inline(always)]
    fn publish(word: &core::sync::atomic::AtomicU32, value: u32) {
        word.store(value, core::sync::atomic::Ordering::Release);
    }
    #[inline(always)]
    fn observe(word: &core::sync::atomic::AtomicU32) -> u32 {
        word.load(core::sync::atomic::Ordering::Acquire)
    }
    #[inline(always)]
    fn full() {
        fence(Ordering::SeqCst);
    }
}
