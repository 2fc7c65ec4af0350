//! Moves the next image to its place and enters it. The protection of this image goes first: entries that
//! bind machine mode are locked, and can be turned off without a reset only on a hart with Smepmp, where `boot`
//! has set that locks are bypassed (mseccfg.RLB).

#![expect(unsafe_code)]
// UNSAFETY: behind this image's end there is only assembly.

use crate::bare::mover::{Code, NextImage};
use core::arch::{asm, global_asm};

unsafe extern "C" {
    // Where they are is used; no code calls them.
    safe fn __hamr_mover();
    safe fn __hamr_mover_end();
    fn __hamr_leave(to: usize, from: usize, bytes: usize, entry: usize, mover: usize) -> !;
}

/// Runs anywhere.
pub(in crate::bare) const MOVER: Code = Code::between(__hamr_mover, __hamr_mover_end);

/// Can this image be left? On a hart that protects nothing, or bypasses the locks.
pub(in crate::bare) fn can_leave() -> bool {
    let free: usize;
    // SAFETY: only reads registers. On a hart without one of them the access traps, to the end of this code. A
    // trap masks interrupts, and one that came here would end this code too: they are masked, and as before behind it.
    unsafe {
        asm!(
            "csrrci {status}, mstatus, 8",
            "csrr {vector}, mtvec",
            "lla {scratch}, 2f",
            "csrw mtvec, {scratch}",
            "li {free}, 1",
            "csrr {scratch}, pmpcfg0",
            "beqz {scratch}, 2f",
            "li {free}, 0",
            // mseccfg.RLB.
            "csrr {scratch}, 0x747",
            "srli {scratch}, {scratch}, 2",
            "andi {free}, {scratch}, 1",
            ".balign 4",
            "2:",
            "csrw mtvec, {vector}",
            "andi {status}, {status}, 8",
            "csrs mstatus, {status}",
            status = out(reg) _, vector = out(reg) _, scratch = out(reg) _, free = out(reg) free, options(nostack)
        );
    }
    free != 0
}

/// Ends this image.
///
/// # Safety
/// No code of this image runs behind it, interrupts are masked, the bytes and the mover are where `next`
/// says, outside of both images.
pub(in crate::bare) unsafe fn leave(next: &NextImage) -> ! {
    let &NextImage { from, ref to, bytes, entry, mover } = next;
    // SAFETY: the contract.
    unsafe { __hamr_leave(to.start, from, bytes, entry, mover) }
}

global_asm!(
    r#"
    .section .text.hamr.leave, "ax"
    .globl __hamr_leave, __hamr_mover, __hamr_mover_end
__hamr_leave:
    csrci mstatus, 8
    csrw mie, zero
    # A hart without protection goes on at 1.
    la t0, 1f
    csrw mtvec, t0
    csrw pmpcfg0, zero
    csrw pmpcfg2, zero
    .balign 4
1:  fence rw, rw
    fence.i
    jr a4
__hamr_mover:
    ld t0, 0(a1)
    sd t0, 0(a0)
    addi a0, a0, 8
    addi a1, a1, 8
    addi a2, a2, -8
    bnez a2, __hamr_mover
    fence rw, rw
    fence.i
    jr a3
__hamr_mover_end:
"#
);
