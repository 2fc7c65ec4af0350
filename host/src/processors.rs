//! Processors that this program may use, and whether fewer are there than sides that poll.

use crate::{Options, WaitMode};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::sync::Once;

/// The processors for some sides that poll.
#[derive(Clone, Copy)]
struct Processors {
    /// They may run on so many.
    allowed: usize,
    /// And for as much time as so many have: less where the control group has a quota.
    time: usize,
}

impl Processors {
    /// Of this thread and what it starts, some of it pinned to `pinned`.
    fn of(own: &CpuSet, time: usize, pinned: impl IntoIterator<Item = usize>, only_pinned: bool) -> Self {
        let mut set = if only_pinned { CpuSet::new() } else { *own };
        // One that no set holds is refused where a device is pinned to it.
        pinned.into_iter().filter(|cpu| *cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
        let (own, allowed) = (own.count() as usize, (set.count() as usize).max(1));
        // The number of the standard library has both, affinity and quota.
        Self { allowed, time: if time < own { time.min(allowed) } else { allowed } }
    }

    /// Sides that poll take more time than there is: while they poll, none of them computes.
    fn are_short_of_time(self, pollers: usize) -> bool {
        self.time < self.allowed && self.time < pollers
    }

    fn line(self, who: &str, pollers: usize) -> Option<String> {
        let processors = self.time;
        let plural = if processors == 1 { "" } else { "s" };
        (processors < pollers).then(|| format!("oversubscribed: {who}, {processors} processor{plural}"))
    }
}

fn here(pinned: impl IntoIterator<Item = usize>, only_pinned: bool) -> Option<Processors> {
    let own = sched_getaffinity(None).ok()?;
    let time = std::thread::available_parallelism().map_or(own.count() as usize, usize::from);
    Some(Processors::of(&own, time, pinned, only_pinned))
}

/// The options of a device beside its host.
pub(crate) fn for_device(options: Options) -> Options {
    let processors = here(options.cpu, false);
    fit(processors, options, "host and device", 2)
}

/// The options of the ranks of a world.
pub(crate) fn for_ranks(options: Options, ranks: usize, cpus: &[usize]) -> Options {
    let processors = here(cpus.iter().copied().take(ranks), !cpus.is_empty());
    fit(processors, options, &format!("{ranks} ranks"), ranks)
}

/// Says once that there are too few, and has sides with a quota sleep at once: what they poll is taken from what they
/// compute. Others give their processor away while they poll.
fn fit(processors: Option<Processors>, mut options: Options, who: &str, pollers: usize) -> Options {
    static SAID: Once = Once::new();
    let Some(processors) = processors.filter(|_| options.wait != WaitMode::Sleep) else { return options };
    if let Some(line) = processors.line(who, pollers) {
        SAID.call_once(|| crate::io::note(format_args!("hamr: {line}")));
    }
    if options.wait == WaitMode::Adaptive && processors.are_short_of_time(pollers) {
        options.wait = WaitMode::Sleep;
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cpus: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        set
    }

    #[test]
    fn processors_are_those_of_affinity_pins_and_quota() {
        /// Own processors, time of so many, pins, only these; allowed, time.
        type Case = (&'static [usize], usize, &'static [usize], bool, (usize, usize));
        let cases: [Case; 9] = [
            (&[0, 1], 2, &[], false, (2, 2)),
            (&[0], 1, &[], false, (1, 1)),
            (&[0], 1, &[1], false, (2, 2)),
            (&[0], 1, &[0], false, (1, 1)),
            (&[0, 1, 2, 3], 4, &[1, 1, 2], true, (2, 2)),
            (&[0, 1, 2, 3], 2, &[], false, (4, 2)),
            (&[0, 1, 2, 3], 2, &[7], true, (1, 1)),
            (&[0, 1], 1, &[0, 1], true, (2, 1)),
            (&[0], 1, &[usize::MAX], true, (1, 1)),
        ];
        for (own, time, pinned, only, expected) in cases {
            let found = Processors::of(&set(own), time, pinned.iter().copied(), only);
            assert_eq!((found.allowed, found.time), expected, "{own:?} {time} {pinned:?} {only}");
        }
    }

    #[test]
    fn a_line_says_that_more_poll_than_have_processors() {
        let line = |time, pollers| Processors { allowed: 8, time }.line(&format!("{pollers} ranks"), pollers);
        assert_eq!(line(2, 4).as_deref(), Some("oversubscribed: 4 ranks, 2 processors"));
        assert_eq!(line(1, 2).as_deref(), Some("oversubscribed: 2 ranks, 1 processor"));
        assert_eq!((line(2, 2), line(3, 2)), (None, None));
    }

    #[test]
    fn sides_with_a_quota_sleep_at_once_where_it_is_less_than_they_poll() {
        use WaitMode::{Adaptive, Sleep, Spin};
        // Allowed, time, pollers, asked for, got.
        let cases = [
            (4, 1, 2, Adaptive, Sleep),
            (4, 2, 2, Adaptive, Adaptive),
            (1, 1, 2, Adaptive, Adaptive),
            (2, 1, 4, Adaptive, Sleep),
            (4, 1, 2, Spin, Spin),
            (4, 1, 2, Sleep, Sleep),
        ];
        for (allowed, time, pollers, wait, expected) in cases {
            let options = Options { wait, ..Options::default() };
            let fitted = fit(Some(Processors { allowed, time }), options, "some", pollers);
            assert_eq!(fitted.wait, expected, "{allowed} {time} {pollers}");
        }
        assert_eq!(fit(None, Options::default(), "some", 9), Options::default());
    }
}
