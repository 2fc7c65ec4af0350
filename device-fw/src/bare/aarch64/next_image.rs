//! Turns translation and caches off, moves the next image to its place and enters it.

#![expect(unsafe_code)]
// UNSAFETY: behind this image's end there is only assembly.

use crate::bare::memory;
use crate::bare::mover::{Code, NextImage};
use core::arch::global_asm;

unsafe extern "C" {
    // Where they are is used; no code calls them.
    safe fn __hamr_mover();
    safe fn __hamr_mover_end();
    fn __hamr_leave(to: usize, from: usize, bytes: usize, entry: usize, mover: usize, end: usize, ram_end: usize) -> !;
}

/// Runs without translation.
pub(in crate::bare) const MOVER: Code = Code::between(__hamr_mover, __hamr_mover_end);

/// Can this image be left?
pub(in crate::bare) fn can_leave() -> bool {
    true
}

/// Ends this image.
///
/// # Safety
/// No code of this image runs behind it, interrupts are masked, the bytes and the mover are where `next`
/// says, outside of both images.
pub(in crate::bare) unsafe fn leave(next: &NextImage) -> ! {
    let &NextImage { from, ref to, bytes, entry, mover } = next;
    // SAFETY: the contract.
    unsafe { __hamr_leave(to.start, from, bytes, entry, mover, to.end, memory::ram_addresses().end) }
}

// No store goes to memory between the cleaning of the caches and their end, so no line is written back over
// the next image. The mover drops lines that were fetched in between.
global_asm!(
    r#"
    .section .text.hamr.leave, "ax"
    .globl __hamr_leave, __hamr_mover, __hamr_mover_end
__hamr_leave:
    msr daifset, #15
    dsb sy
    mov x7, x0
1:  dc civac, x7
    add x7, x7, #16
    cmp x7, x5
    b.lo 1b
    mov x7, x1
2:  dc civac, x7
    add x7, x7, #16
    cmp x7, x6
    b.lo 2b
    dsb sy
    // SCTLR_EL1 as in `boot` before translation.
    movz x7, #0x0800
    movk x7, #0x30D0, lsl #16
    msr sctlr_el1, x7
    isb
    ic iallu
    dsb sy
    isb
    br x4
__hamr_mover:
    mov x7, x0
3:  ldr x8, [x1], #8
    str x8, [x7], #8
    subs x2, x2, #8
    b.ne 3b
    dsb sy
4:  dc ivac, x0
    add x0, x0, #16
    cmp x0, x5
    b.lo 4b
    ic iallu
    tlbi vmalle1
    dsb sy
    isb
    br x3
__hamr_mover_end:
"#
);
