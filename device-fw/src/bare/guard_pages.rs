//! Guards below the stacks of tasks in page tables: one page each, because the compiler touches
//! every page of a large frame before it uses it. Boot code makes the tables.

#![expect(unsafe_code)]
// UNSAFETY: a guard's memory holds the table that unmaps it (contract "task stacks").

use super::stacks::STACKS;
#[cfg(feature = "tasks")]
use super::stacks::Stacks;

const PAGE: usize = 4096;

/// Bytes of the guard below a stack of `_stack` bytes.
#[cfg(feature = "tasks")]
pub(super) const fn bytes(_stack: usize) -> usize {
    PAGE
}

/// Tables can have any number of guards.
#[cfg(feature = "tasks")]
pub(super) const fn check(_count: usize, _stack: usize) {}

/// The tables have all of them.
#[cfg(feature = "tasks")]
pub(super) fn set(stacks: &Stacks) -> usize {
    stacks.count
}

/// The guard that begins at one of the `bytes` addresses from `start` on.
pub(super) fn guard_in(start: usize, bytes: usize) -> Option<usize> {
    let stride = STACKS.stride.get();
    let number = (start.saturating_sub(STACKS.first) + (stride - 1)) / STACKS.stride;
    let guard = STACKS.first + number * stride;
    (number < STACKS.count && guard - start < bytes).then_some(guard)
}

/// The guard at `at`, as memory of a table: the processor reads tables by physical addresses, and
/// no code can use the page.
///
/// # Safety
/// `at` is a guard ([`guard_in`]), mapped now and in no table that is used later. Each is
/// asked for once.
pub(super) unsafe fn page<T>(at: usize) -> &'static mut T {
    const { assert!(size_of::<T>() == PAGE && align_of::<T>() <= PAGE) };
    // SAFETY: a page of RAM that nothing else uses (contract); tables consist of integers.
    unsafe { &mut *core::ptr::with_exposed_provenance_mut(at) }
}
