//! The stack switch of this instruction set; `arch` documents what is common to all.

#![expect(unsafe_code)]
// UNSAFETY: switching stacks has no words in Rust.

use super::machine_mode::{MACHINE, SERVE_MODE};
use crate::arch::ANCHOR;
use core::arch::{asm, naked_asm};

/// The frame pointer points above the two words.
pub(crate) const SAVED_FRAME: i64 = -16;
pub(crate) const SAVED_RETURN: i64 = -8;
pub(crate) const CODE_BITS: u64 = !0;

#[inline(always)]
pub(crate) fn frame_pointer() -> u64 {
    let frame;
    // SAFETY: reads a register.
    unsafe { asm!("mv {}, s0", out(reg) frame, options(nomem, nostack, preserves_flags)) };
    frame
}

/// Stores or loads the registers that a function preserves for its caller.
macro_rules! kept {
    ($general:literal, $float:literal) => {
        concat!(
            kept!(@ $general, ra 0 s0 1 s1 2 s2 3 s3 4 s4 5 s5 6 s6 7 s7 8 s8 9 s9 10 s10 11 s11 12),
            kept!(@ $float, fs0 13 fs1 14 fs2 15 fs3 16 fs4 17 fs5 18 fs6 19 fs7 20 fs8 21 fs9 22 fs10 23 fs11 24),
        )
    };
    (@ $instruction:literal, $($register:ident $place:literal)*) => {
        concat!($($instruction, " ", stringify!($register), ", 8 * ", $place, "(sp)\n",)*)
    };
}

#[unsafe(naked)]
pub(crate) unsafe extern "C" fn run(top: *mut u8, f: extern "C" fn(*mut ()) -> !, arg: *mut ()) {
    naked_asm!(
        // The assembler of naked functions does not know the target's extensions.
        ".option push",
        ".option arch, +d",
        "addi sp, sp, -208",
        kept!("sd", "fsd"),
        "frcsr t0",
        "sd t0, 200(sp)",
        "la t0, {anchor}",
        "sd sp, 0(t0)",
        // Its mode, with interrupts on, as far as mie has any.
        "la t0, {mode}",
        "ld t0, 0(t0)",
        "li t1, {machine}",
        "csrc mstatus, t1",
        "csrs mstatus, t0",
        "li t1, 1 << 7",
        "csrs mstatus, t1",
        "csrw mepc, a1",
        "mv sp, a0",
        "mv a0, a2",
        "li s0, 0",
        "li ra, 0",
        "mret",
        ".option pop",
        anchor = sym ANCHOR,
        mode = sym SERVE_MODE,
        machine = const MACHINE,
    )
}

#[unsafe(naked)]
pub(crate) unsafe extern "C" fn abort() -> ! {
    // `run` was called in machine mode.
    naked_asm!("lla a0, {back}", "tail __hamr_gate", back = sym back)
}

/// Returns from [`run`].
#[unsafe(naked)]
unsafe extern "C" fn back() -> ! {
    naked_asm!(
        ".option push",
        ".option arch, +d",
        "la t0, {anchor}",
        "ld sp, 0(t0)",
        kept!("ld", "fld"),
        "ld t1, 200(sp)",
        "fscsr t1",
        "addi sp, sp, 208",
        "ret",
        ".option pop",
        anchor = sym ANCHOR,
    )
}
