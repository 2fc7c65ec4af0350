//! Finds a rank that hangs without having ended: one that neither steps `alive` nor finds work
//! (abi §3.3).

use crate::link::Link;
use hamr_comm::abi::preamble::word;
use std::time::Duration;

/// The time between two checks counts as no more: the launcher had none either, or was stopped with
/// its ranks.
const LONGEST_STEP: Duration = Duration::from_millis(100);

/// What was seen of one rank.
#[derive(Clone, Copy, Default)]
pub(super) struct Stall {
    seen: [u32; 2],
    still: Duration,
    is_notified: bool,
}

impl Stall {
    /// A check so long after the last. True: for `limit` no word has changed.
    pub(super) fn check(&mut self, link: &dyn Link, passed: Duration, limit: Duration) -> bool {
        let words = [word::DEVICE_ALIVE, word::DEVICE_PROGRESS];
        let seen = words.map(|at| link.window().word(at).map_or(0, |word| word.observe()));
        if seen != self.seen {
            *self = Self { seen, ..Self::default() };
            return false;
        }
        self.still += passed.min(LONGEST_STEP);
        // A machine that sleeps steps `alive` when it wakes.
        if self.still >= limit / 2 && !self.is_notified {
            self.is_notified = true;
            link.notify();
        }
        self.still >= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Loopback;
    use hamr_comm::registry::Table;

    const LIMIT: Duration = Duration::from_secs(1);

    #[test]
    fn a_rank_is_lost_when_no_word_has_changed_for_the_limit() {
        let link = Loopback::new(1 << 20..1 << 20, Table::of_this_image());
        let (mut stall, step) = (Stall::default(), Duration::from_millis(100));
        for _ in 0..3 {
            for at in [word::DEVICE_ALIVE, word::DEVICE_PROGRESS] {
                let word = link.window().word(at).expect("inside");
                word.store(word.load() + 1);
                assert!((0..10).all(|_| !stall.check(&link, step, LIMIT)), "nine steps are behind the first look");
            }
        }
        assert!(stall.check(&link, step, LIMIT));
    }

    #[test]
    fn time_that_the_launcher_did_not_run_does_not_count() {
        let link = Loopback::new(1 << 20..1 << 20, Table::of_this_image());
        let mut stall = Stall::default();
        assert!((0..9).all(|_| !stall.check(&link, Duration::from_secs(3600), LIMIT)));
        assert!(stall.check(&link, Duration::from_secs(3600), LIMIT));
    }
}
