//! Resting between rounds that found nothing: first not at all, then naps that grow.

use super::Timer;

/// Rounds of polling before the first nap: some milliseconds under emulation.
pub(crate) const SPIN_ROUNDS: u32 = 20_000;
/// Rounds with naps of one length before they get longer.
const ROUNDS_PER_STEP: u32 = 256;
/// Microseconds.
const SHORTEST: u32 = 50;
const LONGEST: u32 = 1000;

/// How an idle board rests.
pub struct Naps {
    timer: Timer,
}

impl Naps {
    /// Naps that `timer` ends.
    pub const fn new(timer: Timer) -> Self {
        Self { timer }
    }

    /// What ends the naps.
    pub(crate) fn timer(&self) -> &Timer {
        &self.timer
    }

    /// Steps per second of the timer.
    pub fn hz(&self) -> u64 {
        self.timer.hz()
    }

    /// What [`crate::Board::idle`] does.
    #[inline]
    pub fn rest(&mut self, rounds: u32) {
        // No spin hint: an emulator leaves its translated code for it, which costs more than the look it would save.
        if let Some(slept) = rounds.checked_sub(SPIN_ROUNDS) {
            let micros = SHORTEST.saturating_mul(slept / ROUNDS_PER_STEP + 1);
            self.timer.nap(micros.min(LONGEST));
        }
    }
}
