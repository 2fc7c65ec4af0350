//! Locks that handlers may take, and sections in which none runs.

use crate::GasError;
use crate::rank::Rank;
use crate::thread::{pause, this_thread};
use core::sync::atomic::{AtomicUsize, Ordering};

/// A handler-safe lock (`gasnet_hsl_t`) around a value that handlers and other code use: one that is
/// not in the rank's state. Handlers run in calls of the rank only, so the holder must not make one:
/// a handler that wants the lock would wait for ever. This is found, and named.
///
/// ```
/// # use hamr_gas::Hsl;
/// static COUNT: Hsl<u32> = Hsl::new(0);
/// COUNT.with(|count| *count += 1);
/// assert_eq!(COUNT.try_with(|count| *count), Some(1));
/// ```
pub struct Hsl<T> {
    value: spin::Mutex<T>,
    /// The thread that has it; 0 none.
    holder: AtomicUsize,
}

impl<T> Hsl<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Self { value: spin::Mutex::new(value), holder: AtomicUsize::new(0) }
    }

    /// Waits for the lock, for the length of `f`.
    ///
    /// # Panics
    /// This thread has it already, further out.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // L1: only this thread stores its own number, so what another stores meanwhile decides nothing.
        assert!(
            self.holder.load(Ordering::Relaxed) != this_thread(),
            "hamr: a lock is taken by its holder: a handler ran in a call of the rank that the holder made, or locks are nested"
        );
        let mut value = loop {
            match self.value.try_lock() {
                Some(value) => break value,
                None => pause(),
            }
        };
        self.hold(&mut value, f)
    }

    /// The same without waiting (`gasnet_hsl_trylock`). `None`: it is taken.
    pub fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        Some(self.hold(&mut *self.value.try_lock()?, f))
    }

    fn hold<R>(&self, value: &mut T, f: impl FnOnce(&mut T) -> R) -> R {
        /// The lock is free again, also behind a panic.
        struct Held<'h>(&'h AtomicUsize);
        impl Drop for Held<'_> {
            fn drop(&mut self) {
                self.0.store(0, Ordering::Relaxed);
            }
        }
        self.holder.store(this_thread(), Ordering::Relaxed);
        let _held = Held(&self.holder);
        f(value)
    }
}

impl<S> Rank<'_, S> {
    /// Begins a section in which no handler interrupts this rank (`gasnet_hold_interrupts`). None ever
    /// does: handlers run in calls of the rank. Only the pairs are checked.
    pub fn hold_interrupts(&mut self) -> Result<(), GasError> {
        self.pair(false)
    }

    /// Ends it (`gasnet_resume_interrupts`).
    pub fn resume_interrupts(&mut self) -> Result<(), GasError> {
        self.pair(true)
    }

    fn pair(&mut self, held: bool) -> Result<(), GasError> {
        if self.holds_interrupts != held {
            return Err(GasError::Interrupts { held: self.holds_interrupts });
        }
        self.holds_interrupts = !held;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;

    #[test]
    fn a_lock_is_taken_once() {
        let lock = Hsl::new(1);
        lock.with(|value| {
            *value += 1;
            assert_eq!(lock.try_with(|value| *value), None);
        });
        assert_eq!(lock.try_with(|value| *value), Some(2));
    }

    #[test]
    #[should_panic(expected = "a lock is taken by its holder")]
    fn a_lock_that_its_holder_takes_is_named() {
        let lock = Hsl::new(());
        lock.with(|()| lock.with(|()| ()));
    }

    #[test]
    fn threads_exclude_each_other() {
        let lock = Hsl::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| lock.with(|value| *value += 1)));
            }
        });
        assert_eq!(lock.with(|value| *value), 4000);
    }
}
