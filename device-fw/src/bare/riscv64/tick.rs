//! The tick: the machine timer, which also ends timed sleeps; so it is paused for them.

#![expect(unsafe_code)]
// UNSAFETY: control registers have no intrinsics.

use crate::arch::{TIMER, Timer};
use crate::bare::tick::HZ;
use core::arch::asm;
use spin::Once;

/// mstatus: interrupts on; interrupts on after the return from a trap.
const ON: u64 = 1 << 3;
const ON_BEFORE: u64 = 1 << 7;
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
    arm();
    // SAFETY: the interrupts that can come have an entry that saves what it uses, on a stack of its
    // own.
    unsafe {
        asm!("csrs mie, {timer}", "csrs mstatus, {on}", timer = in(reg) TIMER, on = in(reg) ON, options(nostack))
    };
}

/// No ticks any more: the timer is free, and interrupts are off.
pub(in crate::bare) fn pause() {
    // SAFETY: only fewer things can happen.
    unsafe { asm!("csrc mstatus, {}", in(reg) ON, options(nostack)) };
    if let Some(timer) = CLOCK.get() {
        timer.never_strike();
    }
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
    // SAFETY: what the trap returns to goes on without interrupts; nothing else of the state
    // changes.
    unsafe { asm!("csrc mstatus, {}", in(reg) ON_BEFORE, options(nostack)) };
    false
}
