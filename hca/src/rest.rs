//! When an adapter without work sleeps, and when it notifies its device (abi §7, §16.1). It goes by the offer's time, as the device.

use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::preamble::{FOR_EVER, word};
use hamr_comm::abi::sync::Coherent;
use hamr_comm::abi::window::{OutOfWindow, Shared, Window, Word};
use hamr_comm::am::{FencedNotifier, Idle, IdleStep, Waiter, patience};
use hamr_verbs::wire::HCA_WAIT;
use std::time::Instant;

/// Rounds without work between two readings of the clock.
const CLOCK: u32 = 16;
/// Steps between two fences, however busy it is.
const BATCH: u32 = 16;

/// What comes behind a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Another one.
    Round,
    /// A sleep, which the device or the host ends; then [`Rest::woken`].
    Sleep,
}

/// The wait words of both sides (see the module).
pub struct Rest<'w> {
    own: Word<'w>,
    device: Word<'w>,
    notifier: FencedNotifier,
    waiter: Waiter,
    idle: Idle<u64>,
    /// Microseconds without work before a sleep. `None`: it does not sleep.
    spin_us: Option<u64>,
    begin: Instant,
    rounds: u32,
    unfenced: u32,
}

impl<'w> Rest<'w> {
    /// Of an epoch, over the section and the window's first page, with so many microseconds without work before a sleep.
    ///
    /// # Errors
    /// They are too short.
    pub fn new(
        section: &'w Window<Shared>,
        page: &'w Window<Shared>,
        epoch: Epoch,
        spin_us: u32,
    ) -> Result<Self, OutOfWindow> {
        let (own, waiter) = (section.word(HCA_WAIT)?, Waiter::of_epoch(epoch));
        own.store(epoch.0 << 16);
        Ok(Self {
            own,
            device: page.word(word::DEVICE_WAIT)?,
            notifier: FencedNotifier::new(),
            waiter,
            idle: Idle::new(),
            spin_us: Some(u64::from(spin_us)).filter(|_| spin_us != FOR_EVER),
            begin: Instant::now(),
            rounds: 0,
            unfenced: 0,
        })
    }

    /// A round of so many steps has ended. `notify` notifies the device.
    #[inline]
    pub fn behind(&mut self, steps: u32, notify: impl FnOnce()) -> Next {
        if steps == 0 {
            return self.found_nothing(notify);
        }
        self.notifier.publishes();
        self.unfenced = self.unfenced.saturating_add(steps);
        if self.unfenced >= BATCH {
            self.unfenced = 0;
            self.notifier.notify_fenced::<Coherent>(self.device, notify);
        } else {
            self.notifier.notify_relaxed(self.device, notify);
        }
        if self.rounds != 0 {
            self.rounds = 0;
            self.waiter.cancel_wait(self.own);
            self.idle.found();
        }
        Next::Round
    }

    fn found_nothing(&mut self, notify: impl FnOnce()) -> Next {
        self.rounds = self.rounds.wrapping_add(1).max(1);
        // No more work.
        self.unfenced = 0;
        self.notifier.notify_fenced::<Coherent>(self.device, notify);
        if self.idle.is_spinning() && !self.rounds.is_multiple_of(CLOCK) {
            std::hint::spin_loop();
            return Next::Round;
        }
        let now = self.begin.elapsed().as_micros() as u64;
        match self.idle.step(now, self.spin_us.map(patience::limit)) {
            IdleStep::Poll => patience::rest(),
            IdleStep::PrepareWait => self.waiter.prepare_wait::<Coherent>(self.own),
            IdleStep::Sleep => return Next::Sleep,
        }
        Next::Round
    }

    /// The sleep is over, for whatever reason.
    pub fn woken(&mut self) {
        self.waiter.cancel_wait(self.own);
        self.idle.woken();
    }
}
