//! The cache of memory that peers pin for this side.
//!
//! The owner pins, on request: a *move* names a range to pin and regions to unpin before. One table for all peers:
//! its limits are shared by use, and a peer that is never named costs nothing.

use core::ops::Range;

use super::regions::{Gone, InUse, Lease, Limits, Refused, Regions};
use super::slot::{Slot, State};

/// Regions that one move unpins, at most.
pub const MOVES: usize = 4;

/// A region that its owner is to unpin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpin {
    /// Whose memory it is.
    pub peer: u32,
    /// The region.
    pub range: Range<u64>,
    /// What the owner answered when it pinned it.
    pub handle: u64,
}

/// What is to be sent: to each owner what it unpins, and behind that to one what it pins. Owners do both in this order.
#[derive(Debug, PartialEq, Eq)]
pub struct Move {
    /// To unpin, without gaps.
    pub unpin: [Option<Unpin>; MOVES],
    /// To pin, at the peer that was named; the answer is for [`Remote::moved`]. Without, the caller asks again: there
    /// was more to unpin than fits.
    pub pin: Option<Moving>,
}

/// A region that an owner was asked to pin.
#[must_use = "its answer makes a lease of it"]
#[derive(Debug, PartialEq, Eq)]
pub struct Moving(Lease);

impl Moving {
    /// What to pin.
    pub fn range(&self) -> Range<u64> {
        self.0.range()
    }
}

/// What [`Remote::acquire`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The range is pinned.
    Lease(Lease),
    /// It will be: this is to be sent first.
    Move(Move),
}

/// Pinned memory of peers (see the module).
pub struct Remote<'m> {
    regions: Regions<'m, u64>,
}

impl<'m> Remote<'m> {
    /// An empty cache with room for so many regions, at most 65,534.
    ///
    /// # Panics
    ///
    /// If a page is no power of two, or there are more slots.
    pub fn new(limits: Limits, slots: &'m mut [Slot<u64>]) -> Self {
        Self { regions: Regions::new(limits, slots) }
    }

    /// A lease on all of a range of `peer`, or what has to be sent for it. While a move for some of the range is under
    /// way, it is [`Refused::Full`].
    pub fn acquire(&mut self, peer: u32, range: Range<u64>) -> Result<Acquired, Refused> {
        let pages = self.regions.pages(&range)?;
        if let Some(at) = self.regions.find(peer, &pages) {
            if self.regions.slots[usize::from(at)].state == State::Moving {
                return Err(Refused::Full);
            }
            return self.regions.lease(at).map(Acquired::Lease).ok_or(Refused::Full);
        }
        let pages = self.regions.merged(peer, pages);
        let mut unpin = [const { None }; MOVES];
        for room in &mut unpin {
            match self.regions.victim(peer, &pages) {
                Ok(Some(at)) => *room = Self::unpinned(self.regions.remove(at)),
                // What left before is to be sent all the same.
                Ok(None) | Err(_) => break,
            }
        }
        match self.regions.victim(peer, &pages) {
            Ok(None) => {
                let pin = Some(Moving(self.regions.insert(peer, pages, None)));
                Ok(Acquired::Move(Move { unpin, pin }))
            }
            Err(refused) if unpin[0].is_none() => Err(refused),
            _ => Ok(Acquired::Move(Move { unpin, pin: None })),
        }
    }

    /// A lease on all of a range of `peer`, if it is pinned.
    pub fn try_acquire(&mut self, peer: u32, range: Range<u64>) -> Option<Lease> {
        let pages = self.regions.pages(&range).ok()?;
        let at = self.regions.find(peer, &pages)?;
        if self.regions.slots[usize::from(at)].state == State::Moving {
            return None;
        }
        self.regions.lease(at)
    }

    /// The owner answered: with a handle, or that it does not pin this.
    pub fn moved(&mut self, moving: Moving, handle: Option<u64>) -> Result<Lease, Refused> {
        let Moving(lease) = moving;
        let slot = self.regions.slots.get_mut(usize::from(lease.slot)).ok_or(Refused::Pin)?;
        if handle.is_none() {
            self.regions.remove(lease.slot);
            return Err(Refused::Pin);
        }
        (slot.handle, slot.state) = (handle, State::Live);
        Ok(lease)
    }

    /// What the owner answered when it pinned the region.
    pub fn handle(&self, lease: &Lease) -> Option<u64> {
        self.regions.slots.get(usize::from(lease.slot))?.handle
    }

    /// Ends a lease. A region that a larger one has taken the place of is to be unpinned by its owner.
    pub fn release(&mut self, lease: Lease) -> Option<Unpin> {
        self.regions.release(&lease).and_then(Self::unpinned)
    }

    /// Forgets a region with some of a range of `peer`, because its owner gives the memory back to the system: what the
    /// owner is to unpin. It is called until there is none. All of it is left as it is if some is under a lease, or is
    /// being pinned.
    pub fn invalidate(&mut self, peer: u32, range: Range<u64>) -> Result<Option<Unpin>, InUse> {
        let at = self.regions.overlapping(peer, &range)?;
        Ok(at.and_then(|at| Self::unpinned(self.regions.remove(at))))
    }

    /// Bytes pinned, or asked for.
    pub fn pinned(&self) -> u64 {
        self.regions.pinned()
    }

    fn unpinned(gone: Gone<u64>) -> Option<Unpin> {
        let Gone { space, range, handle } = gone;
        handle.map(|handle| Unpin { peer: space, range, handle })
    }
}
