//! The table of regions: which pages are pinned, who uses them, which to unpin. It pins nothing itself.
//!
//! Regions that may be found are in the order of their start, and none lies in another, so their ends are in the same
//! order: the last region that starts at or before a range is the one that covers it, if any does. A region that was
//! swallowed by a larger one is in no order, and is unpinned when its last lease ends.

use core::ops::Range;

use super::lru::Lru;
use super::slot::{NONE, Slot, State};

/// How much is pinned. Lengths are in bytes; the number of regions is that of the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Under lease at a time.
    pub bytes: u64,
    /// Pinned beyond that, without a lease.
    pub victim_bytes: u64,
    /// Of one region: what is leased at once, and to what regions grow together.
    pub region_bytes: u64,
    /// A page, a power of two.
    pub page: u64,
}

/// Why there is no lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Too much is leased: the caller lets its transfers end, and tries again.
    Full,
    /// The range is empty, leaves the address space, or is longer than a region may be.
    Range,
    /// The system does not pin this.
    Pin,
}

/// Memory under a lease was to be invalidated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse;

/// A region stays pinned while this is out. It is given back by `release`; dropped, it keeps the region for ever.
#[must_use = "what is not released stays pinned"]
#[derive(Debug, PartialEq, Eq)]
pub struct Lease {
    pub(super) slot: u16,
    start: u64,
    end: u64,
}

impl Lease {
    /// The region: the pages that were asked for, or more.
    pub fn range(&self) -> Range<u64> {
        self.start..self.end
    }
}

/// A region that is no longer in the table, and is to be unpinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gone<H> {
    pub(super) space: u32,
    pub(super) range: Range<u64>,
    pub(super) handle: Option<H>,
}

/// The table. A *space* is a peer whose memory it is, or 0.
pub(super) struct Regions<'m, H> {
    pub(super) slots: &'m mut [Slot<H>],
    limits: Limits,
    /// Regions in the order.
    live: usize,
    /// Regions that are not free.
    used: usize,
    unused: Lru,
    pinned: u64,
    leased: u64,
}

impl<'m, H: Copy> Regions<'m, H> {
    pub(super) fn new(limits: Limits, slots: &'m mut [Slot<H>]) -> Self {
        assert!(limits.page.is_power_of_two(), "a page is a power of two");
        assert!(slots.len() < usize::from(NONE), "slots are numbered in 16 bits");
        slots.fill(Slot::EMPTY);
        Self { slots, limits, live: 0, used: 0, unused: Lru::new(), pinned: 0, leased: 0 }
    }

    pub(super) fn pinned(&self) -> u64 {
        self.pinned
    }

    /// The pages of a range.
    pub(super) fn pages(&self, range: &Range<u64>) -> Result<Range<u64>, Refused> {
        let page = self.limits.page;
        let end = range.end.checked_next_multiple_of(page).ok_or(Refused::Range)?;
        let pages = range.start & !(page - 1)..end;
        let most = self.limits.region_bytes.min(self.limits.bytes);
        if range.is_empty() || pages.end - pages.start > most {
            return Err(Refused::Range);
        }
        Ok(pages)
    }

    /// The region that covers these pages.
    pub(super) fn find(&self, space: u32, pages: &Range<u64>) -> Option<u16> {
        let place = self.place(space, pages.start + 1).checked_sub(1)?;
        let slot = self.at(place);
        (slot.space == space && slot.end >= pages.end).then(|| self.slots[place].order)
    }

    /// The first region with some of these pages.
    pub(super) fn first(&self, space: u32, pages: &Range<u64>) -> Option<u16> {
        let place = self.touching(space, pages.start + 1);
        let is_it = place < self.live && self.at(place).space == space && self.at(place).start < pages.end;
        is_it.then(|| self.slots[place].order)
    }

    /// Another lease of a region; `None` if too much would be leased.
    pub(super) fn lease(&mut self, at: u16) -> Option<Lease> {
        let Slot { start, end, leases, state, .. } = self.slots[usize::from(at)];
        if leases == 0 {
            if self.leased + (end - start) > self.limits.bytes {
                return None;
            }
            self.leased += end - start;
            if state == State::Live {
                self.unused.remove(self.slots, at);
            }
        }
        self.slots[usize::from(at)].leases += 1;
        Some(Lease { slot: at, start, end })
    }

    /// Ends a lease; the region, if it is to be unpinned.
    pub(super) fn release(&mut self, lease: &Lease) -> Option<Gone<H>> {
        let slot = self.slots.get_mut(usize::from(lease.slot))?;
        if slot.leases == 0 || (slot.start, slot.end) != (lease.start, lease.end) {
            debug_assert!(false, "a lease of another cache");
            return None;
        }
        slot.leases -= 1;
        if slot.leases > 0 {
            return None;
        }
        let state = slot.state;
        self.leased -= lease.end - lease.start;
        match state {
            State::Swallowed => Some(self.forget(lease.slot)),
            _ => {
                self.unused.push(self.slots, lease.slot);
                None
            }
        }
    }

    /// The pages to pin for a range that no region covers: with the whole neighbours that fit, the one behind first.
    pub(super) fn merged(&self, space: u32, pages: Range<u64>) -> Range<u64> {
        let fits = |range: &Range<u64>| {
            let len = range.end - range.start;
            len <= self.limits.region_bytes && self.leased + len <= self.limits.bytes
        };
        let mut wide = pages.clone();
        let behind = self.place(space, pages.end.saturating_add(1)).checked_sub(1).map(|place| *self.at(place));
        if let Some(slot) = behind.filter(|slot| slot.space == space && slot.end > pages.end) {
            let with = wide.start.min(slot.start)..slot.end;
            wide = if fits(&with) { with } else { wide };
        }
        let before = self.place(space, pages.start).checked_sub(1).map(|place| *self.at(place));
        if let Some(slot) = before.filter(|slot| slot.space == space && slot.end >= pages.start) {
            let with = slot.start.min(wide.start)..wide.end.max(slot.end);
            wide = if fits(&with) { with } else { wide };
        }
        wide
    }

    /// An unused region that must leave before these pages can be pinned: one in them, or the one used least recently
    /// where there is no room.
    pub(super) fn victim(&self, space: u32, pages: &Range<u64>) -> Result<Option<u16>, Refused> {
        let len = pages.end - pages.start;
        if self.leased + len > self.limits.bytes {
            return Err(Refused::Full);
        }
        let mut place = self.place(space, pages.start);
        while let Some(slot) = self.within(place, space, pages) {
            match (slot.state, slot.leases) {
                // Its pages are pinned by the answer to a message.
                (State::Moving, _) => return Err(Refused::Full),
                (_, 0) => return Ok(Some(self.slots[place].order)),
                _ => place += 1,
            }
        }
        let is_room = self.used < self.slots.len() && self.pinned + len <= self.limits.bytes + self.limits.victim_bytes;
        match (is_room, self.unused.oldest) {
            (true, _) => Ok(None),
            (false, NONE) => Err(Refused::Full),
            (false, oldest) => Ok(Some(oldest)),
        }
    }

    /// A new region with a lease, once [`Regions::victim`] finds nothing more.
    pub(super) fn insert(&mut self, space: u32, pages: Range<u64>, handle: Option<H>) -> Lease {
        let place = self.place(space, pages.start);
        while self.within(place, space, &pages).is_some() {
            let at = self.slots[place].order;
            self.slots[usize::from(at)].state = State::Swallowed;
            self.take_from_order(place);
        }
        let free = self.slots.iter().position(|slot| slot.state == State::Free).unwrap_or(0);
        let at = free as u16;
        let state = if handle.is_some() { State::Live } else { State::Moving };
        let len = pages.end - pages.start;
        let slot = &mut self.slots[free];
        (slot.space, slot.start, slot.end) = (space, pages.start, pages.end);
        (slot.handle, slot.leases, slot.state) = (handle, 1, state);
        for later in (place..self.live).rev() {
            self.slots[later + 1].order = self.slots[later].order;
        }
        self.slots[place].order = at;
        (self.live, self.used) = (self.live + 1, self.used + 1);
        (self.pinned, self.leased) = (self.pinned + len, self.leased + len);
        Lease { slot: at, start: pages.start, end: pages.end }
    }

    /// Takes a region without leases, or one that was not pinned, out of the table.
    pub(super) fn remove(&mut self, at: u16) -> Gone<H> {
        let Slot { space, start, end, leases, state, .. } = self.slots[usize::from(at)];
        match (leases, state) {
            (0, State::Live) => self.unused.remove(self.slots, at),
            (0, _) => {}
            _ => self.leased -= end - start,
        }
        let place = self.place(space, start);
        if place < self.live && self.slots[place].order == at {
            self.take_from_order(place);
        }
        self.forget(at)
    }

    /// A region with some of these pages: under lease, or else one that is unused.
    pub(super) fn overlapping(&self, space: u32, pages: &Range<u64>) -> Result<Option<u16>, InUse> {
        let is_over = |slot: &Slot<H>| slot.space == space && slot.start < pages.end && pages.start < slot.end;
        let mut over = self.slots.iter().filter(|slot| slot.state != State::Free && is_over(slot));
        if over.any(|slot| slot.leases > 0) {
            return Err(InUse);
        }
        Ok(self.first(space, pages))
    }

    /// Any region.
    pub(super) fn any(&self) -> Option<u16> {
        self.slots.iter().position(|slot| slot.state != State::Free).map(|at| at as u16)
    }

    fn at(&self, place: usize) -> &Slot<H> {
        &self.slots[usize::from(self.slots[place].order)]
    }

    /// The place of the first region that does not start before `start`.
    fn place(&self, space: u32, start: u64) -> usize {
        self.search(|slot| (slot.space, slot.start) < (space, start))
    }

    /// The place of the first region that does not end before `end`.
    fn touching(&self, space: u32, end: u64) -> usize {
        self.search(|slot| (slot.space, slot.end) < (space, end))
    }

    fn search(&self, is_before: impl Fn(&Slot<H>) -> bool) -> usize {
        let (mut low, mut high) = (0, self.live);
        while low < high {
            let middle = low.midpoint(high);
            if is_before(self.at(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The region in this place, if it lies in these pages.
    fn within(&self, place: usize, space: u32, pages: &Range<u64>) -> Option<&Slot<H>> {
        let slot = (place < self.live).then(|| self.at(place))?;
        (slot.space == space && slot.start >= pages.start && slot.end <= pages.end).then_some(slot)
    }

    fn take_from_order(&mut self, place: usize) {
        for later in place + 1..self.live {
            self.slots[later - 1].order = self.slots[later].order;
        }
        self.live -= 1;
    }

    fn forget(&mut self, at: u16) -> Gone<H> {
        let Slot { space, start, end, handle, .. } = self.slots[usize::from(at)];
        let slot = &mut self.slots[usize::from(at)];
        (slot.state, slot.leases, slot.handle) = (State::Free, 0, None);
        self.used -= 1;
        self.pinned -= end - start;
        Gone { space, range: start..end, handle }
    }
}
