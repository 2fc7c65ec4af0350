//! Traps: every one of them ends the handler that caused it.

#![expect(unsafe_code)]
// UNSAFETY: the entry runs on no stack of Rust's.

use crate::bare::fault::{self, Trap};
use core::arch::{asm, naked_asm};

/// Registers of the interrupted code, as [`entry`] lays them down: x1 to x31.
#[repr(C)]
pub(super) struct Registers {
    x: [u64; 31],
    _pad: u64,
}
const _: () = assert!(size_of::<Registers>() == 256);

/// Where mtvec points: switches to the trap stack, which it never leaves by returning.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn entry() -> ! {
    naked_asm!(
        // mtvec takes a multiple of 4.
        ".balign 4",
        "csrrw sp, mscratch, sp",
        "addi sp, sp, -256",
        "sd x1, 0(sp)",
        "sd x3, 16(sp)",
        "sd x4, 24(sp)",
        "sd x5, 32(sp)",
        "sd x6, 40(sp)",
        "sd x7, 48(sp)",
        "sd x8, 56(sp)",
        "sd x9, 64(sp)",
        "sd x10, 72(sp)",
        "sd x11, 80(sp)",
        "sd x12, 88(sp)",
        "sd x13, 96(sp)",
        "sd x14, 104(sp)",
        "sd x15, 112(sp)",
        "sd x16, 120(sp)",
        "sd x17, 128(sp)",
        "sd x18, 136(sp)",
        "sd x19, 144(sp)",
        "sd x20, 152(sp)",
        "sd x21, 160(sp)",
        "sd x22, 168(sp)",
        "sd x23, 176(sp)",
        "sd x24, 184(sp)",
        "sd x25, 192(sp)",
        "sd x26, 200(sp)",
        "sd x27, 208(sp)",
        "sd x28, 216(sp)",
        "sd x29, 224(sp)",
        "sd x30, 232(sp)",
        "sd x31, 240(sp)",
        // The interrupted stack pointer, and the trap stack's top back for the next trap.
        "addi t0, sp, 256",
        "csrrw t0, mscratch, t0",
        "sd t0, 8(sp)",
        "mv a0, sp",
        "li s0, 0",
        "li ra, 0",
        "tail {trap}",
        trap = sym trap,
    )
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
        _ if cause >> 63 != 0 => "interrupt nobody asked for",
        _ => "unknown trap",
    }
}
