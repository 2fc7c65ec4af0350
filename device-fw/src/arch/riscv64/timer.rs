//! Time, and sleeping until some has passed.

#![expect(unsafe_code)]
// UNSAFETY: control registers and `wfi` have no intrinsics.

use super::machine_mode::machine_mode;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

/// mie: machine timer interrupt.
const TIMER: u64 = 1 << 7;

/// mie, while interrupts are not masked: supervisor mode has no other mask of machine mode's interrupts. The timer,
/// and what [`super::imsic::forward`] adds.
pub(crate) static INTERRUPTS: AtomicU64 = AtomicU64::new(TIMER);

/// The machine timer.
#[derive(Clone, Copy)]
pub struct Timer {
    set_compare: fn(u64),
    hz: u64,
}

impl Timer {
    /// A timer that interrupts when `time`, `hz` steps a second, reaches what was passed to
    /// `set_compare` last. That function is called in machine mode, also in the timer's interrupt.
    pub const fn new(set_compare: fn(u64), hz: u64) -> Self {
        Self { set_compare, hz }
    }

    /// Steps since reset.
    pub fn now(&self) -> u64 {
        now()
    }

    /// Steps per second of [`Self::now`].
    pub fn hz(&self) -> u64 {
        self.hz
    }

    /// Interrupts after so many steps.
    pub(crate) fn strike_in(&self, steps: u64) {
        (self.set_compare)(self.now() + steps);
    }

    /// Does not interrupt.
    pub(crate) fn never_strike(&self) {
        (self.set_compare)(u64::MAX);
    }

    /// Sleeps for about so many microseconds, or less; `None` until an interrupt comes. Interrupts
    /// are masked before and stay masked: a pending one ends `wfi` all the same.
    pub fn timed_sleep(&mut self, micros: Option<u32>) {
        let until = |micros| self.now() + u64::from(micros) * self.hz / 1_000_000;
        machine_mode(&mut || {
            (self.set_compare)(micros.map_or(u64::MAX, until));
            // SAFETY: lets interrupts be pending; nothing is taken, since mstatus.MIE is clear in here.
            unsafe {
                asm!("csrw mie, {}", "wfi", "csrw mie, zero", in(reg) INTERRUPTS.load(Ordering::Relaxed), options(nostack))
            };
            (self.set_compare)(u64::MAX);
        });
    }
}

/// Steps since reset.
pub(crate) fn now() -> u64 {
    let now;
    // SAFETY: reads a counter.
    unsafe { asm!("rdtime {}", out(reg) now, options(nomem, nostack, preserves_flags)) };
    now
}
