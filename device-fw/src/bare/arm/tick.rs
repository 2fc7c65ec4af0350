//! The tick: each tenth interrupt of SysTick, which also ends sleeps and so never stops.

use crate::arch::{Timer, timer};
use crate::bare::tick::HZ;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Interrupts of the timer for one tick.
const INTERRUPTS: u32 = timer::INTERRUPTS / HZ as u32;

static IS_ON: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicU32 = AtomicU32::new(0);

/// [`resume`] starts the ticks.
pub(in crate::bare) fn prepare(_: &Timer) {}

/// Ticks from now on.
pub(in crate::bare) fn resume() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// No ticks any more. SysTick goes on.
pub(in crate::bare) fn pause() {
    IS_ON.store(false, Ordering::Relaxed);
}

/// SysTick's interrupt came. True for the tick.
pub(super) fn next() -> bool {
    timer::interrupted();
    let count = COUNT.load(Ordering::Relaxed).wrapping_add(1);
    COUNT.store(count, Ordering::Relaxed);
    count.is_multiple_of(INTERRUPTS) && IS_ON.load(Ordering::Relaxed)
}
