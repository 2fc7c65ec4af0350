//! Waiting: spin, then look at clock, peer and deadline, then sleep until the device rings, or nap where none rings
//! (ARCHITECTURE.md: no clock between a reply and the next call).

use super::cells::Ended;
use super::core::EngineEpoch;
use crate::WaitMode;
use crate::node::{Inner, STEP};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Fruitless looks, with a pause behind each, before the clock is read for the first time: about a microsecond.
pub(super) const SPINS: u32 = 64;
/// Waits shorter than this never nap.
const NO_NAP: Duration = Duration::from_micros(300);
/// Between two looks at the peer.
const PEER_EVERY: Duration = Duration::from_millis(1);
const SHORTEST_NAP: Duration = Duration::from_micros(20);
const LONGEST_NAP: Duration = Duration::from_micros(500);
/// Rule 23: between saying that one sleeps and sleeping.
const LAST_LOOKS: Duration = Duration::from_micros(2);

/// Longest sleep over a link whose end wakes nobody.
const LOOK_AFTER: Duration = Duration::from_millis(100);

/// Why waiting is over without the thing waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    Deadline,
    Ended(Ended),
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
    inner: &'i Inner,
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
    Awake,
    /// The device has been asked to ring; in which turn, and when.
    Down(u64, Instant),
    /// Has slept. The device may still be asked to ring, but perhaps has done so already.
    Woken,
}

impl<'i> Wait<'i> {
    /// Ends at `until`, or with the device's own deadline, counted from the first step, when there is no such moment.
    pub(super) fn new(inner: &'i Inner, epoch: EngineEpoch, until: Option<Instant>) -> Self {
        Self { inner, epoch, until, begin: None, peer_seen: None, phase: Phase::Awake }
    }

    /// One step: returns at once or after a nap or a sleep; the caller looks again.
    #[cold]
    pub(super) fn step(&mut self) -> Result<(), Stop> {
        let inner = self.inner;
        let now = Instant::now();
        let begin = *self.begin.get_or_insert_with(|| {
            // Rule 22: about a microsecond has been spun away.
            inner.ring_sleeper();
            now
        });
        let until = *self.until.get_or_insert_with(|| in_time(inner.options.deadline.unwrap_or(NEVER)));
        if now >= until {
            return Err(Stop::Deadline);
        }
        if now - *self.peer_seen.get_or_insert(now) >= PEER_EVERY {
            self.peer_seen = Some(now);
            inner.look_at_peer();
        }
        match inner.life.load(Ordering::Acquire) {
            0 => return Err(Stop::Ended(Ended::Lost)),
            life if !self.epoch.is(life) => return Err(Stop::Ended(Ended::Reset)),
            _ => {}
        }
        if inner.sleepers.is_rung() {
            self.rest(begin, now, until)
        } else {
            self.nap(begin, now, until)
        }
        Ok(())
    }

    /// The device rings.
    fn rest(&mut self, begin: Instant, now: Instant, until: Instant) {
        let inner = self.inner;
        match self.phase {
            Phase::Awake if inner.options.spin_time().is_none_or(|spin| now - begin < spin) => std::hint::spin_loop(),
            Phase::Awake => self.lie_down(true, now),
            Phase::Woken => self.lie_down(false, now),
            Phase::Down(_, since) if now - since < LAST_LOOKS => std::hint::spin_loop(),
            Phase::Down(turn, _) => {
                let left = until - now;
                let limit = inner.options.longest_sleep.map_or(left, |longest| longest.min(left));
                // Of a device on a bus nobody says that it has ended.
                let limit = if inner.link.outlives_host() { limit.min(LOOK_AFTER) } else { limit };
                let limit = if self.epoch.is_ending(inner) { limit.min(STEP) } else { limit };
                inner.sleepers.sleep(inner.link.as_ref(), turn, (limit < NEVER / 2).then_some(limit));
                self.phase = Phase::Woken;
            }
        }
    }

    fn lie_down(&mut self, first: bool, now: Instant) {
        self.phase = Phase::Down(self.inner.sleepers.lie_down(first), now);
        // Rule 22: the fence came with the odd value.
        self.inner.ring_sleeper();
    }

    /// Nobody rings. Longer waits nap longer: an eighth of the time waited is the most that a nap adds.
    fn nap(&self, begin: Instant, now: Instant, until: Instant) {
        let waited = now - begin;
        let short = waited < NO_NAP || self.inner.options.wait == WaitMode::Spin;
        let nap = if short { Duration::ZERO } else { (waited / 8).clamp(SHORTEST_NAP, LONGEST_NAP) };
        self.inner.link.wait(nap.min(until - now).as_micros() as u32);
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if !matches!(self.phase, Phase::Awake) {
            self.inner.sleepers.get_up();
        }
    }
}
