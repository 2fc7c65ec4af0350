//! Time, and sleeping until some has passed.

#![expect(unsafe_code)]
// UNSAFETY: system registers and `wfi` have no intrinsics.

use core::arch::asm;

/// The virtual timer. It ends timed sleeps only where the board made its interrupt controller
/// forward the timer's interrupt.
pub struct Timer {
    hz: u64,
}

impl Timer {
    /// This processor's.
    pub fn of_this_processor() -> Self {
        let hz;
        // SAFETY: reads a register.
        unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
        Self { hz }
    }

    /// Steps since reset.
    pub fn now(&self) -> u64 {
        now()
    }

    /// Steps per second of [`Self::now`].
    pub fn hz(&self) -> u64 {
        self.hz
    }

    /// Sleeps for about so many microseconds, or less; `None` until an interrupt comes. Interrupts
    /// stay masked: a pending one ends `wfi` all the same. The timer's stays pending until the
    /// timer is off, so it is turned off here and not acknowledged.
    pub fn timed_sleep(&mut self, micros: Option<u32>) {
        let until = self.now() + u64::from(micros.unwrap_or(0)) * self.hz / 1_000_000;
        // SAFETY: lets the timer be pending and no longer pending; nothing is taken, since PSTATE.I
        // is set from reset on.
        unsafe {
            asm!("msr cntv_cval_el0, {until}", "msr cntv_ctl_el0, {on}", "isb", "wfi", "msr cntv_ctl_el0, xzr", "isb",
                until = in(reg) until, on = in(reg) u64::from(micros.is_some()), options(nostack, preserves_flags))
        };
    }
}

/// Steps since reset.
pub(crate) fn now() -> u64 {
    let now;
    // SAFETY: reads a counter.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) now, options(nomem, nostack, preserves_flags)) };
    now
}
