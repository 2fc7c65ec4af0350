//! How much of its segment a rank has claimed, and by which task: beside the rank, because faults name
//! it.

#[cfg(hamr_bare)]
use core::sync::atomic::{AtomicUsize, Ordering};

/// Bytes at the end of the heap that are not part of it, and the place of the task that has them.
#[derive(Clone, Copy)]
pub(crate) struct Claimed {
    pub(crate) bytes: usize,
    pub(crate) by: usize,
}

impl Claimed {
    pub(crate) const NOTHING: Self = Self { bytes: 0, by: 0 };
}

#[cfg(not(hamr_bare))]
std::thread_local! {
    /// Of the rank that this thread serves.
    static CLAIMED: core::cell::Cell<Claimed> = const { core::cell::Cell::new(Claimed::NOTHING) };
}

/// Used by the dispatcher alone. No lock: a call may be aborted at any place.
#[cfg(hamr_bare)]
static CLAIMED: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

pub(crate) fn get() -> Claimed {
    #[cfg(not(hamr_bare))]
    return CLAIMED.get();
    #[cfg(hamr_bare)]
    Claimed { bytes: CLAIMED[0].load(Ordering::Relaxed), by: CLAIMED[1].load(Ordering::Relaxed) }
}

pub(crate) fn set(claimed: Claimed) {
    #[cfg(not(hamr_bare))]
    CLAIMED.set(claimed);
    #[cfg(hamr_bare)]
    {
        CLAIMED[1].store(claimed.by, Ordering::Relaxed);
        CLAIMED[0].store(claimed.bytes, Ordering::Relaxed);
    }
}
