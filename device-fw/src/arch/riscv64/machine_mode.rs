//! The two modes. The serve loop and handlers run in supervisor mode, which entries of physical memory protection
//! bind without a lock, so that another image can take them away (`bare/riscv64/boot.rs`). Traps, ticks and what is
//! on the boot stack run in machine mode, and [`machine_mode`] what a handler's side needs of it. A hart without
//! supervisor mode has machine mode for all, and locks.

#![expect(unsafe_code)]
// UNSAFETY: a change of mode has no words in Rust.

use core::arch::global_asm;
use core::sync::atomic::AtomicUsize;

/// mstatus.MPP, of supervisor and machine mode.
pub(crate) const SUPERVISOR: usize = 1 << 11;
pub(crate) const MACHINE: usize = 3 << 11;

/// The one of these that [`super::stack::run`] runs code in. Boot code writes it.
pub(crate) static SERVE_MODE: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    fn __hamr_gate(f: extern "C" fn(*mut ()), argument: *mut ());
}

/// Runs `f` in machine mode, with interrupts masked; then goes on in the mode and with the mask before.
pub(crate) fn machine_mode(mut f: &mut dyn FnMut()) {
    extern "C" fn call(f: *mut ()) {
        // SAFETY: the pointer below, to a reference that nothing else uses meanwhile.
        let f = unsafe { &mut *f.cast::<&mut dyn FnMut()>() };
        f();
    }
    // SAFETY: `call` gets the pointer that it expects, and returns or ends in `abort`.
    unsafe { __hamr_gate(call, (&raw mut f).cast()) };
}

// The entry of traps knows the call by its address and continues behind it, in machine mode, with mstatus in t0
// (`bare/riscv64/traps.rs`).
global_asm!(
    r#"
    .section .text.hamr.gate, "ax"
    .globl __hamr_gate, __hamr_gate_call, __hamr_in_machine_mode
__hamr_gate:
    addi sp, sp, -16
    sd ra, 8(sp)
__hamr_gate_call:
    ecall
__hamr_in_machine_mode:
    sd t0, 0(sp)
    mv t1, a0
    mv a0, a1
    jalr t1
    ld t0, 0(sp)
    csrw mstatus, t0
    lla t0, 1f
    csrw mepc, t0
    mret
1:  ld ra, 8(sp)
    addi sp, sp, 16
    ret
"#
);
