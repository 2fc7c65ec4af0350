//! Time, and sleeping until some has passed: a counter of the board, and SysTick, which interrupts once in a millisecond. SysTick alone would
//! lose the time in which no interrupt can be taken.

#![expect(unsafe_code)]
// UNSAFETY: the timer's registers, and `wfi`.

use super::registers::{SYST_CSR, SYST_CVR, SYST_RVR};
use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering};
use spin::Once;

/// Interrupts per second.
pub(crate) const INTERRUPTS: u32 = 1000;
/// SYST_CSR: it counts the processor's clock, and interrupts at zero.
const ON: u32 = 7;

/// The board's counter.
static COUNTER: Once<fn() -> u32> = Once::new();
/// Its value at the last interrupt, and how often it was less than the one before, for want of 64-bit atomics. Only SysTick's interrupt
/// writes them.
static LAST: AtomicU32 = AtomicU32::new(0);
static WRAPS: AtomicU32 = AtomicU32::new(0);

/// The processor's SysTick, whose interrupt the runtime has, and a counter.
pub struct Timer {
    hz: u32,
}

impl Timer {
    /// Starts SysTick; the processor's clock has `clock_hz` steps a second. `counter` reads a counter that goes up from 0, `hz` steps a second,
    /// through all numbers of 32 bits, and is called in interrupts, too.
    pub fn new(clock_hz: u32, counter: fn() -> u32, hz: u32) -> Self {
        COUNTER.call_once(|| counter);
        // SysTick has 24 bits.
        let period = (clock_hz / INTERRUPTS).clamp(2, 1 << 24);
        for (register, value) in [(SYST_RVR, period - 1), (SYST_CVR, 0), (SYST_CSR, ON)] {
            // SAFETY: a counter, whose interrupt has an entry that saves what it uses.
            unsafe { register.write(value) };
        }
        Self { hz }
    }

    /// Steps of the counter.
    pub fn now(&self) -> u64 {
        now()
    }

    /// Steps per second of [`Self::now`].
    pub fn hz(&self) -> u64 {
        self.hz.into()
    }

    /// Sleeps until an interrupt comes, for a millisecond at most.
    pub fn timed_sleep(&mut self, _micros: Option<u32>) {
        // SAFETY: waits.
        unsafe { asm!("dsb", "wfi", options(nostack, preserves_flags)) };
    }
}

fn counter() -> u32 {
    COUNTER.get().map_or(0, |counter| counter())
}

/// SysTick's interrupt has come.
pub(crate) fn interrupted() {
    let now = counter();
    if now < LAST.load(Ordering::Relaxed) {
        WRAPS.store(WRAPS.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
    LAST.store(now, Ordering::Relaxed);
}

/// Steps of the counter.
pub(crate) fn now() -> u64 {
    let seen = || (WRAPS.load(Ordering::Relaxed), LAST.load(Ordering::Relaxed));
    loop {
        let before = seen();
        let now = counter();
        // An interrupt between the two has written both.
        if seen() == before {
            let (wraps, last) = before;
            return u64::from(wraps.wrapping_add((now < last).into())) << 32 | u64::from(now);
        }
    }
}
