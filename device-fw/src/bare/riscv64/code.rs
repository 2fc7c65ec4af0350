//! Memory of modules as code. An image that takes modules may run all its memory but for guards: see
//! `bare/modules.rs`.

#![expect(unsafe_code)]
// UNSAFETY: an instruction without an intrinsic.

use core::arch::asm;

/// Makes code of whole pages.
///
/// # Safety
/// They are memory of modules, and no code of them runs.
pub(in crate::bare) unsafe fn make(_: usize, _: usize) {
    // SAFETY: instructions that are fetched behind it see the stores before it, on this hart, which is
    // the only one.
    unsafe { asm!("fence.i", options(nostack, preserves_flags)) };
}

/// Makes data of them again.
///
/// # Safety
/// As [`make`].
pub(in crate::bare) unsafe fn unmake(_: usize, _: usize) {}
