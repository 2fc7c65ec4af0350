//! How many polls fill a time. Both sides pause behind each poll, and a pause takes 10 to 50
//! nanoseconds on one processor and a microsecond in an emulator, so it is measured at start.

use core::sync::atomic::{AtomicU32, Ordering};

/// The length of a poll with a pause behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pauses {
    /// Picoseconds.
    length: u64,
}

/// Nanoseconds that the decisive measurement takes at least: three steps of a clock that counts
/// microseconds.
const LONG_ENOUGH: u64 = 3000;
/// Polls of the longest measurement, as a power of two. A clock that has not moved by then is none.
const MOST: u32 = 9;

impl Pauses {
    /// What is assumed where there is no clock.
    pub const ASSUMED: Self = Self { length: 25_000 };

    /// Measures against a clock that counts nanoseconds, in less than 20 microseconds.
    #[inline(never)]
    pub fn measure(now_ns: &mut dyn FnMut() -> u64) -> Self {
        // A power of two: no division, which an image would check for zero.
        let mut polls = 2;
        loop {
            let mut ns = time(1 << polls, now_ns);
            if ns < LONG_ENOUGH && polls != MOST {
                polls += 1;
                continue;
            }
            if ns == 0 {
                return Self::ASSUMED;
            }
            if ns >= LONG_ENOUGH {
                // Once more: a measurement that was interrupted is too long.
                ns = ns.min(time(1 << polls, now_ns));
            }
            return Self { length: ns.saturating_mul(1000) >> polls };
        }
    }

    /// So many polls take about `ns` nanoseconds; at least one.
    pub fn in_ns(self, ns: u32) -> u32 {
        // A pause of less than a nanosecond is none.
        (u64::from(ns) * 1000 / self.length.max(1000)).max(1) as u32
    }
}

/// Nanoseconds that polls with a pause behind each take.
#[inline(never)]
fn time(polls: u32, now_ns: &mut dyn FnMut() -> u64) -> u64 {
    // A word that the compiler does not know: it loads each time, and does not unroll the loop.
    let left = AtomicU32::new(polls);
    let left = core::hint::black_box(&left);
    let begin = now_ns();
    while left.load(Ordering::Acquire) != 0 {
        left.store(left.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        core::hint::spin_loop();
    }
    now_ns().wrapping_sub(begin)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn polls_fill_the_time_that_they_were_measured_for() {
        let begin = Instant::now();
        let pauses = Pauses::measure(&mut || begin.elapsed().as_nanos() as u64);
        assert!(pauses.in_ns(0) == 1 && pauses.in_ns(1_000_000) >= pauses.in_ns(1000), "{pauses:?}");
        // The fastest of some attempts: others may have been interrupted.
        let fill = |_| {
            let begin = Instant::now();
            (0..pauses.in_ns(100_000)).for_each(|_| core::hint::spin_loop());
            begin.elapsed().as_nanos()
        };
        assert!((0..20).map(fill).min().is_some_and(|ns| ns < 200_000), "{pauses:?}");
    }

    #[test]
    fn a_measurement_is_short_and_its_length_is_that_of_the_shorter_attempt() {
        // A clock that moves 500 ns at each reading: the pauses themselves take no time.
        let mut now = 0;
        let mut clock = |step: u64| {
            now += step;
            now
        };
        assert_eq!(Pauses::measure(&mut || clock(500)).in_ns(1000), 1000);
        // 4 polls take 4 us, then 40 ms: an interruption.
        let mut steps = [0, 4000, 0, 40_000_000].into_iter();
        assert_eq!(Pauses::measure(&mut || clock(steps.next().unwrap_or(0))).in_ns(1000), 1);
        assert_eq!(steps.next(), None, "two attempts");
    }

    #[test]
    fn a_clock_that_stands_still_ends_the_measurement() {
        assert_eq!(Pauses::measure(&mut || 7), Pauses::ASSUMED);
        assert_eq!(Pauses::ASSUMED.in_ns(200), 8);
    }
}
