//! The stack switch of this instruction set; `arch` documents what is common to all. Everything but exceptions runs on the process
//! stack pointer.

#![expect(unsafe_code)]
// UNSAFETY: switching stacks has no words in Rust.

use crate::arch::ANCHOR;
use core::arch::{asm, naked_asm};

/// The frame pointer points to the frame record of the procedure call standard.
pub(crate) const SAVED_FRAME: i64 = 0;
pub(crate) const SAVED_RETURN: i64 = 4;
/// The lowest bit of a return address says that its code is Thumb.
pub(crate) const CODE_BITS: u64 = !1;

#[inline(always)]
pub(crate) fn frame_pointer() -> u64 {
    let frame: u32;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, r7", out(reg) frame, options(nomem, nostack, preserves_flags)) };
    frame.into()
}

#[unsafe(naked)]
pub(crate) unsafe extern "C" fn run(top: *mut u8, f: extern "C" fn(*mut ()) -> !, arg: *mut ()) {
    naked_asm!(
        // The assembler of naked functions does not know the target's extensions.
        ".fpu fpv4-sp-d16",
        "push {{r3-r11, lr}}",
        "vpush {{d8-d15}}",
        "vmrs r3, fpscr",
        "push {{r3, r4}}",
        "movw r3, :lower16:{anchor}",
        "movt r3, :upper16:{anchor}",
        "mov r12, sp",
        "str r12, [r3]",
        "mov sp, r0",
        "mov r0, r2",
        "movs r7, #0",
        "mov lr, r7",
        "bx r1",
        anchor = sym ANCHOR,
    )
}

#[unsafe(naked)]
pub(crate) unsafe extern "C" fn abort() -> ! {
    naked_asm!(
        "mrs r0, ipsr",
        "movw r1, :lower16:{back}",
        "movt r1, :upper16:{back}",
        "cbnz r0, 1f",
        "bx r1",
        // In an exception: it returns to `back`, with a frame below the anchor, where nothing is. Its own stack is left
        // empty, for the next one.
        "1:",
        "movw r0, :lower16:{anchor}",
        "movt r0, :upper16:{anchor}",
        "ldr r0, [r0]",
        "subs r0, #32",
        "bic r1, r1, #1",
        "str r1, [r0, #24]",
        "mov.w r1, #0x01000000",
        "str r1, [r0, #28]",
        "msr psp, r0",
        "movw r0, :lower16:__hamr_trap_stack_top",
        "movt r0, :upper16:__hamr_trap_stack_top",
        "msr msp, r0",
        // EXC_RETURN: to thread mode, on the process stack, a frame without floating point.
        "mvn lr, #2",
        "bx lr",
        anchor = sym ANCHOR,
        back = sym back,
    )
}

/// Returns from [`run`].
#[unsafe(naked)]
unsafe extern "C" fn back() -> ! {
    naked_asm!(
        ".fpu fpv4-sp-d16",
        "movw r3, :lower16:{anchor}",
        "movt r3, :upper16:{anchor}",
        "ldr r3, [r3]",
        "mov sp, r3",
        "pop {{r3, r4}}",
        "vmsr fpscr, r3",
        "vpop {{d8-d15}}",
        "pop {{r3-r11, pc}}",
        anchor = sym ANCHOR,
    )
}
