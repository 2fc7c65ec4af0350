//! The lender's record of a block.

/// No lease: the end of a list, or a block that is not lent.
pub(super) const NONE: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    Free,
    Lent,
    Recalled,
    /// Not the first block of its lease, whose record has the rest.
    Within,
}

/// The record of a block; of a lease, that of its first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Loan {
    pub(super) peer: u32,
    pub(super) granted: u32,
    pub(super) used: u32,
    pub(super) state: State,
    /// The first block of the lease that this block is in.
    pub(super) first: u8,
    pub(super) blocks: u8,
    /// Kept when the block is free, since the next lease must have another.
    pub(super) tag: u8,
    pub(super) older: u8,
    pub(super) newer: u8,
}

impl Loan {
    /// Of a block that was never lent.
    pub(super) const FREE: Self = Self {
        peer: 0,
        granted: 0,
        used: 0,
        state: State::Free,
        first: NONE,
        blocks: 0,
        tag: 0,
        older: NONE,
        newer: NONE,
    };
}
