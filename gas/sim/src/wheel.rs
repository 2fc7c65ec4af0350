//! Events in the order of their time, and at one time in the order in which they were made.

/// Events within a bounded time from now on: a ring of buckets, one a nanosecond.
pub(crate) struct Wheel<E> {
    buckets: Vec<Vec<E>>,
    /// Which buckets have events, a bit each.
    filled: Vec<u64>,
    now: u64,
    /// The events of now, and how many of them were taken.
    current: Vec<E>,
    taken: usize,
    len: usize,
}

impl<E: Copy> Wheel<E> {
    /// For delays up to `most` nanoseconds.
    pub(crate) fn new(most: u64) -> Self {
        let buckets = usize::try_from(most + 1).expect("a delay fits the memory").next_power_of_two().max(64);
        Self {
            buckets: (0..buckets).map(|_| Vec::new()).collect(),
            filled: vec![0; buckets / 64],
            now: 0,
            current: Vec::new(),
            taken: 0,
            len: 0,
        }
    }

    /// The time of the event that was taken last, in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// An event `delay` from now, which is at least 1.
    pub(crate) fn push(&mut self, delay: u64, event: E) {
        assert!(delay > 0 && delay < self.buckets.len() as u64, "{delay} ns is no delay of this wheel");
        let at = self.at(self.now + delay);
        self.buckets[at].push(event);
        self.filled[at / 64] |= 1 << (at % 64);
        self.len += 1;
    }

    /// The next event.
    pub(crate) fn pop(&mut self) -> Option<E> {
        if self.taken == self.current.len() {
            if self.len == 0 {
                return None;
            }
            self.advance();
        }
        let event = self.current[self.taken];
        self.taken += 1;
        self.len -= 1;
        Some(event)
    }

    /// To the next bucket that has events.
    fn advance(&mut self) {
        let start = self.at(self.now + 1);
        let words = self.filled.len();
        // The first word twice: its lower bits are the furthest buckets.
        let found = (0..=words).find_map(|step| {
            let word = (start / 64 + step) % words;
            let from = if step == 0 { u64::MAX << (start % 64) } else { u64::MAX };
            let bits = self.filled[word] & from;
            (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
        });
        let bucket = found.expect("the wheel has events");
        self.now += 1 + (bucket + self.buckets.len() - start) as u64 % self.buckets.len() as u64;
        self.filled[bucket / 64] &= !(1 << (bucket % 64));
        self.current.clear();
        std::mem::swap(&mut self.current, &mut self.buckets[bucket]);
        self.taken = 0;
    }

    fn at(&self, time: u64) -> usize {
        time as usize & (self.buckets.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_by_sequence() {
        let mut wheel = Wheel::new(200);
        for (delay, event) in [(200, 5), (3, 1), (70, 3), (3, 2), (199, 4)] {
            wheel.push(delay, event);
        }
        let mut order = Vec::new();
        while let Some(event) = wheel.pop() {
            order.push((wheel.now(), event));
            if event == 3 {
                wheel.push(200, 6);
            }
        }
        assert_eq!(order, [(3, 1), (3, 2), (70, 3), (199, 4), (200, 5), (270, 6)]);
    }
}
