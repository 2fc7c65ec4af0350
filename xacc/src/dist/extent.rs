//! Index ranges of a dimension.

use super::MOST;
use crate::error::DistError;
use core::ops::Range;

/// The indices of a dimension: from 0, or a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    pub(crate) lo: i64,
    pub(crate) hi: i64,
}

impl From<i64> for Extent {
    fn from(n: i64) -> Self {
        Self { lo: 0, hi: n }
    }
}

impl From<Range<i64>> for Extent {
    fn from(range: Range<i64>) -> Self {
        Self { lo: range.start, hi: range.end }
    }
}

impl Extent {
    /// Refuses ranges that no sum of a few indices may be made of.
    pub(crate) fn checked(self, dim: usize) -> Result<Self, DistError> {
        let Self { lo, hi } = self;
        if lo <= hi && -MOST < lo && hi < MOST { Ok(self) } else { Err(DistError::Extent { dim, lo, hi }) }
    }
}
