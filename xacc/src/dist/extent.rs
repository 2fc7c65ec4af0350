//! Index ranges of a dimension.

use super::MOST;
use crate::error::DistError;
use crate::int::Int;
use core::ops::Range;

/// The indices of a dimension: from 0, or a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    pub(crate) lo: i64,
    pub(crate) hi: i64,
}

impl<I: Int> From<I> for Extent {
    fn from(n: I) -> Self {
        Self { lo: 0, hi: n.number() }
    }
}

impl<I: Int> From<Range<I>> for Extent {
    fn from(range: Range<I>) -> Self {
        Self { lo: range.start.number(), hi: range.end.number() }
    }
}

impl Extent {
    /// Refuses ranges that no sum of a few indices may be made of.
    pub(crate) fn checked(self, dim: usize) -> Result<Self, DistError> {
        let Self { lo, hi } = self;
        if lo <= hi && -MOST < lo && hi < MOST { Ok(self) } else { Err(DistError::Extent { dim, lo, hi }) }
    }
}
