//! The tick: the virtual timer, which also ends timed sleeps; so it is paused for them.

#![expect(unsafe_code)]
// UNSAFETY: system registers have no intrinsics.

use crate::arch::Timer;
use crate::bare::tick::HZ;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

/// Steps of the timer between two ticks.
static STEPS: AtomicU64 = AtomicU64::new(0);
/// CNTV_CTL_EL0: the timer's time has come.
const STRUCK: u64 = 1 << 2;
/// SPSR_EL1: interrupts are masked.
const MASKED: u64 = 1 << 7;

/// Takes the measure of `timer`. [`resume`] starts the ticks.
pub(in crate::bare) fn prepare(timer: &Timer) {
    STEPS.store(timer.hz() / HZ, Ordering::Relaxed);
}

/// Ticks from now on, where the board forwards the timer's interrupt.
pub(in crate::bare) fn resume() {
    let steps = STEPS.load(Ordering::Relaxed);
    // SAFETY: the interrupts that can come have an entry that saves what it uses, on a stack of its
    // own.
    unsafe {
        asm!("msr cntv_tval_el0, {steps}", "msr cntv_ctl_el0, {on}", "isb", "msr daifclr, #2",
            steps = in(reg) steps, on = in(reg) 1_u64, options(nostack, preserves_flags))
    };
}

/// No ticks any more: the timer is free, and interrupts are masked.
pub(in crate::bare) fn pause() {
    // SAFETY: only fewer things can happen.
    unsafe { asm!("msr daifset, #2", "msr cntv_ctl_el0, xzr", "isb", options(nostack, preserves_flags)) };
}

/// An interrupt came. True for the tick: the next one is prepared, which ends the request of the
/// level-triggered interrupt, so that it needs no acknowledgement. A doorbell's is taken and
/// remembered. Any other stays pending, and masked until [`resume`].
pub(super) fn next() -> bool {
    let control: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, cntv_ctl_el0", out(reg) control, options(nomem, nostack, preserves_flags)) };
    if control & STRUCK != 0 {
        let steps = STEPS.load(Ordering::Relaxed);
        // SAFETY: sets the timer.
        unsafe { asm!("msr cntv_tval_el0, {}", "isb", in(reg) steps, options(nomem, nostack, preserves_flags)) };
        return true;
    }
    if crate::bare::doorbell::notified() {
        return false;
    }
    // SAFETY: what the interrupt returns to goes on masked; nothing else of the state changes.
    unsafe {
        asm!("mrs {state}, spsr_el1", "orr {state}, {state}, {masked}", "msr spsr_el1, {state}",
            state = out(reg) _, masked = in(reg) MASKED, options(nomem, nostack))
    };
    false
}
