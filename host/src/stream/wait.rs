//! Waiting: spin, then check clock, peer and deadline, then sleep until the device notifies, or in
//! timed sleeps where it does not (ARCHITECTURE.md: no clock between a reply and the next call).

use super::epoch::{EpochEnd, SubmitterEpoch};
use crate::WaitMode;
use crate::device::service::Waiting;
use crate::device::{Device, Fence, GRACE_STEP};
use hamr_comm::am::{Idle, IdleStep, Moment, Pauses, patience};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Polls with a pause behind each that fill a microsecond; a guess until it is measured.
static SPINS: AtomicU32 = AtomicU32::new(64);

/// Polls without result, with a pause behind each, before the clock is read for the first time.
#[inline(always)]
pub(super) fn spins() -> u32 {
    SPINS.load(Ordering::Relaxed)
}

/// Measures how long a poll takes, once per process, in less than 20 microseconds.
pub(super) fn measure_polls() {
    static MEASURED: Once = Once::new();
    MEASURED.call_once(|| {
        let begin = Instant::now();
        let pauses = Pauses::measure(&mut || begin.elapsed().as_nanos() as u64);
        SPINS.store(pauses.in_ns(1000), Ordering::Relaxed);
    });
}

/// Waits shorter than this never sleep.
const NO_SLEEP_BEFORE: Duration = Duration::from_micros(300);
/// Between two checks of the peer.
const PEER_EVERY: Duration = Duration::from_millis(1);
const SHORTEST_SLEEP: Duration = Duration::from_micros(20);
const LONGEST_SLEEP: Duration = Duration::from_micros(500);

/// Longest sleep over a link whose end wakes no thread.
const PEER_CHECK_AFTER: Duration = Duration::from_millis(100);

/// Why a wait ended without its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    Deadline,
    EpochEnded(EpochEnd),
}

/// The moment `limit` from now; a limit beyond the clock's range is as good as none.
pub(crate) fn in_time(limit: Duration) -> Instant {
    later(Instant::now(), limit)
}

fn later(now: Instant, limit: Duration) -> Instant {
    now.checked_add(limit).unwrap_or(now + NEVER)
}

/// More than a hundred years, and short enough for every clock.
const NEVER: Duration = Duration::from_secs(1 << 32);

/// The host's clock for [`Idle`].
#[derive(Clone, Copy)]
struct HostMoment(Instant);

impl Moment for HostMoment {
    fn micros_since(self, earlier: Self) -> u64 {
        micros(self.0 - earlier.0)
    }
}

/// As many as a word has, of a duration that is longer.
pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// One wait.
pub(super) struct Wait<'i> {
    device: &'i Device,
    /// Epoch the wait belongs to.
    epoch: SubmitterEpoch,
    until: Option<Instant>,
    begin: Option<Instant>,
    peer_checked: Option<Instant>,
    idle: Idle<HostMoment>,
    /// Polls with a pause that are left before the clock is read again.
    polls: u32,
    /// The first step is to carry what is waited for, which needs no clock.
    carries: bool,
    /// The wait queue counts this thread, which may sleep in this generation.
    generation: Option<u64>,
    /// What the task that it waits for calls on the host.
    serving: Option<Waiting<'i>>,
}

impl<'i> Wait<'i> {
    /// Ends at `until`, or with the device's own deadline, counted from the first step, when there
    /// is no such moment.
    pub(super) fn new(device: &'i Device, epoch: SubmitterEpoch, until: Option<Instant>) -> Self {
        Self {
            device,
            epoch,
            until,
            begin: None,
            peer_checked: None,
            idle: Idle::new(),
            polls: 0,
            carries: device.wait_queue.is_carried(),
            generation: None,
            serving: None,
        }
    }

    /// One step: returns at once or after a sleep, timed or not; the caller polls again.
    #[cold]
    pub(super) fn step(&mut self) -> Result<(), Stop> {
        if self.polls > 0 {
            self.polls -= 1;
            std::hint::spin_loop();
            return Ok(());
        }
        let device = self.device;
        if std::mem::take(&mut self.carries) {
            device.link.wait(0);
            return Ok(());
        }
        let now = Instant::now();
        let begin = *self.begin.get_or_insert_with(|| {
            // Rule 22: about a microsecond has been spun away.
            device.notify(Fence::Full);
            now
        });
        // Counted from this clock call: a reply should not meet a second one.
        let until = *self.until.get_or_insert_with(|| later(now, device.options.deadline.unwrap_or(NEVER)));
        if now >= until {
            return Err(Stop::Deadline);
        }
        if now - *self.peer_checked.get_or_insert(now) >= PEER_EVERY {
            self.peer_checked = Some(now);
            device.check_peer();
        }
        let epoch = device.epoch.load(Ordering::Acquire);
        if !self.epoch.is(epoch) {
            return Err(Stop::EpochEnded(EpochEnd::before(epoch)));
        }
        if device.wait_queue.is_notified() {
            self.idle(now, until)
        } else {
            self.timed_sleep(begin, now, until)
        }
        Ok(())
    }

    /// Behind a step: serves what the task in `place` calls, if that is known. `is_answered` looks
    /// for the reply.
    pub(super) fn serve(&mut self, place: Option<u32>, is_answered: impl FnMut() -> bool) {
        if self.serving.is_none() {
            self.serving = place.and_then(|place| Waiting::new(self.device, place));
        }
        if let Some(serving) = &mut self.serving
            && serving.pass(&mut self.polls, is_answered)
        {
            self.served();
        }
    }

    /// A body ran. The next step reads the clock, while the device works on the reply, and the looks behind
    /// that one do not.
    fn served(&mut self) {
        self.polls = 0;
        self.idle.found();
        if self.generation.take().is_some() {
            self.device.wait_queue.cancel_wait();
        }
    }

    /// The step for a device that notifies.
    fn idle(&mut self, now: Instant, until: Instant) {
        let device = self.device;
        let is_carried = device.wait_queue.is_carried();
        // Where others poll as well, a look at a network takes longer than their turn.
        let limit = |spin| if is_carried && !patience::must_sleep() { spin } else { patience::limit(spin) };
        let spin = device.options.spin_time().map(|spin| limit(micros(spin)));
        match self.idle.step(HostMoment(now), spin) {
            IdleStep::Poll if is_carried => device.link.wait(0),
            IdleStep::Poll => {
                patience::rest();
                // The clock and the checks take as long as several polls: a reply should not meet them. Others had a
                // turn where the processor is theirs as well.
                self.polls = if patience::is_shared() { 0 } else { spins() / 4 };
            }
            IdleStep::PrepareWait => {
                self.generation = Some(device.wait_queue.prepare_wait(self.generation.is_none()));
                // Rule 22: the fence came with the odd value.
                device.notify(Fence::Full);
            }
            IdleStep::Sleep => {
                let must_look = self.serving.as_mut().is_some_and(Waiting::pause);
                if !must_look {
                    self.sleep(until - now);
                }
                self.idle.woken();
            }
        }
    }

    /// Sleeps until the device notifies, and no longer than `left`.
    fn sleep(&self, left: Duration) {
        let device = self.device;
        let Some(generation) = self.generation else { return };
        let limit = device.options.longest_sleep.map_or(left, |longest| longest.min(left));
        // A device on a bus ends without a notification.
        let limit = if device.link.outlives_host() { limit.min(PEER_CHECK_AFTER) } else { limit };
        let limit = if self.epoch.is_ending(device) { limit.min(GRACE_STEP) } else { limit };
        device.wait_queue.sleep(device.link.as_ref(), generation, (limit < NEVER / 2).then_some(limit));
        device.service.pass_on();
    }

    /// The step for a device that does not notify. Longer waits sleep longer: a timed sleep adds at
    /// most an eighth of the time waited.
    fn timed_sleep(&self, begin: Instant, now: Instant, until: Instant) {
        let waited = now - begin;
        let short = waited < NO_SLEEP_BEFORE && !patience::must_sleep() || self.device.options.wait == WaitMode::Spin;
        let timed_sleep = if short { Duration::ZERO } else { (waited / 8).clamp(SHORTEST_SLEEP, LONGEST_SLEEP) };
        self.device.link.wait(timed_sleep.min(until - now).as_micros() as u32);
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.generation.is_some() {
            self.device.wait_queue.cancel_wait();
        }
    }
}
