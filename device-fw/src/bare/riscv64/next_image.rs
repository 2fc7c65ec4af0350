//! Moves the next image to its place and enters it. The protection of this image goes first: on a hart with
//! supervisor mode, where no entry is locked (`boot`).

#![expect(unsafe_code)]
// UNSAFETY: behind this image's end there is only assembly.

use crate::arch::machine_mode;
use crate::bare::mover::{Code, NextImage};
use core::arch::{asm, global_asm};

unsafe extern "C" {
    // Where they are is used; no code calls them.
    safe fn __hamr_mover();
    safe fn __hamr_mover_end();
    fn __hamr_leave(to: usize, from: usize, bytes: usize, entry: usize, mover: usize) -> !;
}

/// pmpcfg0, of the first entry.
const LOCKED: u64 = 1 << 7;

/// Runs anywhere.
pub(in crate::bare) const MOVER: Code = Code::between(__hamr_mover, __hamr_mover_end);

/// Can this image be left? Not where its entries are locked.
pub(in crate::bare) fn can_leave() -> bool {
    let mut entry: u64 = 0;
    machine_mode(&mut || {
        // SAFETY: only reads a register. On a hart without it the access traps, to the end of this code.
        unsafe {
            asm!(
                "csrr {vector}, mtvec",
                "lla {scratch}, 2f",
                "csrw mtvec, {scratch}",
                "li {entry}, 0",
                "csrr {entry}, pmpcfg0",
                ".balign 4",
                "2:",
                "csrw mtvec, {vector}",
                vector = out(reg) _, scratch = out(reg) _, entry = out(reg) entry, options(nostack)
            );
        }
    });
    entry & LOCKED == 0
}

/// Ends this image.
///
/// # Safety
/// No code of this image runs behind it, interrupts are masked, the bytes and the mover are where `next`
/// says, outside of both images.
pub(in crate::bare) unsafe fn leave(next: &NextImage) -> ! {
    let &NextImage { from, ref to, bytes, entry, mover } = next;
    // SAFETY: the contract.
    machine_mode(&mut || unsafe { __hamr_leave(to.start, from, bytes, entry, mover) });
    // The call above does not return.
    loop {
        core::hint::spin_loop();
    }
}

global_asm!(
    r#"
    .section .text.hamr.leave, "ax"
    .globl __hamr_leave, __hamr_mover, __hamr_mover_end
__hamr_leave:
    csrw mie, zero
    # A hart without protection, or without translation, goes on at 1.
    la t0, 1f
    csrw mtvec, t0
    csrw pmpcfg0, zero
    csrw pmpcfg2, zero
    sfence.vma
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
