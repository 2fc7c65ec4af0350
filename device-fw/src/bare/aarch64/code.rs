//! Memory of modules as code: pages of translation tables that boot code has made (`tables`).

#![expect(unsafe_code)]
// UNSAFETY: the processor reads the tables, and caches have no intrinsics.

use super::tables;
use core::arch::asm;

/// The shortest line of a cache.
const LINE: usize = 16;

/// Makes code of whole pages: read and run, not written.
///
/// # Safety
/// They are memory of modules, and no code of them runs.
pub(in crate::bare) unsafe fn make(first: usize, bytes: usize) {
    for line in (first..first + bytes).step_by(LINE) {
        // SAFETY: cleans what was stored, to where instructions are fetched from.
        unsafe { asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: pages of modules (contract).
    unsafe { tables::set(first, bytes, tables::CODE) };
}

/// Makes data of them again.
///
/// # Safety
/// As [`make`].
pub(in crate::bare) unsafe fn unmake(first: usize, bytes: usize) {
    // SAFETY: pages of modules (contract).
    unsafe { tables::set(first, bytes, tables::DATA) };
}
