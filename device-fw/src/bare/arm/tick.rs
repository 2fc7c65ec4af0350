//! The tick: each tenth interrupt of SysTick, which also ends sleeps and so never stops.

#![expect(unsafe_code)]
// UNSAFETY: turning interrupts on has no words in Rust.

use crate::arch::{Timer, timer};
use crate::bare::tick::HZ;
use core::arch::asm;
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
    // SAFETY: the interrupts that can come have an entry that saves what it uses, on a stack of its own.
    unsafe { asm!("msr basepri, {}", "cpsie f", "cpsie i", in(reg) 0, options(nostack, preserves_flags)) };
}

/// No ticks any more. SysTick goes on, pending, which ends a sleep where nothing but PRIMASK masks it.
pub(in crate::bare) fn pause() {
    IS_ON.store(false, Ordering::Relaxed);
    // SAFETY: an interrupt that comes in between has an entry that saves what it uses, on a stack of its own.
    unsafe { asm!("cpsid i", "cpsie f", "msr basepri, {}", in(reg) 0, options(nostack, preserves_flags)) };
}

/// SysTick's interrupt came. True for the tick.
pub(super) fn next() -> bool {
    timer::interrupted();
    let count = COUNT.load(Ordering::Relaxed).wrapping_add(1);
    COUNT.store(count, Ordering::Relaxed);
    count.is_multiple_of(INTERRUPTS) && IS_ON.load(Ordering::Relaxed)
}
