//! Waiting: spin, then look at clock, peer and deadline, then nap (ARCHITECTURE.md: no clock between a reply and the next call).

use super::cells::Ended;
use crate::node::Inner;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Fruitless looks before the clock is read for the first time: about a microsecond.
pub(super) const SPINS: u32 = 600;
/// Waits shorter than this never nap.
const NO_NAP: Duration = Duration::from_micros(300);
/// Between two looks at the peer.
const PEER_EVERY: Duration = Duration::from_millis(1);
const SHORTEST_NAP: Duration = Duration::from_micros(20);
const LONGEST_NAP: Duration = Duration::from_micros(500);

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
pub(super) struct Wait {
    /// Epoch the wait belongs to.
    epoch: u32,
    limit: Option<Duration>,
    until: Option<Instant>,
    begin: Option<Instant>,
    peer_seen: Option<Instant>,
}

impl Wait {
    /// Ends at `until`, or `limit` after its first step when there is no such moment.
    pub(super) fn new(epoch: u32, until: Option<Instant>, limit: Option<Duration>) -> Self {
        Self { epoch, limit, until, begin: None, peer_seen: None }
    }

    /// One step: returns at once or after a nap; the caller looks again.
    #[cold]
    pub(super) fn step(&mut self, inner: &Inner) -> Result<(), Stop> {
        let now = Instant::now();
        let begin = *self.begin.get_or_insert(now);
        let waited = now - begin;
        let until = *self.until.get_or_insert_with(|| in_time(self.limit.unwrap_or(NEVER)));
        if now >= until {
            return Err(Stop::Deadline);
        }
        if self.peer_seen.is_none_or(|seen| now - seen >= PEER_EVERY) {
            self.peer_seen = Some(now);
            inner.look_at_peer();
        }
        match inner.life.load(Ordering::Acquire) {
            0 => return Err(Stop::Ended(Ended::Lost)),
            life if life != self.epoch => return Err(Stop::Ended(Ended::Reset)),
            _ => {}
        }
        // Longer waits nap longer: an eighth of the time waited is the most that a nap adds.
        let nap = if waited < NO_NAP { Duration::ZERO } else { (waited / 8).clamp(SHORTEST_NAP, LONGEST_NAP) };
        inner.link.wait(nap.min(until - now).as_micros() as u32);
        Ok(())
    }
}
