//! Index sets of one node along one dimension: intervals of equal length at equal distances.

use core::ops::Range;

/// Intervals of `len` indices, `count` of them `period` apart, as far as they are within bounds. The
/// part of one node of any distribution is such a set, in ascending order and without overlap.
///
/// (Ramaswamy & Banerjee 1995 call it a family of line segments.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pieces {
    pub(crate) first: i64,
    pub(crate) len: i64,
    pub(crate) period: i64,
    pub(crate) count: i64,
    pub(crate) lo: i64,
    pub(crate) hi: i64,
}

impl Pieces {
    /// No index.
    pub const EMPTY: Self = Self { first: 0, len: 0, period: 1, count: 0, lo: 0, hi: 0 };

    /// The indices from `lo` to `hi` - 1.
    pub const fn one(lo: i64, hi: i64) -> Self {
        if lo >= hi {
            return Self::EMPTY;
        }
        Self { first: lo, len: hi - lo, period: hi - lo, count: 1, lo, hi }
    }

    /// Intervals that may reach beyond the bounds.
    pub(crate) fn periodic(first: i64, len: i64, period: i64, within: Range<i64>) -> Self {
        if first >= within.end {
            return Self::EMPTY;
        }
        // A period may be longer than the range by any amount.
        let count = (within.end - first - 1) / period + 1;
        Self { first, len, period, count, lo: within.start, hi: within.end }.trimmed()
    }

    /// Without the intervals at both ends that are out of bounds.
    fn trimmed(mut self) -> Self {
        if self.count < 1 || self.len < 1 || self.lo >= self.hi {
            return Self::EMPTY;
        }
        // Without divisions: most dimensions are so, and each loop comes here.
        if self.count == 1 {
            return if self.piece(0).is_empty() { Self::EMPTY } else { self };
        }
        let before = (self.lo - self.first - self.len).div_euclid(self.period) + 1;
        let before = before.clamp(0, self.count);
        self.first += before * self.period;
        let in_front = (self.hi - self.first + self.period - 1).div_euclid(self.period);
        self.count = (self.count - before).min(in_front);
        if self.count < 1 { Self::EMPTY } else { self }
    }

    /// Those within a range.
    #[must_use]
    pub fn within(self, range: Range<i64>) -> Self {
        Self { lo: self.lo.max(range.start), hi: self.hi.min(range.end), ..self }.trimmed()
    }

    /// Each interval longer by `before` and `after`; negative ones make it shorter, and may leave
    /// intervals empty. Those that touch each other then become one.
    #[must_use]
    pub fn grown(self, before: i64, after: i64) -> Self {
        if self.count < 1 {
            return Self::EMPTY;
        }
        let first = self.first - before;
        let (len, lo, hi) = (self.len + before + after, self.lo - before, self.hi + after);
        if self.count > 1 && len >= self.period {
            let len = (self.count - 1) * self.period + len;
            return Self { first, len, period: len, count: 1, lo, hi }.trimmed();
        }
        Self { first, len, lo, hi, period: if self.count == 1 { len.max(1) } else { self.period }, ..self }.trimmed()
    }

    /// Intervals, of which some may be empty after [`Self::grown`].
    pub fn count(self) -> i64 {
        self.count
    }

    /// The interval with this number.
    #[inline(always)]
    pub fn piece(self, nth: i64) -> Range<i64> {
        let first = self.first + nth * self.period;
        first.max(self.lo)..(first + self.len).min(self.hi)
    }

    /// All intervals that are not empty, ascending.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Range<i64>> + Clone {
        (0..self.count).map(move |nth| self.piece(nth)).filter(|piece| !piece.is_empty())
    }

    /// The smallest range that holds all of them; `None`: there is none.
    pub fn bounds(self) -> Option<Range<i64>> {
        Some(self.iter().next()?.start..self.iter().next_back()?.end)
    }

    /// Indices.
    pub fn len(self) -> i64 {
        match self.count {
            ..=2 => self.iter().map(|piece| piece.end - piece.start).sum(),
            // Only the first and the last one can be cut.
            count => {
                [0, count - 1]
                    .into_iter()
                    .map(|nth| self.piece(nth))
                    .map(|piece| (piece.end - piece.start).max(0))
                    .sum::<i64>()
                    + (count - 2) * self.len
            }
        }
    }

    /// No index.
    pub fn is_empty(self) -> bool {
        self.bounds().is_none()
    }

    /// This index is one of them.
    pub fn contains(self, index: i64) -> bool {
        self.piece_of(index).is_some()
    }

    /// The number of the interval with an index.
    pub fn piece_of(self, index: i64) -> Option<i64> {
        let nth = (index - self.first).div_euclid(self.period);
        ((0..self.count).contains(&nth) && self.piece(nth).contains(&index)).then_some(nth)
    }
}
