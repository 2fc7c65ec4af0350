//! Sections: regular parts of arrays and of nodes, of any step.

use crate::error::DistError;
use core::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo};

/// What is selected of one dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sel {
    /// One index; the dimension is dropped.
    Index(i64),
    /// Everything.
    All,
    /// This node's own coordinate; among nodes only.
    Own,
    /// From `lo` to `hi` - 1, or to the end, in steps.
    Range {
        /// The first index, or that of the dimension.
        lo: Option<i64>,
        /// The index behind the last one, or the end of the dimension.
        hi: Option<i64>,
        /// Of these.
        steps: Steps,
    },
    /// So many indices from the first one, `step` apart, in steps of them.
    Triplet(Triplet, Steps),
}

/// `len` indices from `first`, `step` apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Triplet {
    /// The first index.
    pub first: i64,
    /// Indices.
    pub len: i64,
    /// Distance; not 0, may be negative.
    pub step: i64,
}

/// `len` indices from `first`, `step` apart: XcalableMP's `first:len:step`.
pub const fn triplet(first: i64, len: i64, step: i64) -> Sel {
    Sel::Triplet(Triplet { first, len, step }, Steps::NONE)
}

/// Changes of direction of a selection at most.
const MOST_TURNS: usize = 4;

/// Every so many of some indices, and of these again. A step of no direction change is one with that before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steps {
    /// 1 stands for none, 0 for one that is refused.
    by: [i64; MOST_TURNS],
}

impl Steps {
    /// All.
    pub const NONE: Self = Self { by: [1; MOST_TURNS] };

    /// Every `by`th of what these select.
    const fn then(mut self, by: i64) -> Self {
        let mut last = MOST_TURNS;
        while last > 0 && self.by[last - 1] == 1 {
            last -= 1;
        }
        if by > 0 && last > 0 {
            // From the same end. A step that is too long for a number selects one index, as this one does.
            self.by[last - 1] = self.by[last - 1].saturating_mul(by);
        } else if last < MOST_TURNS {
            self.by[last] = by;
        } else {
            self.by[0] = 0;
        }
        self
    }

    /// What they select of indices that exist.
    fn of(self, dim: usize, mut all: Triplet) -> Result<Triplet, DistError> {
        for by in self.by {
            if by == 0 {
                return Err(DistError::Step { dim });
            }
            if by == 1 || all.len < 1 {
                continue;
            }
            let Triplet { first, len, step } = all;
            let len_then = (len - 1) / by.saturating_abs() + 1;
            // Between two indices that exist, so it is a number, as any multiple of a step that is made.
            let last = first + (len - 1) * step;
            let step_then = if len_then == 1 { 1 } else { step * by };
            all = Triplet { first: if by > 0 { first } else { last }, len: len_then, step: step_then };
        }
        Ok(all)
    }
}

impl Sel {
    /// Every `by`th of these; negative: backwards from the last one. An index stays as it is.
    #[must_use]
    pub const fn step(self, by: i64) -> Self {
        match self {
            Self::All => Self::Range { lo: None, hi: None, steps: Steps::NONE.then(by) },
            Self::Range { lo, hi, steps } => Self::Range { lo, hi, steps: steps.then(by) },
            Self::Triplet(triplet, steps) => Self::Triplet(triplet, steps.then(by)),
            other => other,
        }
    }

    /// The indices of dimension `dim`, which has this range.
    ///
    /// # Errors
    /// One of those that steps select of is outside of it; a step is 0, or they turn more than four times.
    pub fn within(self, dim: usize, range: Range<i64>) -> Result<Triplet, DistError> {
        let (triplet, steps) = match self {
            Self::Index(first) => (Triplet { first, len: 1, step: 1 }, Steps::NONE),
            Self::All => (Triplet { first: range.start, len: range.end - range.start, step: 1 }, Steps::NONE),
            Self::Own => return Err(DistError::NoNode),
            Self::Range { lo, hi, steps } => {
                let (lo, hi) = (lo.unwrap_or(range.start), hi.unwrap_or(range.end));
                // Bounds first, so that nothing overflows.
                for index in [lo, hi.saturating_sub(1)] {
                    if lo < hi && !range.contains(&index) {
                        return Err(DistError::Outside { dim, index, lo: range.start, hi: range.end });
                    }
                }
                (Triplet { first: lo, len: if lo < hi { hi - lo } else { 0 }, step: 1 }, steps)
            }
            Self::Triplet(triplet, steps) => (triplet, steps),
        };
        steps.of(dim, triplet.checked(dim, range)?)
    }
}

impl Triplet {
    fn checked(self, dim: usize, range: Range<i64>) -> Result<Self, DistError> {
        let Self { first, len, step } = self;
        if step == 0 {
            return Err(DistError::Step { dim });
        }
        if len < 0 {
            return Err(DistError::Extent { dim, lo: first, hi: first.saturating_add(len) });
        }
        if len == 0 {
            return Ok(Self { first: range.start, len: 0, step: 1 });
        }
        let last = (len - 1).checked_mul(step).and_then(|far| far.checked_add(first)).unwrap_or(i64::MAX);
        for index in [first, last] {
            if !range.contains(&index) {
                return Err(DistError::Outside { dim, index, lo: range.start, hi: range.end });
            }
        }
        // The step of a single index has no meaning, and may have any size.
        Ok(if len == 1 { Self { step: 1, ..self } } else { self })
    }

    /// The index at a position.
    pub const fn at(self, position: i64) -> i64 {
        self.first + position * self.step
    }
}

impl From<i64> for Sel {
    fn from(index: i64) -> Self {
        Self::Index(index)
    }
}

impl From<RangeFull> for Sel {
    fn from(_: RangeFull) -> Self {
        Self::All
    }
}

impl From<Range<i64>> for Sel {
    fn from(range: Range<i64>) -> Self {
        Self::Range { lo: Some(range.start), hi: Some(range.end), steps: Steps::NONE }
    }
}

impl From<RangeInclusive<i64>> for Sel {
    fn from(range: RangeInclusive<i64>) -> Self {
        Self::Range { lo: Some(*range.start()), hi: Some(range.end().saturating_add(1)), steps: Steps::NONE }
    }
}

impl From<RangeFrom<i64>> for Sel {
    fn from(range: RangeFrom<i64>) -> Self {
        Self::Range { lo: Some(range.start), hi: None, steps: Steps::NONE }
    }
}

impl From<RangeTo<i64>> for Sel {
    fn from(range: RangeTo<i64>) -> Self {
        Self::Range { lo: None, hi: Some(range.end), steps: Steps::NONE }
    }
}

/// Steps of ranges: `(2..10).step(2)`, `(..).step(-1)`.
pub trait Step {
    /// Every `by`th; negative: backwards from the last one.
    fn step(self, by: i64) -> Sel;
}

macro_rules! steps {
    ($($range:ty),+) => {
        $(impl Step for $range {
            fn step(self, by: i64) -> Sel {
                Sel::from(self).step(by)
            }
        })+
    };
}

steps!(RangeFull, Range<i64>, RangeInclusive<i64>, RangeFrom<i64>, RangeTo<i64>);

/// A section of an array: indices of every dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region<const N: usize> {
    /// Per dimension.
    pub dims: [Triplet; N],
}

impl<const N: usize> Region<N> {
    /// What a selection names of an array with these ranges.
    ///
    /// # Errors
    /// It reaches beyond one, or has step 0.
    pub fn new(sel: [Sel; N], ranges: [Range<i64>; N]) -> Result<Self, DistError> {
        let mut dims = [Triplet { first: 0, len: 0, step: 1 }; N];
        for (dim, ((to, sel), range)) in dims.iter_mut().zip(sel).zip(ranges).enumerate() {
            *to = sel.within(dim, range)?;
        }
        Ok(Self { dims })
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.dims.iter().map(|dim| dim.len as usize).product()
    }

    /// No element.
    pub fn is_empty(&self) -> bool {
        self.dims.iter().any(|dim| dim.len == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Indices that a selection of 0..12 names.
    fn named(sel: Sel) -> Vec<i64> {
        let dim = sel.within(0, 0..12).expect("within");
        (0..dim.len).map(|at| dim.at(at)).collect()
    }

    #[test]
    fn a_step_selects_of_what_is_selected() {
        assert_eq!(named((2..10).step(2)), [2, 4, 6, 8]);
        assert_eq!(named((2..10).step(2).step(-1)), [8, 6, 4, 2]);
        assert_eq!(named((2..10).step(-3)), [9, 6, 3]);
        assert_eq!(named((2..10).step(-3).step(-1)), [3, 6, 9]);
        assert_eq!(named(triplet(2, 4, 2).step(-1)), [8, 6, 4, 2]);
        assert_eq!(named(triplet(8, 4, -2).step(-3)), [2, 8]);
        assert_eq!(named(Sel::Index(3).step(2)), [3]);
    }

    #[test]
    fn steps_are_those_of_lists() {
        let steps = [-5, -3, -2, -1, 1, 2, 3, i64::MAX, i64::MIN];
        let bases = [Sel::All, (3..4).into(), (2..11).into(), (5..5).into(), triplet(1, 5, 2), triplet(11, 6, -2)];
        for (base, a, b, c) in bases.into_iter().flat_map(|base| {
            let each = move |a| steps.into_iter().flat_map(move |b| steps.map(move |c| (base, a, b, c)));
            steps.into_iter().flat_map(each)
        }) {
            let list = [a, b, c].into_iter().fold(named(base), |mut list, by| {
                if by < 0 {
                    list.reverse();
                }
                list.into_iter().step_by(usize::try_from(by.unsigned_abs()).unwrap_or(usize::MAX)).collect()
            });
            assert_eq!(named(base.step(a).step(b).step(c)), list, "{base:?} {a} {b} {c}");
        }
    }

    #[test]
    fn steps_that_select_nothing_are_refused() {
        for base in [Sel::All, (5..5).into(), (2..11).into(), triplet(2, 4, 2)] {
            for sel in [base.step(0), base.step(2).step(0), base.step(-1).step(0).step(3)] {
                assert_eq!(sel.within(1, 0..12), Err(DistError::Step { dim: 1 }), "{sel:?}");
            }
            let turned = (0..4).fold(base, |sel, _| sel.step(-1));
            assert!(turned.within(0, 0..12).is_ok() && turned.step(3).within(0, 0..12).is_ok());
            assert_eq!(turned.step(-1).within(0, 0..12), Err(DistError::Step { dim: 0 }));
        }
    }
}
