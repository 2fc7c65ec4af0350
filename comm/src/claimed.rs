//! How much of its segment a rank has claimed, and by which task: beside the rank, because faults name
//! it.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What is claimed. The dispatcher's thread alone claims; other threads of a program that reach the segment see it.
pub(crate) struct Claimed {
    bytes: AtomicUsize,
    by: AtomicUsize,
}

#[cfg(not(hamr_bare))]
std::thread_local! {
    /// Of the rank that this thread serves.
    static HERE: core::cell::Cell<Option<&'static Claimed>> = const { core::cell::Cell::new(None) };
}

#[cfg(hamr_bare)]
static HERE: Claimed = Claimed::new();

impl Claimed {
    const fn new() -> Self {
        Self { bytes: AtomicUsize::new(0), by: AtomicUsize::new(0) }
    }

    /// That of the rank which this thread serves from now on.
    pub(crate) fn begin() -> &'static Self {
        #[cfg(hamr_bare)]
        return &HERE;
        #[cfg(not(hamr_bare))]
        {
            let claimed: &'static Self = alloc::boxed::Box::leak(alloc::boxed::Box::new(Self::new()));
            HERE.set(Some(claimed));
            claimed
        }
    }

    /// Bytes at the end of the heap that are not part of it.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// The place of the task that has them.
    pub(crate) fn by(&self) -> usize {
        self.by.load(Relaxed)
    }

    pub(crate) fn set(&self, bytes: usize, by: usize) {
        self.by.store(by, Relaxed);
        self.bytes.store(bytes, Relaxed);
    }
}

/// Bytes that are claimed of the rank which this thread serves.
pub(crate) fn bytes_here() -> u64 {
    #[cfg(hamr_bare)]
    return HERE.bytes() as u64;
    #[cfg(not(hamr_bare))]
    HERE.get().map_or(0, |claimed| claimed.bytes() as u64)
}
