//! Widths of shadows.

/// Copies of the neighbours' elements beside a node's own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Width {
    /// The whole dimension.
    Full,
    /// So many below the own ones, and so many above.
    Of(u32, u32),
}

impl Width {
    /// No shadow.
    pub const NONE: Self = Self::Of(0, 0);
}

impl From<u32> for Width {
    fn from(n: u32) -> Self {
        Self::Of(n, n)
    }
}

impl From<(u32, u32)> for Width {
    fn from((below, above): (u32, u32)) -> Self {
        Self::Of(below, above)
    }
}

/// The same width on both sides, for lists beside [`Width::Full`].
pub const fn width(n: u32) -> Width {
    Width::Of(n, n)
}
