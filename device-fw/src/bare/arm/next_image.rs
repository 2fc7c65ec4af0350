//! No image can take the place of this one: hosts build none for this instruction set that could be moved.

#![expect(unsafe_code)]
// UNSAFETY: a signature, which the other instruction sets need.

use crate::bare::mover::{Code, NextImage};

extern "C" fn none() {}

/// Nothing runs there.
pub(in crate::bare) const MOVER: Code = Code::between(none, none);

/// This image cannot be left.
pub(in crate::bare) fn can_leave() -> bool {
    false
}

/// Never called: [`can_leave`].
///
/// # Safety
/// None.
pub(in crate::bare) unsafe fn leave(next: &NextImage) -> ! {
    let NextImage { from, to, bytes, entry, mover } = next;
    let _ = (from, to, bytes, entry, mover);
    crate::bare::console::exit(crate::bare::BROKEN)
}
