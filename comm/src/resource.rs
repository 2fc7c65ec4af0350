//! Board state that handlers share: taken for the length of a closure, poisoned when a call was
//! abandoned inside.

#![expect(unsafe_code)]
// UNSAFETY: a lock that distinguishes a resource left by an abandoned call from one in use
// (contract "abandoned resources").
//
// Contract "abandoned resources". A call that ends inside a `Resource` leaves its mark in the word
// (`Shared::present`). `Context::clear_poison` overwrites the state without dropping it. After a task
// that ends with a claim the state is whole, since no borrow lasts across a wait. Accepted: after 2^32
// abandoned calls a mark recurs; that resource is refused until the next one, never taken from a
// holder.

#[cfg(all(feature = "tasks", feature = "claims"))]
mod claimed;

#[cfg(all(feature = "tasks", feature = "claims"))]
pub(crate) use claimed::Claimed;

use crate::claims::{self, Holder};
use crate::fault::Fault;
use crate::shared::SHARED;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};
use hamr_shared_abi::status::Status;
use hamr_shared_abi::window::LentHeap;

const FREE: u32 = 0;
/// A panic unwound through the holder.
const POISONED: u32 = u32::MAX;
/// A task keeps it across its waits, and is in the list of claims; without, it ended with its claim.
const CLAIMED: u32 = u32::MAX - 1;

/// The mark behind `mark`; neither [`FREE`], [`CLAIMED`] nor [`POISONED`].
const fn next(mark: u32) -> u32 {
    if mark >= CLAIMED - 1 { 1 } else { mark + 1 }
}

/// The stack of the running call was left: the resources that it used are poisoned.
#[cfg_attr(not(any(test, hamr_bare)), expect(dead_code, reason = "where panics unwind, guards do it"))]
pub(crate) fn abort() {
    // One writer: only the fault path of the one processor abandons.
    SHARED.present.store(next(present()), Ordering::Release);
}

/// The mark of the code that takes a resource now. It changes each time that a stack is left for
/// good, destructors and all. That happens on bare metal only, where handlers run one at a time:
/// the stack that was left owned every resource with an older mark.
fn present() -> u32 {
    SHARED.present.load(Ordering::Acquire)
}

/// Why a resource with this word is not taken.
fn refused(holder: u32, present: u32) -> Fault {
    Fault::new(if holder == present { Status::RESOURCE_BUSY } else { Status::POISONED }, [0; 3])
}

/// A `static` piece of state, reached through [`crate::Context::with`].
///
/// A static is one of its program: devices that are threads of one process (`loopback`, `thread` ranks) share it,
/// and what the handler of one uses, another's is refused with [`Status::RESOURCE_BUSY`]. A program that runs on
/// such ranks has state of a rank in its task, or one resource for each rank.
///
/// One word is the lock and names its owner. A call may be ended between any two instructions, and
/// at no moment is the state taken without a mark in the word. An abandoned call never resets the
/// word, so the next one finds an old mark and reports [`Status::POISONED`] instead of half-changed
/// state. [`crate::Context::clear_poison`] makes the resource usable again.
pub struct Resource<T> {
    state: UnsafeCell<T>,
    holder: AtomicU32,
}

// SAFETY: `holder` lets one thread at a time reach the state, and orders what one holder did before
// what the next does.
unsafe impl<T: Send> Sync for Resource<T> {}

impl<T> Resource<T> {
    /// A free resource.
    pub const fn new(state: T) -> Self {
        Self { state: UnsafeCell::new(state), holder: AtomicU32::new(FREE) }
    }

    #[cfg(test)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Result<R, Fault> {
        self.with_at(present(), f)
    }

    #[cfg(test)]
    fn with_at<R>(&self, present: u32, f: impl FnOnce(&mut T) -> R) -> Result<R, Fault> {
        self.take(FREE, present).map_err(|holder| refused(holder, present))?;
        Ok(self.use_taken(f, || self.holder.store(FREE, Ordering::Release)))
    }

    /// Takes it from `free`, or returns the word that it found.
    #[inline(always)]
    fn take(&self, free: u32, present: u32) -> Result<(), u32> {
        self.holder.compare_exchange(free, present, Ordering::Acquire, Ordering::Acquire).map(|_| ())
    }

    /// The caller has taken it; `give_back` changes the word.
    #[inline(always)]
    fn use_taken<R>(&self, f: impl FnOnce(&mut T) -> R, give_back: impl FnOnce()) -> R {
        let guard = PoisonOnUnwind(&self.holder);
        // SAFETY: the word was free and is ours now; nothing takes it from us before it is free
        // again or poisoned.
        let result = f(unsafe { &mut *self.state.get() });
        core::mem::forget(guard);
        give_back();
        result
    }

    /// Takes it for the length of `f`, for the task in this place, from 1 on, or an inline handler: 0.
    pub(crate) fn with_claims<R>(
        &self,
        heap: &LentHeap<'_>,
        place: u32,
        f: impl FnOnce(&mut T) -> R,
    ) -> Result<R, Fault> {
        let present = present();
        loop {
            match self.take(FREE, present) {
                Ok(()) => return Ok(self.use_taken(f, || self.holder.store(FREE, Ordering::Release))),
                Err(CLAIMED) if claims::ARE_THERE => {}
                Err(holder) => return Err(refused(holder, present)),
            }
            let taken = claims::with_holder(heap, self.at(), place, |who| match who {
                Holder::Own => self.take(CLAIMED, present).map_err(|holder| refused(holder, present)),
                Holder::Other(owner) => Err(Fault::new(Status::RESOURCE_BUSY, [owner, 0, 0])),
                Holder::None if self.holder.load(Ordering::Acquire) == CLAIMED => Err(refused(POISONED, present)),
                // A task of another thread has ended its claim in between: try again.
                Holder::None => Err(refused(present, present)),
            });
            match taken {
                // The claim may have ended in `f`: whose it is now, the list says.
                Ok(()) => {
                    let give_back = |who| {
                        let free = if matches!(who, Holder::Own) { CLAIMED } else { FREE };
                        self.holder.store(free, Ordering::Release);
                    };
                    return Ok(self.use_taken(f, || claims::with_holder(heap, self.at(), place, give_back)));
                }
                Err(_) if self.holder.load(Ordering::Acquire) == FREE => {}
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Where the list of claims has it.
    fn at(&self) -> usize {
        core::ptr::from_ref(&self.holder).addr()
    }

    /// Was a call abandoned while it used the resource?
    pub fn is_poisoned(&self) -> bool {
        self.is_poisoned_at(present())
    }

    fn is_poisoned_at(&self, present: u32) -> bool {
        let holder = self.holder.load(Ordering::Acquire);
        holder != FREE && holder != present && !self.is_claimed(holder)
    }

    /// Does a task have it, where this is the word?
    fn is_claimed(&self, holder: u32) -> bool {
        holder == CLAIMED && claims::if_unclaimed(self.at(), || ()).is_none()
    }

    /// Takes one that was left, whose word this was.
    #[inline(always)]
    fn take_left(&self, holder: u32, present: u32) -> bool {
        if claims::ARE_THERE && holder == CLAIMED {
            return claims::if_unclaimed(self.at(), || self.take(holder, present).is_ok()).unwrap_or(false);
        }
        self.take(holder, present).is_ok()
    }

    pub(crate) fn clear_poison(&self, fresh: T) {
        self.clear_poison_at(present(), fresh);
    }

    fn clear_poison_at(&self, present: u32, fresh: T) {
        let holder = self.holder.load(Ordering::Acquire);
        if holder == FREE || holder == present {
            return;
        }
        // Taken as by `with`: if this call is abandoned here, the resource is one that was left,
        // again.
        if !self.take_left(holder, present) {
            return;
        }
        let guard = PoisonOnUnwind(&self.holder);
        let state = self.state.get();
        if holder == POISONED || claims::ARE_THERE && holder == CLAIMED {
            // SAFETY: the word was taken above. A panic that unwinds out of a borrow leaves a value
            // behind, and a task that ends with a claim was not in a borrow.
            unsafe { *state = fresh };
        } else {
            // SAFETY: the word was taken above. Its holder was left for good between any two
            // instructions, so that what is there may be half a value, or one that was dropped: it
            // is neither read nor dropped.
            unsafe { state.write(fresh) };
        }
        core::mem::forget(guard);
        self.holder.store(FREE, Ordering::Release);
    }
}

/// Where panics unwind (hosted images), the unwinding itself marks the resource.
struct PoisonOnUnwind<'a>(&'a AtomicU32);

impl Drop for PoisonOnUnwind<'_> {
    fn drop(&mut self) {
        self.0.store(POISONED, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn outcome<R>(outcome: Result<R, Fault>) -> Result<R, Status> {
        outcome.map_err(|fault| fault.status)
    }

    /// The state after a call was abandoned while it used `resource`: no instruction of it runs any
    /// more.
    fn leave<T>(resource: &Resource<T>, present: u32) {
        assert_eq!(resource.holder.swap(present, Ordering::AcqRel), FREE);
    }

    #[test]
    fn nested_use_is_busy_and_an_unwound_one_is_poisoned() {
        let r = Resource::new(1);
        assert_eq!(outcome(r.with(|_| outcome(r.with(|_| ())))), Ok(Err(Status::RESOURCE_BUSY)));
        let _ = catch_unwind(AssertUnwindSafe(|| r.with(|_| panic!("abandoned"))));
        assert!(r.is_poisoned());
        assert_eq!(outcome(r.with(|_| ())), Err(Status::POISONED));
        r.clear_poison(2);
        assert_eq!(outcome(r.with(|v| *v)), Ok(2));
        r.clear_poison(3);
        assert_eq!(outcome(r.with(|v| *v)), Ok(2), "it was not poisoned");
    }

    #[test]
    fn a_resource_left_by_an_abandoned_call_is_poisoned_and_can_be_cleared() {
        let r = Resource::new(1);
        let before = present();
        leave(&r, before);
        assert_eq!(outcome(r.with_at(before, |_| ())), Err(Status::RESOURCE_BUSY), "in use");
        abort();
        assert_ne!(present(), before);
        assert!(r.is_poisoned());
        assert_eq!(outcome(r.with(|_| ())), Err(Status::POISONED));
        r.clear_poison(5);
        assert!(!r.is_poisoned());
        assert_eq!(outcome(r.with(|v| *v)), Ok(5));
    }

    /// However many stacks were left since the count began: `v` is borrowed.
    #[test]
    fn a_resource_in_use_is_never_taken_for_one_left_behind() {
        let r = Resource::new(1);
        for present in [1, 2, 1 << 31, CLAIMED - 2, CLAIMED - 1, next(CLAIMED - 1)] {
            let seen = r.with_at(present, |v| {
                r.clear_poison_at(present, 99);
                (r.is_poisoned_at(present), *v)
            });
            assert_eq!(outcome(seen), Ok((false, 1)), "{present:#x}");
        }
    }

    #[test]
    fn a_resource_left_at_the_last_mark_can_be_cleared_at_the_first() {
        let last = CLAIMED - 1;
        assert_eq!(next(last), 1);
        let r = Resource::new(1);
        leave(&r, last);
        assert!(r.is_poisoned_at(next(last)));
        r.clear_poison_at(next(last), 4);
        assert_eq!(outcome(r.with_at(next(last), |v| *v)), Ok(4));
    }

    struct Counted<'a>(&'a AtomicU32);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn clearing_drops_what_unwinding_left_and_nothing_that_was_abandoned() {
        let drops = AtomicU32::new(0);
        let r = Resource::new(Counted(&drops));
        leave(&r, 1);
        r.clear_poison_at(2, Counted(&drops));
        assert_eq!(drops.load(Ordering::Relaxed), 0, "it may be half a value");
        let _ = catch_unwind(AssertUnwindSafe(|| r.with_at(2, |_| panic!("unwinds"))));
        r.clear_poison_at(2, Counted(&drops));
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    /// Ended inside of `clear_poison`: what it writes is a `Drop` away from being written.
    #[test]
    fn a_clearing_that_does_not_come_to_its_end_leaves_the_resource_poisoned() {
        struct Ends;
        impl Drop for Ends {
            fn drop(&mut self) {
                panic!("asked to");
            }
        }
        let r = Resource::new(Some(Ends));
        let _ = catch_unwind(AssertUnwindSafe(|| r.with_at(1, |_| panic!("unwinds"))));
        let _ = catch_unwind(AssertUnwindSafe(|| r.clear_poison_at(1, None)));
        assert!(r.is_poisoned_at(1));
        // The same, abandoned: the word bears the mark of the call that cleared.
        r.holder.store(1, Ordering::Release);
        assert!(r.is_poisoned_at(2));
        r.clear_poison_at(2, None);
        assert_eq!(outcome(r.with_at(2, |v| v.is_none())), Ok(true));
    }
}
