//! The tick: the machine timer, which also ends timed sleeps; so it is paused for them.

#![expect(unsafe_code)]
// UNSAFETY: control registers have no intrinsics.

use crate::arch::{INTERRUPTS, Timer, machine_mode};
use crate::bare::tick::HZ;
use core::arch::asm;
use core::sync::atomic::Ordering;
use spin::Once;

/// mcause of the machine timer's interrupt.
const CAUSE: u64 = 1 << 63 | 7;

static CLOCK: Once<Timer> = Once::new();

/// Takes the measure of `timer`. [`resume`] starts the ticks.
pub(in crate::bare) fn prepare(timer: &Timer) {
    CLOCK.call_once(|| *timer);
}

// Not inlined, for size.
#[inline(never)]
fn arm() {
    if let Some(timer) = CLOCK.get() {
        timer.strike_in(timer.hz() / HZ);
    }
}

/// Ticks from now on.
pub(in crate::bare) fn resume() {
    machine_mode(&mut || {
        arm();
        // SAFETY: the interrupts that can come have an entry that saves what it uses, on a stack of its
        // own.
        unsafe { asm!("csrw mie, {}", in(reg) INTERRUPTS.load(Ordering::Relaxed), options(nostack)) };
    });
}

/// No ticks any more: the timer is free, and interrupts are off.
pub(in crate::bare) fn pause() {
    machine_mode(&mut || {
        mask();
        if let Some(timer) = CLOCK.get() {
            timer.never_strike();
        }
    });
}

/// In machine mode: no interrupts any more.
fn mask() {
    // SAFETY: only fewer things can happen.
    unsafe { asm!("csrw mie, zero", options(nostack)) };
}

/// An interrupt came. True for the tick: the next one is prepared. A doorbell's is taken and
/// remembered. Any other stays pending, and interrupts stay off until [`resume`].
pub(super) fn next(cause: u64) -> bool {
    if cause == CAUSE {
        arm();
        return true;
    }
    if crate::bare::doorbell::notified() {
        return false;
    }
    mask();
    false
}
