//! When a device that finds nothing sleeps (abi §7.3): after the time that the host's offer gives.
//! [`Idle`] decides; here are the policy, the wait word, and how often the clock is read.

use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::preamble::FOR_EVER;
use hamr_comm::abi::sync::Order;
use hamr_comm::abi::window::Word;
use hamr_comm::am::{Idle, IdleStep, Waiter, patience};
use hamr_comm::handshake::IdlePolicy;

/// Rounds between two readings of the clock: some microseconds, since a round's extra polls take as
/// long on every processor.
const CLOCK_MASK: u32 = 15;

/// The idle policy of one epoch, and where in it the device is.
pub(crate) struct IdleState {
    is_notified: bool,
    idle_policy: IdlePolicy,
    idle: Idle<u64>,
    waiter: Waiter,
}

impl IdleState {
    /// The host does not notify.
    pub(crate) const fn without_doorbell() -> Self {
        let idle_policy = IdlePolicy { spin_us: FOR_EVER, sleep_us: 0 };
        Self { is_notified: false, idle_policy, idle: Idle::new(), waiter: Waiter::new() }
    }

    /// As the host asked for in its offer.
    pub(crate) fn of(epoch: Epoch, is_notified: bool, idle_policy: IdlePolicy) -> Self {
        Self { is_notified, idle_policy, waiter: Waiter::of_epoch(epoch), ..Self::without_doorbell() }
    }

    /// Does the host notify?
    pub(crate) fn is_notified(&self) -> bool {
        self.is_notified
    }

    /// Microseconds that a sleep lasts at most.
    pub(crate) fn longest_us(&self) -> u32 {
        self.idle_policy.sleep_us
    }

    /// Is it time to read the clock?
    #[inline]
    pub(crate) fn is_due(&self, idle_rounds: u32) -> bool {
        !self.idle.is_spinning() || idle_rounds & CLOCK_MASK == 0 || self.idle_policy.spin_us == 0
    }

    /// A round found nothing, and the clock shows `now`.
    pub(crate) fn next<F: Order>(&mut self, own: Word<'_>, now: u64) -> IdleStep {
        let spin_us = Some(self.idle_policy.spin_us).filter(|spin| *spin != FOR_EVER);
        let step = self.idle.step(now, spin_us.map(|spin| patience::limit(spin.into())));
        if step == IdleStep::PrepareWait {
            self.waiter.prepare_wait::<F>(own);
        }
        step
    }

    /// The sleep is over, for whatever reason.
    pub(crate) fn cancel_wait(&mut self, own: Word<'_>) {
        self.waiter.cancel_wait(own);
        self.idle.woken();
    }

    /// A round found something.
    pub(crate) fn found(&mut self, own: Option<Word<'_>>) {
        if let Some(own) = own {
            self.waiter.cancel_wait(own);
        }
        self.idle.found();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamr_comm::abi::sync::Coherent;
    use hamr_comm::abi::window::Window;

    fn step(idle_state: &mut IdleState, own: Word<'_>, now: u64) -> &'static str {
        match idle_state.next::<Coherent>(own, now) {
            IdleStep::Poll => "poll",
            IdleStep::PrepareWait => "armed",
            IdleStep::Sleep => "sleep",
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
