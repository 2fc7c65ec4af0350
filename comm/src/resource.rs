//! Board state that handlers share: taken for the length of a closure, poisoned when a call was abandoned inside.

use crate::fault::Fault;
use core::sync::atomic::{AtomicU32, Ordering};
use hamr_shared_abi::status::Status;

const FREE: u32 = 0;
const POISONED: u32 = u32::MAX;

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
        // Serials count from 0; 0 and u32::MAX are taken by the states.
        let me = serial.wrapping_add(1).clamp(1, u32::MAX - 1);
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
        self.holder.load(Ordering::Acquire) == POISONED
    }

    /// Puts a fresh state in and frees the resource. Only for code that knows that no call holds it.
    pub fn clear_poison(&self, fresh: T) {
        if let Some(mut state) = self.state.try_lock() {
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
    }
}
