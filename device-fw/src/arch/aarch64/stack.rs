//! The stack switch of this instruction set; `arch` documents what is common to all.

#![expect(unsafe_code)]
// UNSAFETY: switching stacks has no words in Rust.

use crate::arch::ANCHOR;
use core::arch::{asm, naked_asm};

/// The frame pointer points to the frame record of the procedure call standard.
pub(crate) const SAVED_FRAME: i64 = 0;
pub(crate) const SAVED_RETURN: i64 = 8;
pub(crate) const CODE_BITS: u64 = !0;

#[inline(always)]
pub(crate) fn frame_pointer() -> u64 {
    let frame;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, x29", out(reg) frame, options(nomem, nostack, preserves_flags)) };
    frame
}

/// Stores or loads the registers that a function preserves for its caller.
macro_rules! kept {
    ($instruction:literal) => {
        kept!($instruction,
            x19 x20 0 x21 x22 1 x23 x24 2 x25 x26 3 x27 x28 4 x29 x30 5 d8 d9 6 d10 d11 7 d12 d13 8 d14 d15 9)
    };
    ($instruction:literal, $($first:ident $second:ident $place:literal)*) => {
        concat!($($instruction, " ", stringify!($first), ", ", stringify!($second), ", [sp, #16 * ", $place, "]\n",)*)
    };
}

#[unsafe(naked)]
pub(crate) unsafe extern "C" fn run(top: *mut u8, f: extern "C" fn(*mut ()) -> !, arg: *mut ()) {
    naked_asm!(
        "sub sp, sp, #176",
        kept!("stp"),
        "mrs x9, fpcr",
        "str x9, [sp, #160]",
        "adrp x9, {anchor}",
        "mov x10, sp",
        "str x10, [x9, :lo12:{anchor}]",
        "mov sp, x0",
        "mov x9, x1",
        "mov x0, x2",
        "mov x29, xzr",
        "mov x30, xzr",
        "br x9",
        anchor = sym ANCHOR,
    )
}

#[unsafe(naked)]
pub(crate) unsafe extern "C" fn abort() -> ! {
    naked_asm!(
        // A trap runs on SP_EL1, everything else on SP_EL0. Interrupts are masked in both.
        "msr spsel, #0",
        "adrp x9, {anchor}",
        "ldr x9, [x9, :lo12:{anchor}]",
        "mov sp, x9",
        kept!("ldp"),
        "ldr x9, [sp, #160]",
        "msr fpcr, x9",
        "add sp, sp, #176",
        "ret",
        anchor = sym ANCHOR,
    )
}
