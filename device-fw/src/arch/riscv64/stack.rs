//! The serve loop's own stack, and leaving it for good (`docs/unsafe.md` "abandoning").

#![expect(unsafe_code)]
// UNSAFETY: switching stacks has no words in Rust.

use crate::arch::ANCHOR;
use core::arch::{asm, naked_asm};

/// Where a frame keeps the pointer to the frame around it and its return address, from where its pointer points: below what the frame pointer points to.
pub(crate) const SAVED_FRAME: i64 = -16;
pub(crate) const SAVED_RETURN: i64 = -8;

/// The frame pointer of whoever asks.
#[inline(always)]
pub(crate) fn frame_pointer() -> u64 {
    let frame;
    // SAFETY: reads a register.
    unsafe { asm!("mv {}, s0", out(reg) frame, options(nomem, nostack, preserves_flags)) };
    frame
}

/// Runs `f(arg)` on the stack that ends at `top`. Returns when somebody calls [`abandon`].
///
/// # Safety
/// `top` ends a stack that nothing else uses, aligned to 16. `f` never returns. Whatever `f`'s frames own when they are
/// abandoned is leaked, never dropped; the caller treats what `arg` points to as touched at any point of `f`.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn run(top: *mut u8, f: extern "C" fn(*mut ()) -> !, arg: *mut ()) {
    naked_asm!(
        // The assembler of naked functions is not told what the target has.
        ".option push",
        ".option arch, +d",
        "addi sp, sp, -208",
        "sd ra, 0(sp)",
        "sd s0, 8(sp)",
        "sd s1, 16(sp)",
        "sd s2, 24(sp)",
        "sd s3, 32(sp)",
        "sd s4, 40(sp)",
        "sd s5, 48(sp)",
        "sd s6, 56(sp)",
        "sd s7, 64(sp)",
        "sd s8, 72(sp)",
        "sd s9, 80(sp)",
        "sd s10, 88(sp)",
        "sd s11, 96(sp)",
        "fsd fs0, 104(sp)",
        "fsd fs1, 112(sp)",
        "fsd fs2, 120(sp)",
        "fsd fs3, 128(sp)",
        "fsd fs4, 136(sp)",
        "fsd fs5, 144(sp)",
        "fsd fs6, 152(sp)",
        "fsd fs7, 160(sp)",
        "fsd fs8, 168(sp)",
        "fsd fs9, 176(sp)",
        "fsd fs10, 184(sp)",
        "fsd fs11, 192(sp)",
        "frcsr t0",
        "sd t0, 200(sp)",
        "la t0, {anchor}",
        "sd sp, 0(t0)",
        "mv sp, a0",
        "mv t1, a1",
        "mv a0, a2",
        "li s0, 0",
        "li ra, 0",
        "jr t1",
        ".option pop",
        anchor = sym ANCHOR,
    )
}

/// Leaves the stack that [`run`] switched to: that call returns.
///
/// # Safety
/// Inside `run`, on its stack or in a trap taken from it; the abandoned frames hold nothing whose leak is unsound.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn abandon() -> ! {
    naked_asm!(
        ".option push",
        ".option arch, +d",
        "la t0, {anchor}",
        "ld sp, 0(t0)",
        "ld ra, 0(sp)",
        "ld s0, 8(sp)",
        "ld s1, 16(sp)",
        "ld s2, 24(sp)",
        "ld s3, 32(sp)",
        "ld s4, 40(sp)",
        "ld s5, 48(sp)",
        "ld s6, 56(sp)",
        "ld s7, 64(sp)",
        "ld s8, 72(sp)",
        "ld s9, 80(sp)",
        "ld s10, 88(sp)",
        "ld s11, 96(sp)",
        "fld fs0, 104(sp)",
        "fld fs1, 112(sp)",
        "fld fs2, 120(sp)",
        "fld fs3, 128(sp)",
        "fld fs4, 136(sp)",
        "fld fs5, 144(sp)",
        "fld fs6, 152(sp)",
        "fld fs7, 160(sp)",
        "fld fs8, 168(sp)",
        "fld fs9, 176(sp)",
        "fld fs10, 184(sp)",
        "fld fs11, 192(sp)",
        "ld t1, 200(sp)",
        "fscsr t1",
        "addi sp, sp, 208",
        "ret",
        ".option pop",
        anchor = sym ANCHOR,
    )
}
