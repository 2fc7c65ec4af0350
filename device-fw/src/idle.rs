//! When a device that finds nothing sleeps (abi §7.3): first it polls for as long as the host asked for, then it says that it
//! wants to be notified, polls a little more, and sleeps.

use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::preamble::FOR_EVER;
use hamr_comm::abi::sync::Order;
use hamr_comm::abi::window::Word;
use hamr_comm::am::Waiter;
use hamr_comm::handshake::IdlePolicy;

/// Rule 23: microseconds of polling between the odd value and the sleep. A message whose sender looked at the wait word too
/// early to see it has arrived by then.
const LAST_POLLS_US: u64 = 2;
/// Rounds between two looks at the clock: it costs more than a round.
const CLOCK_MASK: u32 = 63;

/// What to do after a round that found nothing.
pub(crate) enum Next {
    /// Another round.
    Poll,
    /// Another round; the wait word has just become odd.
    Armed,
    /// Sleep.
    Sleep,
}

#[derive(Clone, Copy)]
enum Phase {
    /// Polls; since when without result, once the clock was read.
    Spinning(Option<u64>),
    /// The wait word is odd, since this moment.
    Armed(u64),
    /// Has slept and found nothing since: it sleeps again at once.
    Woken,
}

/// How one epoch of a device rests.
pub(crate) struct IdleState {
    is_notified: bool,
    idle_policy: IdlePolicy,
    phase: Phase,
    waiter: Waiter,
}

impl IdleState {
    /// Nobody rings.
    pub(crate) const fn without_doorbell() -> Self {
        let idle_policy = IdlePolicy { spin_us: FOR_EVER, sleep_us: 0 };
        Self { is_notified: false, idle_policy, phase: Phase::Spinning(None), waiter: Waiter::new() }
    }

    /// As the host asked for in its offer.
    pub(crate) fn of(epoch: Epoch, is_notified: bool, idle_policy: IdlePolicy) -> Self {
        Self { is_notified, idle_policy, waiter: Waiter::of_epoch(epoch), ..Self::without_doorbell() }
    }

    /// Does the host ring?
    pub(crate) fn is_notified(&self) -> bool {
        self.is_notified
    }

    /// Microseconds that a sleep lasts at most.
    pub(crate) fn longest_us(&self) -> u32 {
        self.idle_policy.sleep_us
    }

    /// Is it time to look at the clock?
    #[inline]
    pub(crate) fn is_due(&self, idle_rounds: u32) -> bool {
        match self.phase {
            Phase::Spinning(_) => idle_rounds & CLOCK_MASK == 0 || self.idle_policy.spin_us == 0,
            Phase::Armed(_) | Phase::Woken => true,
        }
    }

    /// A round found nothing, and the clock says `now`.
    pub(crate) fn next<F: Order>(&mut self, own: Word<'_>, now: u64) -> Next {
        match self.phase {
            Phase::Armed(since) if now.wrapping_sub(since) < LAST_POLLS_US => Next::Poll,
            Phase::Armed(_) => Next::Sleep,
            Phase::Spinning(since) => {
                let since = since.unwrap_or(now);
                self.phase = Phase::Spinning(Some(since));
                match self.idle_policy.spin_us {
                    FOR_EVER => Next::Poll,
                    spin if now.wrapping_sub(since) < u64::from(spin) => Next::Poll,
                    _ => self.prepare_wait::<F>(own, now),
                }
            }
            Phase::Woken => self.prepare_wait::<F>(own, now),
        }
    }

    fn prepare_wait<F: Order>(&mut self, own: Word<'_>, now: u64) -> Next {
        self.waiter.prepare_wait::<F>(own);
        self.phase = Phase::Armed(now);
        Next::Armed
    }

    /// The sleep is over, for whatever reason.
    pub(crate) fn cancel_wait(&mut self, own: Word<'_>) {
        self.waiter.cancel_wait(own);
        self.phase = Phase::Woken;
    }

    /// A round found something.
    pub(crate) fn found(&mut self, own: Option<Word<'_>>) {
        if let Some(own) = own {
            self.waiter.cancel_wait(own);
        }
        self.phase = Phase::Spinning(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamr_comm::abi::sync::Coherent;
    use hamr_comm::abi::window::Window;

    fn step(idle_state: &mut IdleState, own: Word<'_>, now: u64) -> &'static str {
        match idle_state.next::<Coherent>(own, now) {
            Next::Poll => "poll",
            Next::Armed => "armed",
            Next::Sleep => "sleep",
        }
    }

    #[test]
    fn spins_then_prepares_then_sleeps_and_again_with_a_fresh_value() {
        let window = Window::private(64);
        let own = window.word(0).expect("inside");
        let mut idle_state = IdleState::of(Epoch(0), true, IdlePolicy { spin_us: 100, sleep_us: 7 });
        assert!(!idle_state.is_due(1) && idle_state.is_due(64));
        assert_eq!(
            [1000, 1099, 1100, 1101].map(|now| step(&mut idle_state, own, now)),
            ["poll", "poll", "armed", "poll"]
        );
        assert_eq!(own.load(), 1);
        assert!(idle_state.is_due(65));
        assert_eq!(step(&mut idle_state, own, 1102), "sleep");
        idle_state.cancel_wait(own);
        assert_eq!(own.load(), 2);
        assert_eq!(step(&mut idle_state, own, 1103), "armed");
        assert_eq!(own.load(), 3);
        idle_state.found(Some(own));
        assert_eq!(own.load(), 4);
        assert_eq!([2000, 2099].map(|now| step(&mut idle_state, own, now)), ["poll", "poll"]);
    }

    #[test]
    fn a_device_that_never_sleeps_spins() {
        let window = Window::private(64);
        let own = window.word(0).expect("inside");
        let mut idle_state = IdleState::of(Epoch(0), true, IdlePolicy { spin_us: FOR_EVER, sleep_us: FOR_EVER });
        assert_eq!([0, u64::MAX / 2].map(|now| step(&mut idle_state, own, now)), ["poll", "poll"]);
        assert_eq!(own.load(), 0);
    }
}
