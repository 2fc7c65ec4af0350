//! Time, and sleeping until some has passed: the time stamp counter, and the local APIC's timer
//! (Intel SDM volume 3, chapters 11 and 18).

#![expect(unsafe_code)]
// UNSAFETY: a counter, and `hlt`.

use super::apic::{BASE, DOORBELL_VECTOR, SPURIOUS_VECTOR, TIMER_VECTOR, apic, start_count};
use crate::pci::Message;
use core::arch::asm;
use safe_mmio::{field, field_shared};

/// Spurious interrupt vector: the APIC is on.
const ON: u32 = 1 << 8;
/// Vector table: no interrupt.
const MASKED: u32 = 1 << 16;
/// The timer's clock is divided by 1.
const BY_ONE: u32 = 0b1011;

/// Calibration takes this part of a second: one in 200, 5 ms.
const SHARE: u64 = 200;
/// Reads of a clock after which it counts as standing still.
const MAX_CALIBRATION_POLLS: u32 = 10_000_000;
/// Tries at reading two clocks at once.
const TRIES: u32 = 4;

/// What a function writes to end a sleep: an interrupt of this processor's APIC (Intel SDM volume
/// 3, section 11.11).
pub const DOORBELL: Message = Message { address: BASE as u64, data: DOORBELL_VECTOR as u32 };

/// The time stamp counter and the local APIC's timer.
pub struct Timer {
    hz: u64,
    /// Steps per second of the APIC's timer.
    apic_hz: u64,
}

impl Timer {
    /// Measures both against `clock`, which makes `hz` steps a second: neither reports its rate
    /// reliably. `None` when that clock stands still. Takes 5 ms.
    pub fn new(clock: impl Fn() -> u64, hz: u64) -> Option<Self> {
        let mut apic = apic();
        field!(apic, spurious).write(ON | u32::from(SPURIOUS_VECTOR));
        field!(apic, lvt_lint0).write(MASKED);
        field!(apic, lvt_timer).write(MASKED);
        field!(apic, divide).write(BY_ONE);
        let (clock_begin, begin) = both(&clock);
        field!(apic, initial).write(u32::MAX);
        let enough = hz / SHARE;
        (0..MAX_CALIBRATION_POLLS).find(|_| clock().wrapping_sub(clock_begin) >= enough)?;
        let counted = u64::from(u32::MAX - field_shared!(apic, current).read());
        let (clock_end, end) = both(&clock);
        field!(apic, initial).write(0);
        // One-shot: mode bits are zero.
        field!(apic, lvt_timer).write(u32::from(TIMER_VECTOR));
        let per_second = |steps: u64| steps.checked_mul(hz)?.checked_div(clock_end.wrapping_sub(clock_begin));
        Some(Self { hz: per_second(end.wrapping_sub(begin))?, apic_hz: per_second(counted)? })
    }

    /// Steps since reset.
    pub fn now(&self) -> u64 {
        now()
    }

    /// Steps per second of [`Self::now`].
    pub fn hz(&self) -> u64 {
        self.hz
    }

    /// Steps per second of the APIC's timer.
    pub(crate) fn apic_hz(&self) -> u64 {
        self.apic_hz
    }

    /// Sleeps for about so many microseconds, or less; `None` until an interrupt comes.
    pub fn timed_sleep(&mut self, micros: Option<u32>) {
        if let Some(micros) = micros {
            let steps = u64::from(micros) * self.apic_hz / 1_000_000;
            start_count(u32::try_from(steps).unwrap_or(u32::MAX).max(1));
        }
        // SAFETY: the interrupts that can come have their own entries and their own stack. `sti`
        // lets none in before `hlt` has begun, so one that is pending already ends `hlt` and cannot
        // slip by.
        unsafe { asm!("sti", "hlt", "cli", options(nostack, preserves_flags)) };
        // Zero stops it: it would end the next sleep.
        start_count(0);
    }
}

/// Steps since reset.
pub(crate) fn now() -> u64 {
    // SAFETY: reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// A clock and the counter at one moment: the tightest of some tries, since an emulator may be
/// stopped in between.
#[inline(never)]
fn both(clock: &impl Fn() -> u64) -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..TRIES {
        let before = now();
        let at = clock();
        let after = now();
        let width = after.wrapping_sub(before);
        if width < best.0 {
            best = (width, at, before.wrapping_add(width / 2));
        }
    }
    (best.1, best.2)
}
