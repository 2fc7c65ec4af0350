//! Values of 1 to 8 bytes that are stored and loaded as one, and atomics on such values (abi §13.5).

#![expect(unsafe_code)]
// UNSAFETY: as in `window`, whose contracts these are.

use core::sync::atomic::{AtomicI32, AtomicU8, AtomicU16, AtomicU32, Ordering};
#[cfg(target_has_atomic = "64")]
use core::sync::atomic::{AtomicI64, AtomicU64};

use bytemuck::Pod;

use super::{Loan, OutOfWindow, Window};

/// A number of 1, 2, 4 or 8 bytes, at a multiple of its size.
pub trait Value: Pod + sealed::Cell {}

/// A value that processors have atomics for: `u32`, `i32`, `u64`, `i64`.
pub trait AtomicValue: Value + sealed::Apply {}

/// An atomic access. Each but [`Self::Store`] acquires, each but [`Self::Load`] releases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOp<T> {
    /// No change.
    Load,
    /// Sets it.
    Store(T),
    /// Adds, and wraps.
    Add(T),
    /// Bitwise and.
    And(T),
    /// Bitwise or.
    Or(T),
    /// Bitwise exclusive or.
    Xor(T),
    /// The lesser.
    Min(T),
    /// The greater.
    Max(T),
    /// Sets it; as one with the load of the former value.
    Swap(T),
    /// Sets it to `new` if it is `expected`.
    CompareSwap {
        /// What it must be.
        expected: T,
        /// What it becomes then.
        new: T,
    },
}

mod sealed {
    use super::{AtomicOp, Loan, OutOfWindow, Window};

    pub trait Cell: Sized {
        fn load(window: &Window<Loan>, off: u64) -> Result<Self, OutOfWindow>;
        fn store(self, window: &Window<Loan>, off: u64) -> Result<(), OutOfWindow>;
    }

    pub trait Apply: Sized {
        fn apply(window: &Window<Loan>, off: u64, op: AtomicOp<Self>) -> Result<Self, OutOfWindow>;
    }
}

impl<K> Window<K> {
    /// The value at a multiple of its size, by one relaxed load.
    #[inline(always)]
    pub fn load<T: Value>(&self, off: u64) -> Result<T, OutOfWindow> {
        T::load(&self.lend(), off)
    }

    /// Stores a value at a multiple of its size, by one relaxed store.
    #[inline(always)]
    pub fn store<T: Value>(&self, off: u64, value: T) -> Result<(), OutOfWindow> {
        value.store(&self.lend(), off)
    }

    /// An atomic access at a multiple of the value's size; the value before it. [`AtomicOp::Store`]
    /// returns what it stores.
    #[inline(always)]
    pub fn atomic<T: AtomicValue>(&self, off: u64, op: AtomicOp<T>) -> Result<T, OutOfWindow> {
        T::apply(&self.lend(), off, op)
    }
}

macro_rules! values {
    ($($atomic:ident $bits:ident: $($t:ident)*;)*) => {$($(
        impl Value for $t {}
        impl sealed::Cell for $t {
            #[inline(always)]
            fn load(window: &Window<Loan>, off: u64) -> Result<Self, OutOfWindow> {
                const BYTES: u64 = size_of::<$t>() as u64;
                let at = window.at_aligned(off, BYTES, BYTES)?;
                // SAFETY: aligned and inside the region (checked above), which is mapped while the
                // window is borrowed; no reference covers it (contract of `Window::new`). A peer's
                // copy of other width over it garbles the value (`docs/unsafe.md`, "racing copies").
                let cell = unsafe { $atomic::from_ptr(at.as_ptr().cast()) };
                Ok(bytemuck::cast::<$bits, $t>(cell.load(Ordering::Relaxed)))
            }
            #[inline(always)]
            fn store(self, window: &Window<Loan>, off: u64) -> Result<(), OutOfWindow> {
                const BYTES: u64 = size_of::<$t>() as u64;
                let at = window.at_aligned(off, BYTES, BYTES)?;
                // SAFETY: as in `load`; the region is writable.
                let cell = unsafe { $atomic::from_ptr(at.as_ptr().cast()) };
                cell.store(bytemuck::cast::<$t, $bits>(self), Ordering::Relaxed);
                Ok(())
            }
        }
    )*)*};
}
values! {
    AtomicU8 u8: u8 i8;
    AtomicU16 u16: u16 i16;
    AtomicU32 u32: u32 i32 f32;
}
#[cfg(target_has_atomic = "64")]
values! {
    AtomicU64 u64: u64 i64 f64;
}

macro_rules! atomics {
    ($($atomic:ident $t:ident)*) => {$(
        impl AtomicValue for $t {}
        impl sealed::Apply for $t {
            fn apply(window: &Window<Loan>, off: u64, op: AtomicOp<Self>) -> Result<Self, OutOfWindow> {
                const BYTES: u64 = size_of::<$t>() as u64;
                let at = window.at_aligned(off, BYTES, BYTES)?;
                // SAFETY: as in `Cell::load`.
                let cell = unsafe { $atomic::from_ptr(at.as_ptr().cast()) };
                Ok(match op {
                    AtomicOp::Load => cell.load(Ordering::Acquire),
                    AtomicOp::Store(value) => {
                        cell.store(value, Ordering::Release);
                        value
                    }
                    AtomicOp::Add(value) => cell.fetch_add(value, Ordering::AcqRel),
                    AtomicOp::And(value) => cell.fetch_and(value, Ordering::AcqRel),
                    AtomicOp::Or(value) => cell.fetch_or(value, Ordering::AcqRel),
                    AtomicOp::Xor(value) => cell.fetch_xor(value, Ordering::AcqRel),
                    AtomicOp::Min(value) => cell.fetch_min(value, Ordering::AcqRel),
                    AtomicOp::Max(value) => cell.fetch_max(value, Ordering::AcqRel),
                    AtomicOp::Swap(value) => cell.swap(value, Ordering::AcqRel),
                    AtomicOp::CompareSwap { expected, new } => {
                        let (Ok(before) | Err(before)) =
                            cell.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire);
                        before
                    }
                })
            }
        }
    )*};
}
atomics! { AtomicU32 u32 AtomicI32 i32 }
#[cfg(target_has_atomic = "64")]
atomics! { AtomicU64 u64 AtomicI64 i64 }
