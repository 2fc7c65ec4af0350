//! When a device that finds nothing sleeps (abi §7.3): first it polls for as long as the host asked for, then it says that it
//! wants to be rung, polls a little more, and sleeps.

use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::preamble::FOR_EVER;
use hamr_comm::abi::sync::Order;
use hamr_comm::abi::window::Word;
use hamr_comm::am::Sleeper;
use hamr_comm::handshake::Rest;

/// Rule 23: microseconds of polling between the odd value and the sleep. A message whose sender looked at the wait word too
/// early to see it has arrived by then.
const LAST_LOOKS_US: u64 = 2;
/// Rounds between two looks at the clock: it costs more than a round.
const CLOCK_MASK: u32 = 63;

/// What to do after a round that found nothing.
pub(crate) enum Next {
    /// Another round.
    Poll,
    /// Another round; the wait word has just become odd.
    LaidDown,
    /// Sleep.
    Sleep,
}

#[derive(Clone, Copy)]
enum Phase {
    /// Polls; since when in vain, once the clock was read.
    Awake(Option<u64>),
    /// The wait word is odd, since this moment.
    Down(u64),
    /// Has slept and found nothing since: it lies down again at once.
    Woken,
}

/// How one life of a device rests.
pub(crate) struct Rests {
    is_rung: bool,
    rest: Rest,
    phase: Phase,
    sleeper: Sleeper,
}

impl Rests {
    /// Nobody rings.
    pub(crate) const fn unrung() -> Self {
        let rest = Rest { spin_us: FOR_EVER, sleep_us: 0 };
        Self { is_rung: false, rest, phase: Phase::Awake(None), sleeper: Sleeper::new() }
    }

    /// As the host asked for in its offer.
    pub(crate) fn of(epoch: Epoch, is_rung: bool, rest: Rest) -> Self {
        Self { is_rung, rest, sleeper: Sleeper::of_epoch(epoch), ..Self::unrung() }
    }

    /// Does the host ring?
    pub(crate) fn is_rung(&self) -> bool {
        self.is_rung
    }

    /// Microseconds that a sleep lasts at most.
    pub(crate) fn longest_us(&self) -> u32 {
        self.rest.sleep_us
    }

    /// Is it time to look at the clock?
    #[inline]
    pub(crate) fn is_due(&self, idle_rounds: u32) -> bool {
        match self.phase {
            Phase::Awake(_) => idle_rounds & CLOCK_MASK == 0 || self.rest.spin_us == 0,
            Phase::Down(_) | Phase::Woken => true,
        }
    }

    /// A round found nothing, and the clock says `now`.
    pub(crate) fn next<F: Order>(&mut self, own: Word<'_>, now: u64) -> Next {
        match self.phase {
            Phase::Down(since) if now.wrapping_sub(since) < LAST_LOOKS_US => Next::Poll,
            Phase::Down(_) => Next::Sleep,
            Phase::Awake(since) => {
                let since = since.unwrap_or(now);
                self.phase = Phase::Awake(Some(since));
                match self.rest.spin_us {
                    FOR_EVER => Next::Poll,
                    spin if now.wrapping_sub(since) < u64::from(spin) => Next::Poll,
                    _ => self.lie_down::<F>(own, now),
                }
            }
            Phase::Woken => self.lie_down::<F>(own, now),
        }
    }

    fn lie_down<F: Order>(&mut self, own: Word<'_>, now: u64) -> Next {
        self.sleeper.lie_down::<F>(own);
        self.phase = Phase::Down(now);
        Next::LaidDown
    }

    /// The sleep is over, for whatever reason.
    pub(crate) fn get_up(&mut self, own: Word<'_>) {
        self.sleeper.get_up(own);
        self.phase = Phase::Woken;
    }

    /// A round found something.
    pub(crate) fn found(&mut self, own: Option<Word<'_>>) {
        if let Some(own) = own {
            self.sleeper.get_up(own);
        }
        self.phase = Phase::Awake(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamr_comm::abi::sync::Coherent;
    use hamr_comm::abi::window::Window;

    fn step(rests: &mut Rests, own: Word<'_>, now: u64) -> &'static str {
        match rests.next::<Coherent>(own, now) {
            Next::Poll => "poll",
            Next::LaidDown => "laid down",
            Next::Sleep => "sleep",
        }
    }

    #[test]
    fn spins_then_lies_down_then_sleeps_and_again_with_a_fresh_value() {
        let window = Window::private(64);
        let own = window.word(0).expect("inside");
        let mut rests = Rests::of(Epoch(0), true, Rest { spin_us: 100, sleep_us: 7 });
        assert!(!rests.is_due(1) && rests.is_due(64));
        assert_eq!(
            [1000, 1099, 1100, 1101].map(|now| step(&mut rests, own, now)),
            ["poll", "poll", "laid down", "poll"]
        );
        assert_eq!(own.load(), 1);
        assert!(rests.is_due(65));
        assert_eq!(step(&mut rests, own, 1102), "sleep");
        rests.get_up(own);
        assert_eq!(own.load(), 2);
        assert_eq!(step(&mut rests, own, 1103), "laid down");
        assert_eq!(own.load(), 3);
        rests.found(Some(own));
        assert_eq!(own.load(), 4);
        assert_eq!([2000, 2099].map(|now| step(&mut rests, own, now)), ["poll", "poll"]);
    }

    #[test]
    fn one_that_never_sleeps_spins() {
        let window = Window::private(64);
        let own = window.word(0).expect("inside");
        let mut rests = Rests::of(Epoch(0), true, Rest { spin_us: FOR_EVER, sleep_us: FOR_EVER });
        assert_eq!([0, u64::MAX / 2].map(|now| step(&mut rests, own, now)), ["poll", "poll"]);
        assert_eq!(own.load(), 0);
    }
}
