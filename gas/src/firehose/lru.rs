//! Unused regions by their last use.

use super::slot::{NONE, Slot};

/// The ends of a list whose links are in the slots.
pub(super) struct Lru {
    pub(super) oldest: u16,
    newest: u16,
}

impl Lru {
    pub(super) const fn new() -> Self {
        Self { oldest: NONE, newest: NONE }
    }

    pub(super) fn push<H>(&mut self, slots: &mut [Slot<H>], at: u16) {
        let slot = &mut slots[usize::from(at)];
        (slot.older, slot.newer) = (self.newest, NONE);
        match self.newest {
            NONE => self.oldest = at,
            newest => slots[usize::from(newest)].newer = at,
        }
        self.newest = at;
    }

    pub(super) fn remove<H>(&mut self, slots: &mut [Slot<H>], at: u16) {
        let Slot { older, newer, .. } = slots[usize::from(at)];
        match older {
            NONE => self.oldest = newer,
            older => slots[usize::from(older)].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => slots[usize::from(newer)].older = older,
        }
    }
}
