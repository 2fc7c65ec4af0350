//! The interrupt controller that messages of functions go to: each processor has a file of
//! interrupt numbers, which it reaches through control registers (RISC-V Advanced Interrupt
//! Architecture 1.0, chapter 3).

#![expect(unsafe_code)]
// UNSAFETY: control registers have no intrinsics.

use super::machine_mode::machine_mode;
use super::timer::INTERRUPTS;
use core::arch::asm;
use core::sync::atomic::Ordering;

/// mie: machine external interrupt.
const EXTERNAL: u64 = 1 << 11;

/// Lets interrupt `number`, below 32, end a `wfi`. False where the processor has no such
/// controller. Called in machine mode, as a board's start is.
pub fn forward(number: u32) -> bool {
    let is_there: u64;
    // SAFETY: numbers are of the machine-level interrupt file: eidelivery and eithreshold let
    // everything through, eie0 enables one number. A processor without the registers traps at the
    // first of them, before anything has changed; the trap comes to the label, which sets the
    // vector back, and finds `is_there` still zero.
    unsafe {
        asm!(
            "la {vector}, 2f",
            "csrrw {vector}, mtvec, {vector}",
            "li {there}, 0",
            "csrw 0x350, {delivery}",
            "csrw 0x351, {one}",
            "csrw 0x350, {threshold}",
            "csrw 0x351, zero",
            "csrw 0x350, {enable}",
            "csrs 0x351, {bit}",
            "li {there}, 1",
            ".balign 4",
            "2:",
            "csrw mtvec, {vector}",
            vector = out(reg) _,
            there = out(reg) is_there,
            delivery = in(reg) 0x70_u64,
            one = in(reg) 1_u64,
            threshold = in(reg) 0x72_u64,
            enable = in(reg) 0xC0_u64,
            bit = in(reg) 1_u64 << number,
            options(nostack),
        )
    };
    if is_there != 0 {
        INTERRUPTS.fetch_or(EXTERNAL, Ordering::Relaxed);
    }
    is_there != 0
}

/// Takes every interrupt that is pending.
pub fn acknowledge() {
    machine_mode(&mut || {
        loop {
            let top: u64;
            // SAFETY: reads the most urgent number and clears it (mtopei); only after `forward` found
            // the register.
            unsafe { asm!("csrrw {}, 0x35C, zero", out(reg) top, options(nostack)) };
            if top == 0 {
                return;
            }
        }
    });
}
