//! Memory of modules as code: small pages (`pages`).

#![expect(unsafe_code)]
// UNSAFETY: the contract that other instruction sets need, too.

use super::pages;

/// Makes code of whole pages: read and run, not written. Caches agree by themselves, and the write of
/// CR3 behind it serialises.
///
/// # Safety
/// They are memory of modules, and no code of them runs.
pub(in crate::bare) unsafe fn make(first: usize, bytes: usize) {
    pages::set(first, bytes, pages::CODE);
}

/// Makes data of them again.
///
/// # Safety
/// As [`make`].
pub(in crate::bare) unsafe fn unmake(first: usize, bytes: usize) {
    pages::set(first, bytes, pages::DATA);
}
