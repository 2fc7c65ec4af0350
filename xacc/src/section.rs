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
    /// From `lo` to `hi` - 1, or to the end, every `step`th: from the first one if `step` is
    /// positive, otherwise backwards from the last one.
    Range {
        /// The first index, or that of the dimension.
        lo: Option<i64>,
        /// The index behind the last one, or the end of the dimension.
        hi: Option<i64>,
        /// Distance; not 0.
        step: i64,
    },
    /// So many indices from the first one, `step` apart.
    Triplet(Triplet),
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
    Sel::Triplet(Triplet { first, len, step })
}

impl Sel {
    /// Every `by`th of these; negative: backwards from the last one.
    #[must_use]
    pub const fn step(self, by: i64) -> Self {
        match self {
            Self::All => Self::Range { lo: None, hi: None, step: by },
            Self::Range { lo, hi, step } => Self::Range { lo, hi, step: step * by },
            Self::Triplet(Triplet { first, len, step }) if by > 0 => {
                Self::Triplet(Triplet { first, len: (len + by - 1) / by, step: step * by })
            }
            other => other,
        }
    }

    /// The indices of dimension `dim`, which has this range.
    ///
    /// # Errors
    /// One of them is outside of it, or the step is 0.
    pub fn within(self, dim: usize, range: Range<i64>) -> Result<Triplet, DistError> {
        let triplet = match self {
            Self::Index(first) => Triplet { first, len: 1, step: 1 },
            Self::All => Triplet { first: range.start, len: range.end - range.start, step: 1 },
            Self::Own => return Err(DistError::NoNode),
            Self::Range { lo, hi, step } => {
                let (lo, hi) = (lo.unwrap_or(range.start), hi.unwrap_or(range.end));
                if step == 0 {
                    return Err(DistError::Step { dim });
                }
                // Bounds first, so that nothing overflows.
                for index in [lo, hi.saturating_sub(1)] {
                    if lo < hi && !range.contains(&index) {
                        return Err(DistError::Outside { dim, index, lo: range.start, hi: range.end });
                    }
                }
                let len = if lo < hi { (hi - lo - 1) / step.saturating_abs() + 1 } else { 0 };
                Triplet { first: if step > 0 { lo } else { hi.saturating_sub(1) }, len, step }
            }
            Self::Triplet(triplet) => triplet,
        };
        triplet.checked(dim, range)
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
        Self::Range { lo: Some(range.start), hi: Some(range.end), step: 1 }
    }
}

impl From<RangeInclusive<i64>> for Sel {
    fn from(range: RangeInclusive<i64>) -> Self {
        Self::Range { lo: Some(*range.start()), hi: Some(range.end().saturating_add(1)), step: 1 }
    }
}

impl From<RangeFrom<i64>> for Sel {
    fn from(range: RangeFrom<i64>) -> Self {
        Self::Range { lo: Some(range.start), hi: None, step: 1 }
    }
}

impl From<RangeTo<i64>> for Sel {
    fn from(range: RangeTo<i64>) -> Self {
        Self::Range { lo: None, hi: Some(range.end), step: 1 }
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
