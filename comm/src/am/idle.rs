//! When a side that finds nothing sleeps (abi §7, rule 23). The host's waits and a device's serve
//! loop both take their steps from here, and so do the models of sleeping.
//!
//! ```text
//!               spun for long enough                polled for 2 us
//! Spinning ------------------------> Armed(since) ------------------> sleep
//!    ^                                ^                                 |
//!    | found something                | found nothing                   |
//!    +------------ any                +------------ Woken <-------------+
//! ```
//!
//! The machine only decides. Its user polls before each step, stores the wait word
//! ([`Waiter`](super::Waiter)) and sleeps.

/// Rule 23: microseconds of polling between the odd value and the sleep. A message whose sender
/// loaded the wait word too early to see the odd value has arrived by then.
const LAST_POLLS_US: u64 = 2;

/// A moment of some clock.
pub trait Moment: Copy {
    /// Whole microseconds that have passed since `earlier`.
    fn micros_since(self, earlier: Self) -> u64;
}

/// Microseconds of a clock that may wrap.
impl Moment for u64 {
    #[inline]
    fn micros_since(self, earlier: Self) -> u64 {
        self.wrapping_sub(earlier)
    }
}

/// What to do after a poll that found nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum IdleStep {
    /// Poll again.
    Poll,
    /// Make the wait word odd, with a fresh value and the full fence; then poll again.
    PrepareWait,
    /// Sleep; then call [`Idle::woken`] and poll again.
    Sleep,
}

#[derive(Clone, Copy)]
enum Phase<T> {
    /// Polls; since when without result, once the clock was read.
    Spinning(Option<T>),
    /// The wait word is odd since this moment.
    Armed(T),
    /// Has slept and found nothing since: the next sleep follows without another spin.
    Woken,
}

/// The state of one side that polls and sleeps (see the module).
#[derive(Clone, Copy)]
pub struct Idle<T> {
    phase: Phase<T>,
}

impl<T> Idle<T> {
    /// A side that polls.
    pub const fn new() -> Self {
        Self { phase: Phase::Spinning(None) }
    }

    /// Does it still poll, with an even wait word?
    #[inline]
    pub const fn is_spinning(&self) -> bool {
        matches!(self.phase, Phase::Spinning(_))
    }

    /// A poll found something.
    #[inline]
    pub fn found(&mut self) {
        self.phase = Phase::Spinning(None);
    }

    /// The sleep is over, for whatever reason.
    #[inline]
    pub fn woken(&mut self) {
        self.phase = Phase::Woken;
    }
}

impl<T> Default for Idle<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Moment> Idle<T> {
    /// A poll found nothing, and the clock shows `now`. `spin_us`: microseconds of polling before
    /// the first sleep; `None`: no sleep at all.
    #[inline]
    pub fn step(&mut self, now: T, spin_us: Option<u64>) -> IdleStep {
        match self.phase {
            Phase::Spinning(since) => {
                let since = since.unwrap_or(now);
                self.phase = Phase::Spinning(Some(since));
                if spin_us.is_none_or(|spin| now.micros_since(since) < spin) {
                    return IdleStep::Poll;
                }
            }
            Phase::Woken => {}
            Phase::Armed(since) if now.micros_since(since) < LAST_POLLS_US => return IdleStep::Poll,
            Phase::Armed(_) => return IdleStep::Sleep,
        }
        self.phase = Phase::Armed(now);
        IdleStep::PrepareWait
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use IdleStep::{Poll, PrepareWait, Sleep};

    #[test]
    fn idle_spins_then_prepares_then_polls_then_sleeps() {
        let mut idle = Idle::new();
        assert_eq!(
            [1000, 1099, 1100, 1101, 1102].map(|now| idle.step(now, Some(100))),
            [Poll, Poll, PrepareWait, Poll, Sleep]
        );
        // Not slept yet: the step stays the same.
        assert_eq!(idle.step(1103, Some(100)), Sleep);
        idle.woken();
        assert!(!idle.is_spinning());
        assert_eq!([1200, 1201, 1202].map(|now| idle.step(now, Some(100))), [PrepareWait, Poll, Sleep]);
    }

    #[test]
    fn idle_spins_anew_after_each_find() {
        let mut idle = Idle::new();
        assert_eq!([0, 5].map(|now| idle.step(now, Some(5))), [Poll, PrepareWait]);
        idle.found();
        assert!(idle.is_spinning());
        assert_eq!([100, 104, 105].map(|now| idle.step(now, Some(5))), [Poll, Poll, PrepareWait]);
    }

    #[test]
    fn idle_without_spin_time_prepares_at_once() {
        assert_eq!(Idle::new().step(7, Some(0)), PrepareWait);
    }

    #[test]
    fn idle_without_a_limit_never_sleeps() {
        let mut idle = Idle::new();
        assert_eq!([0, u64::MAX / 2, u64::MAX].map(|now| idle.step(now, None)), [Poll; 3]);
    }

    #[test]
    fn idle_survives_a_clock_that_wraps() {
        let mut idle = Idle::new();
        assert_eq!([u64::MAX, 0, 1, 2, 3].map(|now| idle.step(now, Some(2))), [Poll, Poll, PrepareWait, Poll, Sleep]);
    }
}
