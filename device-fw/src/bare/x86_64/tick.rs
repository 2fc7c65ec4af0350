//! The tick: the local APIC's timer, which also ends timed sleeps; so it is paused for them.

#![expect(unsafe_code)]
// UNSAFETY: the interrupt flag has no intrinsic.

use crate::arch::Timer;
use crate::arch::apic;
use crate::bare::tick::HZ;
use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering};

/// Steps of the APIC's timer between two ticks; 0 before there are any.
static STEPS: AtomicU32 = AtomicU32::new(0);
static RUNS: AtomicU32 = AtomicU32::new(0);

/// Takes the measure of `timer`. [`resume`] starts the ticks.
pub(in crate::bare) fn prepare(timer: &Timer) {
    STEPS.store(u32::try_from(timer.apic_hz() / HZ).unwrap_or(u32::MAX), Ordering::Relaxed);
}

/// Ticks from now on.
pub(in crate::bare) fn resume() {
    RUNS.store(1, Ordering::Relaxed);
    next();
    // SAFETY: the interrupts that can come have entries that save what they use, on a stack of
    // their own.
    unsafe { asm!("sti", options(nostack, preserves_flags)) };
}

/// No ticks any more: the timer is free, and interrupts are off.
pub(in crate::bare) fn pause() {
    // SAFETY: only fewer things can happen.
    unsafe { asm!("cli", options(nostack, preserves_flags)) };
    RUNS.store(0, Ordering::Relaxed);
    apic::start_count(0);
}

/// The timer has interrupted: starts it again, if it was for a tick. False when it was for a timed
/// sleep.
pub(super) fn next() -> bool {
    let runs = RUNS.load(Ordering::Relaxed) != 0;
    if runs {
        apic::start_count(STEPS.load(Ordering::Relaxed));
    }
    runs
}
