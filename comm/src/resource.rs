//! Board state that handlers share: taken for the length of a closure, poisoned when a call was abandoned inside.

#![expect(unsafe_code)]
// UNSAFETY: opens a lock whose holder was abandoned (`docs/unsafe.md` "abandoned resources").

use crate::fault::Fault;
use core::sync::atomic::{AtomicU32, Ordering};
use hamr_shared_abi::status::Status;

const FREE: u32 = 0;
const POISONED: u32 = u32::MAX;

/// The mark of the last call whose stack was left for good, destructors and all: on bare metal. Handlers run one at a time, so
/// every resource that is still held by this call or an earlier one was left behind.
static ABANDONED: AtomicU32 = AtomicU32::new(0);

/// The last number of the pollers that are no more. No number comes twice while an image runs: who watches calls knows them by it.
static COUNTED: AtomicU32 = AtomicU32::new(0);

/// What a call leaves in the resources that it holds. Serials count from 0; 0 and `u32::MAX` are taken by the states.
const fn mark(serial: u32) -> u32 {
    match serial.wrapping_add(1) {
        0 => 1,
        POISONED => POISONED - 1,
        mark => mark,
    }
}

/// The stack of this call was left: what it held is poisoned.
#[cfg_attr(
    not(any(test, target_os = "none", hamr_bare)),
    expect(dead_code, reason = "where panics unwind, guards do it")
)]
pub(crate) fn abandon(serial: u32) {
    ABANDONED.store(mark(serial), Ordering::Release);
}

/// A poller ends, whose last call had this number.
pub(crate) fn counted_to(serial: u32) {
    COUNTED.store(serial, Ordering::Release);
}

/// Where a poller begins to count its calls: behind all of earlier epochs.
pub(crate) fn first_serial() -> u32 {
    let (abandoned, counted) = (ABANDONED.load(Ordering::Acquire), COUNTED.load(Ordering::Acquire));
    // Distances survive the wrap of the count.
    if (abandoned.wrapping_sub(counted) as i32) > 0 { abandoned } else { counted }
}

/// A `static` piece of state, reached through [`crate::Context::with`].
///
/// The holder's call serial stands in `holder`: an abandoned call never resets it, so the next call finds a serial that
/// is not its own and reports [`Status::POISONED`] instead of half-changed state. [`Self::clear_poison`] is the way back.
pub struct Resource<T> {
    state: spin::Mutex<T>,
    holder: AtomicU32,
}

impl<T> Resource<T> {
    /// A free resource.
    pub const fn new(state: T) -> Self {
        Self { state: spin::Mutex::new(state), holder: AtomicU32::new(FREE) }
    }

    pub(crate) fn with<R>(&self, serial: u32, f: impl FnOnce(&mut T) -> R) -> Result<R, Fault> {
        let me = mark(serial);
        match self.holder.load(Ordering::Acquire) {
            FREE => {}
            holder if holder == me => return Err(Fault::new(Status::RESOURCE_BUSY, [0; 3])),
            _ => return Err(Fault::new(Status::POISONED, [0; 3])),
        }
        let Some(mut state) = self.state.try_lock() else { return Err(Fault::new(Status::RESOURCE_BUSY, [0; 3])) };
        self.holder.store(me, Ordering::Release);
        let guard = PoisonOnUnwind(&self.holder);
        let result = f(&mut state);
        core::mem::forget(guard);
        self.holder.store(FREE, Ordering::Release);
        Ok(result)
    }

    /// Was a call abandoned while it held the resource?
    pub fn is_poisoned(&self) -> bool {
        match self.holder.load(Ordering::Acquire) {
            FREE => false,
            POISONED => true,
            holder => self.was_left_by(holder),
        }
    }

    fn was_left_by(&self, holder: u32) -> bool {
        let abandoned = ABANDONED.load(Ordering::Acquire);
        // Distances survive the wrap of the count.
        abandoned != 0 && (abandoned.wrapping_sub(holder) as i32) >= 0
    }

    /// Puts a fresh state in and frees the resource, if it is poisoned; the old state is dropped.
    pub fn clear_poison(&self, fresh: T) {
        let holder = self.holder.load(Ordering::Acquire);
        if holder != FREE && holder != POISONED && self.was_left_by(holder) {
            // SAFETY: the guard is in a frame of a stack that was left for good, and no frame before it holds one: whoever
            // holds this lock runs in the call whose mark was found, and that call is over.
            unsafe { self.state.force_unlock() };
            self.holder.store(POISONED, Ordering::Release);
        }
        if self.is_poisoned()
            && let Some(mut state) = self.state.try_lock()
        {
            *state = fresh;
            self.holder.store(FREE, Ordering::Release);
        }
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

    #[test]
    fn nested_use_is_busy_and_an_abandoned_one_is_poisoned() {
        let r = Resource::new(1);
        let inner = r.with(5, |_| r.with(5, |_| ()).map_err(|f| f.status));
        assert_eq!(inner, Ok(Err(Status::RESOURCE_BUSY)));
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| r.with(6, |_| panic!("abandoned"))));
        assert!(r.is_poisoned());
        assert_eq!(r.with(7, |_| ()).map_err(|f| f.status), Err(Status::POISONED));
        r.clear_poison(2);
        assert_eq!(r.with(8, |v| *v), Ok(2));
        r.clear_poison(3);
        assert_eq!(r.with(9, |v| *v), Ok(2), "it was not poisoned");
    }

    #[test]
    fn one_whose_holders_stack_was_left_is_poisoned_and_can_be_cleared() {
        let r = Resource::new(1);
        let outcome = r.with(0x1000, |v| {
            *v = 7;
            assert!(!r.is_poisoned(), "in use");
            // What the fault path does; the guard stays where it is, as on an abandoned stack.
            abandon(0x1000);
            assert!(r.is_poisoned());
            assert_eq!(r.with(0x1001, |_| ()).map_err(|f| f.status), Err(Status::POISONED));
        });
        assert_eq!(outcome, Ok(()));
        // Left for good.
        let left = Resource::new(1);
        core::mem::forget(left.state.try_lock());
        left.holder.store(mark(0x1000), Ordering::Release);
        assert!(left.is_poisoned());
        left.clear_poison(5);
        assert!(!left.is_poisoned());
        assert_eq!(left.with(first_serial(), |v| *v), Ok(5));
    }
}
