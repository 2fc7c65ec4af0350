//! Calls of bodies that found no place: they never wait in a queue, and try again for a while.

use std::time::{Duration, Instant};

/// How long a body's call tries.
const LONGEST: Duration = Duration::from_secs(1);
/// So often without a pause.
const EAGER: u32 = 16;
const PAUSE: Duration = Duration::from_millis(1);

/// One call's tries.
pub(super) struct Retry {
    until: Option<Instant>,
    tries: u32,
}

impl Retry {
    /// Tries again if `chained`: as long as another call may take for its end, and no longer than
    /// `deadline`.
    pub(super) fn new(chained: bool, deadline: Option<Instant>) -> Self {
        let longest = Instant::now() + LONGEST;
        Self { until: chained.then(|| deadline.map_or(longest, |deadline| deadline.min(longest))), tries: 0 }
    }

    /// After a try that failed: is another one due? Pauses before.
    pub(super) fn again(&mut self) -> bool {
        self.tries += 1;
        if self.until.is_none_or(|until| Instant::now() >= until) {
            return false;
        }
        if self.tries <= EAGER {
            std::thread::yield_now();
        } else {
            std::thread::sleep(PAUSE);
        }
        true
    }
}
