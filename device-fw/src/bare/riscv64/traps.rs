//! Traps: every exception ends the handler that caused it; the timer's interrupt finds runaways.

#![expect(unsafe_code)]
// UNSAFETY: the entry runs on no stack of Rust's.

use crate::bare::fault::{self, Trap};
use crate::bare::tick as bare_tick;
use core::arch::{asm, naked_asm};

/// Registers of the interrupted code, as [`entry`] stores them: x1 to x31.
#[repr(C)]
pub(super) struct Registers {
    x: [u64; 31],
    _pad: u64,
}
const _: () = assert!(size_of::<Registers>() == 256);

/// `$instruction` for each `$kind$number` and its offset, in words from the stack pointer.
macro_rules! each {
    ($instruction:literal, $kind:literal, $($number:literal at $place:literal)*) => {
        concat!($($instruction, " ", $kind, $number, ", 8 * ", $place, "(sp)\n",)*)
    };
}

/// `sd` or `ld` of the general registers of [`Registers`], all but the stack pointer (x2).
macro_rules! general {
    ($instruction:literal) => {
        each!($instruction, "x",
            1 at 0 3 at 2 4 at 3 5 at 4 6 at 5 7 at 6 8 at 7 9 at 8 10 at 9 11 at 10 12 at 11 13 at 12 14 at 13 15 at 14 16 at 15
            17 at 16 18 at 17 19 at 18 20 at 19 21 at 20 22 at 21 23 at 22 24 at 23 25 at 24 26 at 25 27 at 26 28 at 27 29 at 28
            30 at 29 31 at 30)
    };
}

/// `fsd` or `fld` of the registers for floats.
macro_rules! floats {
    ($instruction:literal) => {
        each!($instruction, "f",
            0 at 0 1 at 1 2 at 2 3 at 3 4 at 4 5 at 5 6 at 6 7 at 7 8 at 8 9 at 9 10 at 10 11 at 11 12 at 12 13 at 13 14 at 14
            15 at 15 16 at 16 17 at 17 18 at 18 19 at 19 20 at 20 21 at 21 22 at 22 23 at 23 24 at 24 25 at 25 26 at 26 27 at 27
            28 at 28 29 at 29 30 at 30 31 at 31)
    };
}

/// Where mtvec points: switches to the trap stack, which it leaves by returning from interrupts only. The call of
/// `machine_mode` goes on where it is. There is no thread-local memory, so tp is free for these first steps.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn entry() -> ! {
    naked_asm!(
        // mtvec takes a multiple of 4.
        ".balign 4",
        "csrrw sp, mscratch, sp",
        "csrr tp, mepc",
        "lla sp, __hamr_gate_call",
        "bne tp, sp, 2f",
        "csrr tp, mcause",
        "bltz tp, 2f",
        "lla tp, __hamr_trap_stack_top",
        "csrrw sp, mscratch, tp",
        "csrr t0, mstatus",
        "j __hamr_in_machine_mode",
        "2:",
        "lla sp, __hamr_trap_stack_top",
        "addi sp, sp, -256",
        general!("sd"),
        // The interrupted stack pointer, and the trap stack's top back for the next trap.
        "addi t0, sp, 256",
        "csrrw t0, mscratch, t0",
        "sd t0, 8(sp)",
        "mv a0, sp",
        "li s0, 0",
        "li ra, 0",
        "csrr a1, mcause",
        "bltz a1, 1f",
        "tail {trap}",
        // An interrupt: what code may be using beside the registers saved above, and what `machine_mode` changes
        // meanwhile. The assembler of naked functions does not know the target's extensions.
        ".option push",
        ".option arch, +d",
        "1:",
        "addi sp, sp, -288",
        floats!("fsd"),
        "csrr t0, fcsr",
        "sd t0, 256(sp)",
        "csrr t0, mepc",
        "sd t0, 264(sp)",
        "csrr t0, mstatus",
        "sd t0, 272(sp)",
        "call {tick}",
        "ld t0, 272(sp)",
        "csrw mstatus, t0",
        "ld t0, 264(sp)",
        "csrw mepc, t0",
        "ld t0, 256(sp)",
        "csrw fcsr, t0",
        floats!("fld"),
        "addi sp, sp, 288",
        general!("ld"),
        "ld sp, 8(sp)",
        "mret",
        ".option pop",
        trap = sym trap,
        tick = sym tick,
    )
}

extern "C" fn tick(registers: &Registers, cause: u64) {
    if super::tick::next(cause) {
        let pc;
        // SAFETY: reads a control register.
        unsafe { asm!("csrr {}, mepc", out(reg) pc, options(nomem, nostack, preserves_flags)) };
        let [link, stack, _, _, _, _, _, frame, ..] = registers.x;
        bare_tick::tick(Trap { name: "", cause: 0, pc, address: 0, stack, frame, link: Some(link) });
    }
}

extern "C" fn trap(registers: &Registers) -> ! {
    let (cause, pc, address): (u64, u64, u64);
    // SAFETY: reads three control registers.
    unsafe {
        asm!("csrr {}, mcause", "csrr {}, mepc", "csrr {}, mtval",
            out(reg) cause, out(reg) pc, out(reg) address, options(nomem, nostack, preserves_flags))
    };
    let [link, stack, _, _, _, _, _, frame, ..] = registers.x;
    let name = name(cause);
    fault::trapped(Trap { name, cause: cause as u32, pc, address, stack, frame, link: Some(link) })
}

/// Names of the privileged specification, table "machine cause register values".
fn name(cause: u64) -> &'static str {
    match cause {
        0 => "instruction address misaligned",
        1 => "instruction access fault",
        2 => "illegal instruction",
        3 => "breakpoint",
        4 => "load address misaligned",
        5 => "load access fault",
        6 => "store address misaligned",
        7 => "store access fault",
        8..=11 => "environment call",
        12 => "instruction page fault",
        13 => "load page fault",
        15 => "store page fault",
        _ => "unknown trap",
    }
}
