//! What a device does between rounds that found nothing: first it polls on, then it takes timed
//! sleeps that grow; or, where the host notifies, it sleeps until it is notified.

use super::Timer;
use hamr_comm::abi::preamble::FOR_EVER;

/// Rounds of polling before the first timed sleep: some milliseconds under emulation.
pub(crate) const SPIN_ROUNDS: u32 = 20_000;
/// Rounds with timed sleeps of one length before they get longer.
const ROUNDS_PER_STEP: u32 = 256;
/// Microseconds.
const SHORTEST: u32 = 50;
const LONGEST: u32 = 1000;

/// How an idle board sleeps.
pub struct TimedSleep {
    timer: Timer,
    acknowledge: Option<fn()>,
}

impl TimedSleep {
    /// Sleeps that only `timer` ends.
    pub const fn new(timer: Timer) -> Self {
        Self { timer, acknowledge: None }
    }

    /// Sleeps that a notification of the host ends too. The board forwards the doorbell's interrupt
    /// to the processor; `acknowledge` takes every notification that is pending, so that the next
    /// sleep lasts until another one.
    pub const fn with_doorbell(timer: Timer, acknowledge: fn()) -> Self {
        Self { timer, acknowledge: Some(acknowledge) }
    }

    /// Does a notification end a sleep?
    pub fn has_doorbell(&self) -> bool {
        self.acknowledge.is_some()
    }

    /// How notifications are acknowledged.
    pub(crate) fn acknowledge(&self) -> Option<fn()> {
        self.acknowledge
    }

    /// What [`crate::Board::sleep`] does.
    pub fn sleep(&mut self, micros: u32) {
        self.timer.timed_sleep((micros != FOR_EVER).then_some(micros));
        if let Some(acknowledge) = self.acknowledge {
            acknowledge();
        }
    }

    /// Microseconds since reset.
    pub fn micros(&self) -> u64 {
        let (now, hz) = (self.timer.now(), self.timer.hz().max(1));
        now / hz * 1_000_000 + now % hz * 1_000_000 / hz
    }

    /// What ends the timed sleeps.
    pub(crate) fn timer(&self) -> &Timer {
        &self.timer
    }

    /// Steps per second of the timer.
    pub fn hz(&self) -> u64 {
        self.timer.hz()
    }

    /// What [`crate::Board::idle`] does.
    #[inline]
    pub fn idle(&mut self, rounds: u32) {
        // There is no spin hint: an emulator leaves its translated code for it, which costs more
        // than the polling it would save.
        if let Some(slept) = rounds.checked_sub(SPIN_ROUNDS) {
            let micros = SHORTEST.saturating_mul(slept / ROUNDS_PER_STEP + 1);
            self.timer.timed_sleep(Some(micros.min(LONGEST)));
        }
    }
}
