//! Memory of modules as code: all memory may be run.

#![expect(unsafe_code)]
// UNSAFETY: instructions without an intrinsic.

use core::arch::asm;

/// Makes code of whole pages.
///
/// # Safety
/// They are memory of modules, and no code of them runs.
pub(in crate::bare) unsafe fn make(_: usize, _: usize) {
    // SAFETY: instructions that are fetched behind it see the stores before it.
    unsafe { asm!("dsb", "isb", options(nostack, preserves_flags)) };
}

/// Makes data of them again.
///
/// # Safety
/// As [`make`].
pub(in crate::bare) unsafe fn unmake(_: usize, _: usize) {}
