//! A region's record.

/// No slot.
pub(super) const NONE: u16 = u16::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    /// In the order; without leases it is in the list of unused ones.
    Live,
    /// In the order, not pinned yet.
    Moving,
    /// In a larger region; it has leases.
    Swallowed,
}

/// Room for a region.
#[derive(Clone, Copy, Debug)]
pub struct Slot<H> {
    pub(super) space: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) handle: Option<H>,
    pub(super) leases: u32,
    pub(super) state: State,
    pub(super) older: u16,
    pub(super) newer: u16,
    /// Of the slot with this index, the slot of the region in this place of the order.
    pub(super) order: u16,
}

impl<H> Slot<H> {
    /// Without a region.
    pub const EMPTY: Self = Self {
        space: 0,
        start: 0,
        end: 0,
        handle: None,
        leases: 0,
        state: State::Free,
        older: NONE,
        newer: NONE,
        order: NONE,
    };
}
