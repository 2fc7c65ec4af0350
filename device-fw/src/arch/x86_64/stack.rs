//! The stack switch of this instruction set; `arch` documents what is common to all.

#![expect(unsafe_code)]
// UNSAFETY: switching stacks has no words in Rust.

use crate::arch::ANCHOR;
use core::arch::{asm, naked_asm};

/// The call pushes the return address, then the function pushes the frame pointer.
pub(crate) const SAVED_FRAME: i64 = 0;
pub(crate) const SAVED_RETURN: i64 = 8;
pub(crate) const CODE_BITS: u64 = !0;

#[inline(always)]
pub(crate) fn frame_pointer() -> u64 {
    let frame;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack, preserves_flags)) };
    frame
}

#[unsafe(naked)]
pub(crate) unsafe extern "C" fn run(top: *mut u8, f: extern "C" fn(*mut ()) -> !, arg: *mut ()) {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov [rip + {anchor}], rsp",
        "mov rsp, rdi",
        "mov rdi, rdx",
        // Ends chains of frames.
        "xor ebp, ebp",
        "push 0",
        "jmp rsi",
        anchor = sym ANCHOR,
    )
}

#[unsafe(naked)]
pub(crate) unsafe extern "C" fn abort() -> ! {
    naked_asm!(
        "mov rsp, [rip + {anchor}]",
        // What a handler left in the x87 registers would count as a full register stack.
        "fninit",
        "fldcw [rsp + 4]",
        "ldmxcsr [rsp]",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        anchor = sym ANCHOR,
    )
}
