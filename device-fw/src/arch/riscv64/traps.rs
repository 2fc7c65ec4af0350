//! Traps: every exception ends the handler that caused it; the timer's interrupt finds runaways.

#![expect(unsafe_code)]
// UNSAFETY: the entry runs on no stack of Rust's.

use crate::bare::fault::{self, Trap};
use crate::bare::tick as bare_tick;
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
        "csrr a1, mcause",
        "bltz a1, 1f",
        "tail {trap}",
        // An interrupt: what code may be using beside the registers saved above. The assembler of naked functions is not
        // told what the target has.
        ".option push",
        ".option arch, +d",
        "1:",
        "addi sp, sp, -272",
        "fsd f0, 0(sp)",
        "fsd f1, 8(sp)",
        "fsd f2, 16(sp)",
        "fsd f3, 24(sp)",
        "fsd f4, 32(sp)",
        "fsd f5, 40(sp)",
        "fsd f6, 48(sp)",
        "fsd f7, 56(sp)",
        "fsd f8, 64(sp)",
        "fsd f9, 72(sp)",
        "fsd f10, 80(sp)",
        "fsd f11, 88(sp)",
        "fsd f12, 96(sp)",
        "fsd f13, 104(sp)",
        "fsd f14, 112(sp)",
        "fsd f15, 120(sp)",
        "fsd f16, 128(sp)",
        "fsd f17, 136(sp)",
        "fsd f18, 144(sp)",
        "fsd f19, 152(sp)",
        "fsd f20, 160(sp)",
        "fsd f21, 168(sp)",
        "fsd f22, 176(sp)",
        "fsd f23, 184(sp)",
        "fsd f24, 192(sp)",
        "fsd f25, 200(sp)",
        "fsd f26, 208(sp)",
        "fsd f27, 216(sp)",
        "fsd f28, 224(sp)",
        "fsd f29, 232(sp)",
        "fsd f30, 240(sp)",
        "fsd f31, 248(sp)",
        "csrr t0, fcsr",
        "sd t0, 256(sp)",
        "call {tick}",
        "ld t0, 256(sp)",
        "csrw fcsr, t0",
        "fld f0, 0(sp)",
        "fld f1, 8(sp)",
        "fld f2, 16(sp)",
        "fld f3, 24(sp)",
        "fld f4, 32(sp)",
        "fld f5, 40(sp)",
        "fld f6, 48(sp)",
        "fld f7, 56(sp)",
        "fld f8, 64(sp)",
        "fld f9, 72(sp)",
        "fld f10, 80(sp)",
        "fld f11, 88(sp)",
        "fld f12, 96(sp)",
        "fld f13, 104(sp)",
        "fld f14, 112(sp)",
        "fld f15, 120(sp)",
        "fld f16, 128(sp)",
        "fld f17, 136(sp)",
        "fld f18, 144(sp)",
        "fld f19, 152(sp)",
        "fld f20, 160(sp)",
        "fld f21, 168(sp)",
        "fld f22, 176(sp)",
        "fld f23, 184(sp)",
        "fld f24, 192(sp)",
        "fld f25, 200(sp)",
        "fld f26, 208(sp)",
        "fld f27, 216(sp)",
        "fld f28, 224(sp)",
        "fld f29, 232(sp)",
        "fld f30, 240(sp)",
        "fld f31, 248(sp)",
        "addi sp, sp, 272",
        "ld x1, 0(sp)",
        "ld x3, 16(sp)",
        "ld x4, 24(sp)",
        "ld x5, 32(sp)",
        "ld x6, 40(sp)",
        "ld x7, 48(sp)",
        "ld x8, 56(sp)",
        "ld x9, 64(sp)",
        "ld x10, 72(sp)",
        "ld x11, 80(sp)",
        "ld x12, 88(sp)",
        "ld x13, 96(sp)",
        "ld x14, 104(sp)",
        "ld x15, 112(sp)",
        "ld x16, 120(sp)",
        "ld x17, 128(sp)",
        "ld x18, 136(sp)",
        "ld x19, 144(sp)",
        "ld x20, 152(sp)",
        "ld x21, 160(sp)",
        "ld x22, 168(sp)",
        "ld x23, 176(sp)",
        "ld x24, 184(sp)",
        "ld x25, 192(sp)",
        "ld x26, 200(sp)",
        "ld x27, 208(sp)",
        "ld x28, 216(sp)",
        "ld x29, 224(sp)",
        "ld x30, 232(sp)",
        "ld x31, 240(sp)",
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
