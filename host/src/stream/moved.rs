//! Results that left the ring before their callers read them, in the order of the ring.
//!
//! A call is found by its number, which is higher than those of all calls before it: where all of them are
//! unread it is as far from the front as its number is from the front's, else nearer to it.

use super::epoch::EpochEnd;
use super::reply::ReplyCopy;
use hamr_comm::abi::slot::{INLINE_WORDS, RepHdr};
use std::collections::VecDeque;

/// Read results that are kept between unread ones, beside as many as there are of these.
const MOST_READ: usize = 64;

/// What became of a call.
pub(super) enum Kept {
    Short(RepHdr, [u64; INLINE_WORDS]),
    /// Longer than the words.
    Long(Box<ReplyCopy>),
    /// It ended without a reply.
    Ended(EpochEnd),
    /// Its caller has it.
    Read,
}

/// A cache line: a hundred thousand of them are memory traffic and nothing else.
struct Moved {
    number: u64,
    kept: Kept,
}
const _: () = assert!(size_of::<Moved>() == 64);

/// The results (see the module).
pub(super) struct MovedResults {
    /// In the order of their numbers; the first and the last are unread.
    results: VecDeque<Moved>,
    read: usize,
}

impl MovedResults {
    /// Room for so many without a later allocation.
    pub(super) fn with_capacity(count: usize) -> Self {
        Self { results: VecDeque::with_capacity(count), read: 0 }
    }

    /// The call with this number, higher than all before it, ended so.
    pub(super) fn push(&mut self, number: u64, kept: Kept) {
        self.results.push_back(Moved { number, kept });
    }

    fn find(&mut self, number: u64) -> Option<&mut Moved> {
        let behind = number.checked_sub(self.results.front()?.number)?;
        let last = self.results.len() - 1;
        let at = usize::try_from(behind).map_or(last, |behind| behind.min(last));
        let at = match self.results.get(at) {
            Some(moved) if moved.number == number => at,
            _ => self.results.binary_search_by_key(&number, |moved| moved.number).ok()?,
        };
        self.results.get_mut(at)
    }

    /// How the call with this number ended; once.
    pub(super) fn take(&mut self, number: u64) -> Option<Kept> {
        let unread = self.find(number).filter(|moved| !matches!(moved.kept, Kept::Read))?;
        let kept = std::mem::replace(&mut unread.kept, Kept::Read);
        self.read += 1;
        while self.results.pop_front_if(|moved| matches!(moved.kept, Kept::Read)).is_some() {
            self.read -= 1;
        }
        while self.results.pop_back_if(|moved| matches!(moved.kept, Kept::Read)).is_some() {
            self.read -= 1;
        }
        if self.read > MOST_READ + self.results.len() / 2 {
            self.results.retain(|moved| !matches!(moved.kept, Kept::Read));
            self.read = 0;
        }
        Some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn word(kept: Option<Kept>) -> Option<u64> {
        match kept {
            Some(Kept::Short(_, words)) => Some(words[0]),
            _ => None,
        }
    }

    /// Results of `numbers`, each with its number.
    fn moved(numbers: impl IntoIterator<Item = u64>) -> MovedResults {
        let mut moved = MovedResults::with_capacity(4);
        numbers.into_iter().for_each(|number| moved.push(number, Kept::Short(RepHdr(0), [number; INLINE_WORDS])));
        moved
    }

    #[test]
    fn results_are_taken_once_in_any_order() {
        for step in [1, 3, 17] {
            let numbers = || (0..100).map(|n| 5 + n * step);
            for stride in [1, 37, 99] {
                let mut moved = moved(numbers());
                for k in 0..100 {
                    let number = 5 + (k * stride % 100) * step;
                    assert_eq!(word(moved.take(number)), Some(number));
                    assert_eq!(word(moved.take(number)), None, "taken before");
                }
                assert_eq!((moved.results.len(), moved.read), (0, 0));
            }
        }
    }

    #[test]
    fn a_number_of_no_result_finds_none() {
        let mut results = moved([10, 12, 1 << 40]);
        assert!([0, 9, 11, 13, (1 << 40) + 1, u64::MAX].into_iter().all(|number| results.take(number).is_none()));
        assert_eq!(word(moved([]).take(0)), None);
        assert_eq!(word(results.take(1 << 40)), Some(1 << 40));
    }

    #[test]
    fn an_old_unread_result_keeps_few_read_ones() {
        let mut moved = moved([0]);
        let mut unread = BTreeSet::from([0]);
        for number in 1..100_000 {
            moved.push(number, Kept::Short(RepHdr(0), [number; INLINE_WORDS]));
            if number % 1000 == 0 {
                unread.insert(number);
            } else {
                assert_eq!(word(moved.take(number)), Some(number));
            }
            assert!(moved.results.len() <= 2 * (unread.len() + MOST_READ) + 1);
        }
        for number in unread {
            assert_eq!(word(moved.take(number)), Some(number));
        }
        assert!(moved.results.is_empty());
    }
}
