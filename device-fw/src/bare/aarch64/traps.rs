//! Traps: every exception ends the handler that caused it; the timer's interrupt finds runaways.

#![expect(unsafe_code)]
// UNSAFETY: the entry runs on no stack of Rust's.

use crate::bare::fault::{self, Trap};
use crate::bare::tick as bare_tick;
use core::arch::{asm, global_asm, naked_asm};

/// Registers of the interrupted code, as the vectors store them: x0 to x30 and the stack pointer.
#[repr(C)]
struct Registers {
    x: [u64; 31],
    stack: u64,
}
const _: () = assert!(size_of::<Registers>() == 256);

/// Why a vector was taken; the same for each of the states that an exception can come from.
const SYNCHRONOUS: u32 = 0;
const INTERRUPT: u32 = 1;
const SYSTEM_ERROR: u32 = 3;

// Where VBAR_EL1 points, in a multiple of 2 KiB: entries of 128 bytes, four for code that runs with
// SP_EL0, four for a trap within a trap. The other eight of the architecture are for exceptions from
// exception level 0, where an image runs nothing, so code follows in their place. The processor has
// switched to SP_EL1; it is set to the trap stack's top every time, since no trap returns and the
// trap stack may be what the last one broke.
global_asm!(
    r#"
    .section .text.__hamr_vectors, "ax"
    .balign 0x800
    .globl __hamr_vectors
__hamr_vectors:
    .rept 2
    .set hamr_kind, 0
    .rept 4
    .balign 0x80
    msr tpidr_el1, x0
    adrp x0, __hamr_trap_stack_top
    add x0, x0, :lo12:__hamr_trap_stack_top
    mov sp, x0
    sub sp, sp, #256
    mrs x0, tpidr_el1
    stp x0, x1, [sp]
    mov x1, #hamr_kind
    b {save}
    .set hamr_kind, hamr_kind + 1
    .endr
    .endr
    .balign 0x80
"#,
    save = sym save,
);

/// `$instruction` for each pair of registers and its offset, in units of `$bytes` from the stack
/// pointer.
macro_rules! pairs {
    ($instruction:literal, $kind:literal, $bytes:literal, $($first:literal $second:literal)*) => {
        concat!($($instruction, " ", $kind, $first, ", ", $kind, $second, ", [sp, #", $bytes, " * ", $first, "]\n",)*)
    };
}

/// `stp` or `ldp` of x2 to x29, as [`Registers`] has them.
macro_rules! general {
    ($instruction:literal) => {
        pairs!($instruction, "x", 8,
            2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29)
    };
}

/// The same of the registers for vectors.
macro_rules! vectors {
    ($instruction:literal) => {
        pairs!($instruction, "q", 16,
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
    };
}

/// The common part of every entry; x1 is its kind.
#[unsafe(naked)]
unsafe extern "C" fn save() -> ! {
    naked_asm!(
        general!("stp"),
        // The interrupted stack pointer, unless this is a trap within a trap.
        "mrs x0, sp_el0",
        "stp x30, x0, [sp, #240]",
        "mov x0, sp",
        "mov x29, xzr",
        "mov x30, xzr",
        "cmp x1, #{interrupt}",
        "b.ne {trap}",
        // What code may be using beside the registers saved above.
        "sub sp, sp, #528",
        vectors!("stp"),
        "mrs x2, fpsr",
        "mrs x3, fpcr",
        "str x2, [sp, #512]",
        "str x3, [sp, #520]",
        "bl {tick}",
        vectors!("ldp"),
        "ldr x2, [sp, #512]",
        "ldr x3, [sp, #520]",
        "msr fpsr, x2",
        "msr fpcr, x3",
        "add sp, sp, #528",
        "ldr x30, [sp, #240]",
        general!("ldp"),
        "ldp x0, x1, [sp]",
        "add sp, sp, #256",
        "eret",
        interrupt = const INTERRUPT,
        trap = sym trap,
        tick = sym tick,
    )
}

extern "C" fn tick(registers: &Registers) {
    if super::tick::next() {
        let pc;
        // SAFETY: reads a register.
        unsafe { asm!("mrs {}, elr_el1", out(reg) pc, options(nomem, nostack, preserves_flags)) };
        let &Registers { x: [.., frame, link], stack } = registers;
        bare_tick::tick(Trap { name: "", cause: 0, pc, address: 0, stack, frame, link: Some(link) });
    }
}

extern "C" fn trap(registers: &Registers, kind: u32) -> ! {
    let (syndrome, pc, address): (u64, u64, u64);
    // SAFETY: reads three system registers.
    unsafe {
        asm!("mrs {}, esr_el1", "mrs {}, elr_el1", "mrs {}, far_el1",
            out(reg) syndrome, out(reg) pc, out(reg) address, options(nomem, nostack, preserves_flags))
    };
    let class = (syndrome >> 26 & 0x3F) as u32;
    let (name, cause) = match kind {
        SYNCHRONOUS => (name(class, syndrome), class),
        SYSTEM_ERROR => ("system error", class),
        _ => ("unexpected interrupt", 0),
    };
    // Others leave the register as it was.
    let has_address = kind == SYNCHRONOUS && matches!(class, 0x20..=0x22 | 0x24 | 0x25 | 0x34 | 0x35);
    let address = if has_address { address } else { 0 };
    let &Registers { x: [.., frame, link], stack } = registers;
    fault::trapped(Trap { name, cause, pc, address, stack, frame, link: Some(link) })
}

/// Names of the exception classes that ESR_EL1.EC can have here.
fn name(class: u32, syndrome: u64) -> &'static str {
    let is_write = syndrome & 1 << 6 != 0;
    // DFSC or IFSC without the level of the table.
    let status = syndrome >> 2 & 0xF;
    match (class, status) {
        (0x00, _) => "undefined instruction",
        (0x07 | 0x19 | 0x1D, _) => "trapped vector instruction",
        (0x0D, _) => "branch target exception",
        (0x0E, _) => "illegal execution state",
        (0x15..=0x17, _) => "environment call",
        (0x18, _) => "trapped system register",
        (0x20 | 0x21, 1) => "instruction page fault",
        (0x20 | 0x21, 3) => "instruction permission fault",
        (0x20 | 0x21, _) => "instruction access fault",
        (0x22, _) => "instruction address misaligned",
        (0x24 | 0x25, 1) if is_write => "store page fault",
        (0x24 | 0x25, 1) => "load page fault",
        (0x24 | 0x25, 3) if is_write => "store permission fault",
        (0x24 | 0x25, 3) => "load permission fault",
        (0x24 | 0x25, 8) => "data address misaligned",
        (0x24 | 0x25, _) if is_write => "store access fault",
        (0x24 | 0x25, _) => "load access fault",
        (0x26, _) => "stack pointer misaligned",
        (0x2C, _) => "floating point exception",
        (0x30..=0x35, _) => "debug exception",
        (0x3C, _) => "breakpoint",
        _ => "unknown trap",
    }
}
