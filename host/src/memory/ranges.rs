//! Which ranges of a heap are free: best fit, in a number of steps that grows with the logarithm of the holes.
//!
//! A hole has an entry by its end, where neighbours are found, and one by its length, where room is. Allocating from
//! the front of a hole leaves its end, and with it the first entry, in place. The last hole, which changes most, has
//! no entry.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Ranges of a heap that are free (see the module).
pub struct Ranges {
    /// Where a hole begins, by where it ends. No two touch.
    starts: BTreeMap<u64, u64>,
    /// Length and start of each.
    lengths: BTreeSet<(u64, u64)>,
    /// The hole at the end of the heap, with bytes or without.
    last: Range<u64>,
}

impl Ranges {
    /// All of `0..len` is free.
    pub const fn new(len: u64) -> Self {
        Self { starts: BTreeMap::new(), lengths: BTreeSet::new(), last: 0..len }
    }

    /// The front of the shortest hole of at least `len` bytes, more than none; of several that of the first.
    pub fn allocate(&mut self, len: u64) -> Option<Range<u64>> {
        let last = self.last.end - self.last.start;
        let found = self.lengths.range((len, 0)..).next().copied();
        let Some((has, start)) = found.filter(|(has, _)| last < len || *has <= last) else {
            let start = self.last.start;
            return (last >= len).then(|| {
                self.last.start += len;
                start..self.last.start
            });
        };
        self.lengths.remove(&(has, start));
        let (taken, end) = (start..start + len, start + has);
        if has == len {
            self.starts.remove(&end);
        } else {
            self.lengths.insert((has - len, taken.end));
            self.starts.insert(end, taken.end);
        }
        Some(taken)
    }

    /// Bytes of the longest hole.
    pub fn longest(&self) -> u64 {
        let longest = self.lengths.last().map_or(0, |(len, _)| *len);
        longest.max(self.last.end - self.last.start)
    }

    /// Gives a range back that [`Self::allocate`] gave.
    pub fn free(&mut self, range: Range<u64>) {
        let mut hole = range.clone();
        if let Some(start) = self.starts.remove(&range.start) {
            self.lengths.remove(&(range.start - start, start));
            hole.start = start;
        }
        if range.end == self.last.start {
            self.last.start = hole.start;
            return;
        }
        // The first hole that ends behind the range begins behind it, too, or where it ends.
        if let Some((&end, start)) = self.starts.range_mut(range.end..).next()
            && *start == range.end
        {
            self.lengths.remove(&(end - *start, *start));
            hole.end = end;
            *start = hole.start;
        } else {
            self.starts.insert(hole.end, hole.start);
        }
        self.lengths.insert((hole.end - hole.start, hole.start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same by a look at every unit of the heap.
    struct Model(Vec<bool>);

    impl Model {
        fn holes(&self) -> Vec<Range<usize>> {
            let mut holes: Vec<Range<usize>> = Vec::new();
            for at in (0..self.0.len()).filter(|at| !self.0[*at]) {
                match holes.last_mut().filter(|hole| hole.end == at) {
                    Some(hole) => hole.end += 1,
                    None => holes.push(at..at + 1),
                }
            }
            holes
        }

        fn allocate(&mut self, len: usize) -> Option<Range<u64>> {
            let fits = |hole: &Range<usize>| hole.len() >= len;
            let start = self.holes().into_iter().filter(fits).min_by_key(|hole| (hole.len(), hole.start))?.start;
            self.0[start..start + len].fill(true);
            Some(start as u64..(start + len) as u64)
        }
    }

    /// Do both name the same holes, by end and by length?
    fn agree(ranges: &Ranges, model: &Model) -> bool {
        let by_end: Vec<_> = ranges.starts.iter().map(|(end, start)| *start as usize..*end as usize).collect();
        let mut by_length: Vec<_> =
            ranges.lengths.iter().map(|(len, start)| *start as usize..(start + len) as usize).collect();
        by_length.sort_by_key(|hole| hole.start);
        let last = ranges.last.start as usize..ranges.last.end as usize;
        let all: Vec<_> = by_end.iter().cloned().chain(Some(last).filter(|last| !last.is_empty())).collect();
        all == model.holes() && by_length == by_end
    }

    proptest! {
        #[test]
        fn ranges_are_those_of_the_model(steps in prop::collection::vec((any::<bool>(), 1..9_usize, any::<prop::sample::Index>()), 0..200)) {
            let (mut ranges, mut model, mut taken) = (Ranges::new(64), Model(vec![false; 64]), Vec::new());
            for (allocates, len, which) in steps {
                if allocates {
                    let range = ranges.allocate(len as u64);
                    prop_assert_eq!(&range, &model.allocate(len));
                    taken.extend(range);
                } else if !taken.is_empty() {
                    let range = taken.swap_remove(which.index(taken.len()));
                    model.0[range.start as usize..range.end as usize].fill(false);
                    ranges.free(range);
                }
                prop_assert!(agree(&ranges, &model), "{:?} {:?}", ranges.starts, ranges.lengths);
            }
        }
    }

    #[test]
    fn numbers_at_their_ends() {
        assert_eq!(Ranges::new(0).allocate(1), None);
        let mut ranges = Ranges::new(u64::MAX);
        assert_eq!(ranges.allocate(u64::MAX), Some(0..u64::MAX));
        assert_eq!(ranges.allocate(1), None);
        ranges.free(0..u64::MAX);
        assert_eq!(ranges.allocate(64), Some(0..64));
        assert_eq!(ranges.allocate(u64::MAX), None);
    }
}
