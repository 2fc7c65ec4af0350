//! Waiting: spin, then look at clock, peer and deadslot, then sleep until the device notifies, or nap where none rings
//! (ARCHITECTURE.md: no clock between a reply and the next call).

use super::submitter::EngineEpoch;
use super::table::EpochEnd;
use crate::WaitMode;
use crate::device::{Device, Fence, GRACE_STEP};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Fruitless looks, with a pause behind each, before the clock is read for the first time: about a microsecond.
pub(super) const SPINS: u32 = 64;
/// Waits shorter than this never sleep.
const NO_SLEEP_BEFORE: Duration = Duration::from_micros(300);
/// Between two looks at the peer.
const PEER_EVERY: Duration = Duration::from_millis(1);
const SHORTEST_SLEEP: Duration = Duration::from_micros(20);
const LONGEST_SLEEP: Duration = Duration::from_micros(500);
/// Rule 23: between saying that one sleeps and sleeping.
const LAST_POLLS: Duration = Duration::from_micros(2);

/// Longest sleep over a link whose end wakes nobody.
const PEER_CHECK_AFTER: Duration = Duration::from_millis(100);

/// Why waiting is over without the thing waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    Deadline,
    EpochEnded(EpochEnd),
}

/// The moment `limit` from now; a limit that no clock can hold is as good as none.
pub(super) fn in_time(limit: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(limit).unwrap_or(now + NEVER)
}

/// Longer than anybody lives to see, and short enough for every clock.
const NEVER: Duration = Duration::from_secs(1 << 32);

/// One wait.
pub(super) struct Wait<'i> {
    device: &'i Device,
    /// Epoch the wait belongs to.
    epoch: EngineEpoch,
    until: Option<Instant>,
    begin: Option<Instant>,
    peer_seen: Option<Instant>,
    phase: Phase,
}

#[derive(Clone, Copy)]
enum Phase {
    /// Looks again and again.
    Spinning,
    /// The device has been asked to ring; in which turn, and when.
    Armed(u64, Instant),
    /// Has slept. The device may still be asked to ring, but perhaps has done so already.
    Woken,
}

impl<'i> Wait<'i> {
    /// Ends at `until`, or with the device's own deadslot, counted from the first step, when there is no such moment.
    pub(super) fn new(device: &'i Device, epoch: EngineEpoch, until: Option<Instant>) -> Self {
        Self { device, epoch, until, begin: None, peer_seen: None, phase: Phase::Spinning }
    }

    /// One step: returns at once or after a timed sleep or a sleep; the caller looks again.
    #[cold]
    pub(super) fn step(&mut self) -> Result<(), Stop> {
        let device = self.device;
        let now = Instant::now();
        let begin = *self.begin.get_or_insert_with(|| {
            // Rule 22: about a microsecond has been spun away.
            device.notify(Fence::Full);
            now
        });
        let until = *self.until.get_or_insert_with(|| in_time(device.options.deadline.unwrap_or(NEVER)));
        if now >= until {
            return Err(Stop::Deadline);
        }
        if now - *self.peer_seen.get_or_insert(now) >= PEER_EVERY {
            self.peer_seen = Some(now);
            device.check_peer();
        }
        match device.epoch.load(Ordering::Acquire) {
            0 => return Err(Stop::EpochEnded(EpochEnd::Lost)),
            epoch if !self.epoch.is(epoch) => return Err(Stop::EpochEnded(EpochEnd::Reset)),
            _ => {}
        }
        if device.wait_queue.is_notified() {
            self.rest(begin, now, until)
        } else {
            self.timed_sleep(begin, now, until)
        }
        Ok(())
    }

    /// The device notifies.
    fn rest(&mut self, begin: Instant, now: Instant, until: Instant) {
        let device = self.device;
        match self.phase {
            Phase::Spinning if device.options.spin_time().is_none_or(|spin| now - begin < spin) => {
                std::hint::spin_loop()
            }
            Phase::Spinning => self.prepare_wait(true, now),
            Phase::Woken => self.prepare_wait(false, now),
            Phase::Armed(_, since) if now - since < LAST_POLLS => std::hint::spin_loop(),
            Phase::Armed(generation, _) => {
                let left = until - now;
                let limit = device.options.longest_sleep.map_or(left, |longest| longest.min(left));
                // Of a device on a bus nobody says that it has ended.
                let limit = if device.link.outlives_host() { limit.min(PEER_CHECK_AFTER) } else { limit };
                let limit = if self.epoch.is_ending(device) { limit.min(GRACE_STEP) } else { limit };
                device.wait_queue.sleep(device.link.as_ref(), generation, (limit < NEVER / 2).then_some(limit));
                self.phase = Phase::Woken;
            }
        }
    }

    fn prepare_wait(&mut self, first: bool, now: Instant) {
        self.phase = Phase::Armed(self.device.wait_queue.prepare_wait(first), now);
        // Rule 22: the fence came with the odd value.
        self.device.notify(Fence::Full);
    }

    /// Nobody rings. Longer waits nap longer: an eighth of the time waited is the most that a timed sleep adds.
    fn timed_sleep(&self, begin: Instant, now: Instant, until: Instant) {
        let waited = now - begin;
        let short = waited < NO_SLEEP_BEFORE || self.device.options.wait == WaitMode::Spin;
        let timed_sleep = if short { Duration::ZERO } else { (waited / 8).clamp(SHORTEST_SLEEP, LONGEST_SLEEP) };
        self.device.link.wait(timed_sleep.min(until - now).as_micros() as u32);
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if !matches!(self.phase, Phase::Spinning) {
            self.device.wait_queue.cancel_wait();
        }
    }
}
