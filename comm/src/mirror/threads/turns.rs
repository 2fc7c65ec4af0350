//! One mirror and many threads that carry: each what it waits for.

use core::marker::PhantomData;
use hamr_shared_abi::sync::{AtomicU32, Coherent, Order, Ordering};

#[cfg(loom)]
use hamr_shared_abi::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};
use std::sync::{PoisonError, TryLockError};

/// Turns of a thread that carries for others, which publish again and again.
const MOST: u32 = 64;

/// What threads step, one at a time. Who publishes has it carried without waiting for its turn.
///
/// ```text
/// who publishes                            whose turn it is
/// publish                                  T2 take `pending`, fence
/// T1 set `pending`, fence                  look at what is published
///    try to lock: another's turn, leave    unlock
///                                          T3 fence, load `pending`: once more
/// ```
///
/// Where T2 takes what T1 has set, the look finds what was published. Where T3 does not find it, its fence is before the
/// one of T1, whose try comes behind it: it finds the lock open, or in the hands of one that has its T3 in front of it.
pub struct Turns<M, O = Coherent> {
    what: Mutex<M>,
    /// Somebody has published since a step began.
    pending: AtomicU32,
    order: PhantomData<fn() -> O>,
}

impl<M, O: Order> Turns<M, O> {
    /// Of this.
    pub fn new(what: M) -> Self {
        Self { what: Mutex::new(what), pending: AtomicU32::new(0), order: PhantomData }
    }

    /// Behind it what this thread has published is carried by `step`, or will be by the thread whose turn it is. False:
    /// others publish as fast as this thread carries, and one that has the time is to go on.
    pub fn carry(&self, mut step: impl FnMut(&mut M)) -> bool {
        // T1, pairs with T2. Of a plain store, another thread's could take the place.
        self.pending.swap(1, Ordering::AcqRel);
        O::full();
        for _ in 0..MOST {
            let Some(mut what) = self.try_lock() else { return true };
            self.begin();
            step(&mut what);
            drop(what);
            if !self.is_pending() {
                return true;
            }
        }
        false
    }

    /// Within a step: another one is to follow.
    pub fn has_more(&self) {
        self.pending.swap(1, Ordering::AcqRel);
    }

    /// For a thread that comes again until it finds what it waits for: carries, unless it is another's turn. The second value is that
    /// of [`Self::carry`].
    pub fn poll<R>(&self, act: impl FnOnce(&mut M) -> R, step: impl FnMut(&mut M)) -> (Option<R>, bool) {
        let Some(mut what) = self.try_lock() else { return (None, true) };
        if self.pending.load(Ordering::Relaxed) != 0 {
            self.begin();
        }
        let result = act(&mut what);
        drop(what);
        (Some(result), !self.is_pending() || self.carry(step))
    }

    /// As soon as it is this thread's turn. What others publish meanwhile is carried behind it by `step`, and the second value is
    /// that of [`Self::carry`].
    pub fn turn<R>(&self, act: impl FnOnce(&mut M) -> R, step: impl FnMut(&mut M)) -> (R, bool) {
        let mut what = self.lock();
        self.begin();
        let result = act(&mut what);
        drop(what);
        (result, !self.is_pending() || self.carry(step))
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, M>> {
        match self.what.try_lock() {
            Ok(what) => Some(what),
            Err(TryLockError::Poisoned(what)) => Some(what.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, M> {
        self.what.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) {
        // T2, pairs with T1. The looks of the step are behind the fence.
        self.pending.swap(0, Ordering::AcqRel);
        O::full();
    }

    /// T3, behind an unlock.
    fn is_pending(&self) -> bool {
        O::full();
        self.pending.load(Ordering::Relaxed) != 0
    }
}
