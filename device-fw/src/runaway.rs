//! Runaways: a tick that finds the same call running as before, for longer than it may. No call
//! arms a timer; the tick compares a number that the poller counts anyway.

use hamr_comm::am::Activity;

/// A call that is over its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Overdue {
    /// The call's number.
    pub(crate) serial: u32,
    /// What it was allowed.
    pub(crate) limit_us: u64,
}

/// What the ticks have seen.
#[derive(Debug)]
pub(crate) struct RunawayDetector {
    /// The time limit of a call without a deadline of its own; 0: none.
    longest_us: u64,
    /// The call that the last tick saw, and when one first saw it.
    seen: Option<(u32, u64)>,
}

impl RunawayDetector {
    pub(crate) const fn new(longest_call_ms: u32) -> Self {
        Self { longest_us: longest_call_ms as u64 * 1000, seen: None }
    }

    /// One tick, at `now_us`. The running call when it is over its time: counted from the first
    /// tick that saw it, so a call has up to a tick more than it may, never less.
    pub(crate) fn check(&mut self, activity: &Activity, now_us: u64) -> Option<Overdue> {
        let serial = activity.running();
        let (serial, since) = match (serial, self.seen) {
            (None, _) => {
                self.seen = None;
                return None;
            }
            (Some(serial), Some((seen, since))) if seen == serial => (serial, since),
            (Some(serial), _) => {
                self.seen = Some((serial, now_us));
                return None;
            }
        };
        let own = activity.deadline_us().map(u64::from);
        let limit_us = own.or(Some(self.longest_us).filter(|us| *us != 0))?;
        (now_us.saturating_sub(since) >= limit_us).then_some(Overdue { serial, limit_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamr_comm::am::Activity;

    #[test]
    fn the_same_call_past_its_limit_is_overdue_and_no_other() {
        let mut runaways = RunawayDetector::new(20);
        let activity = Activity::for_tests(None);
        assert_eq!(runaways.check(&activity, 1_000_000), None, "nothing runs");
        let overdue = |serial| Some(Overdue { serial, limit_us: 20_000 });
        let seven = Activity::for_tests(Some((7, None)));
        assert_eq!(runaways.check(&seven, 2_000_000), None, "seen for the first time");
        assert_eq!(runaways.check(&seven, 2_019_999), None);
        let eight = Activity::for_tests(Some((8, None)));
        assert_eq!(runaways.check(&eight, 2_030_000), None, "another call");
        assert_eq!(runaways.check(&activity, 2_040_000), None, "none again");
        assert_eq!(runaways.check(&eight, 2_060_000), None, "counted again from zero");
        assert_eq!(runaways.check(&eight, 2_080_000), overdue(8));
        // Its own limit counts, longer or shorter.
        let own = Activity::for_tests(Some((9, Some(50_000))));
        assert_eq!(runaways.check(&own, 3_000_000), None);
        assert_eq!(runaways.check(&own, 3_049_999), None);
        assert_eq!(runaways.check(&own, 3_050_000), Some(Overdue { serial: 9, limit_us: 50_000 }));
        let mut unlimited = RunawayDetector::new(0);
        assert_eq!(unlimited.check(&eight, 0), None);
        assert_eq!(unlimited.check(&eight, u64::MAX), None, "no limit at all");
    }
}
