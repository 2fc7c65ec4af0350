//! The cache of memory that this side pins.

use core::ops::Range;

use super::regions::{Gone, InUse, Lease, Limits, Refused, Regions};
use super::slot::Slot;

/// The system does not pin this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinError;

/// What pins memory.
///
/// Ranges are whole pages. They may overlap: a page in two ranges stays pinned until both are unpinned.
pub trait Pinner {
    /// What a transfer needs of a pinned range.
    type Handle: Copy;

    /// Pins a range.
    fn pin(&mut self, range: Range<u64>) -> Result<Self::Handle, PinError>;

    /// Unpins a range, as it was pinned.
    fn unpin(&mut self, range: Range<u64>, handle: Self::Handle);
}

/// Pinned memory of this side (see the module above).
pub struct Cache<'m, P: Pinner> {
    regions: Regions<'m, P::Handle>,
    pinner: P,
}

impl<'m, P: Pinner> Cache<'m, P> {
    /// An empty cache with room for so many regions, at most 65,534.
    ///
    /// # Panics
    ///
    /// If a page is no power of two, or there are more slots.
    pub fn new(pinner: P, limits: Limits, slots: &'m mut [Slot<P::Handle>]) -> Self {
        Self { regions: Regions::new(limits, slots), pinner }
    }

    /// A lease on all of a range, which is pinned if it is not.
    pub fn acquire(&mut self, range: Range<u64>) -> Result<Lease, Refused> {
        let pages = self.regions.pages(&range)?;
        if let Some(at) = self.regions.find(0, &pages) {
            return self.regions.lease(at).ok_or(Refused::Full);
        }
        let pages = self.regions.merged(0, pages);
        while let Some(at) = self.regions.victim(0, &pages)? {
            let gone = self.regions.remove(at);
            self.unpin(gone);
        }
        let handle = self.pinner.pin(pages.clone()).map_err(|PinError| Refused::Pin)?;
        Ok(self.regions.insert(0, pages, Some(handle)))
    }

    /// A lease on all of a range, if it is pinned.
    pub fn try_acquire(&mut self, range: Range<u64>) -> Option<Lease> {
        let pages = self.regions.pages(&range).ok()?;
        let at = self.regions.find(0, &pages)?;
        self.regions.lease(at)
    }

    /// A lease on the region with the lowest pinned page of a range, and the part of the range that is in it.
    pub fn acquire_partial(&mut self, range: Range<u64>) -> Option<(Range<u64>, Lease)> {
        if range.is_empty() {
            return None;
        }
        let at = self.regions.first(0, &range)?;
        let lease = self.regions.lease(at)?;
        let pinned = lease.range();
        Some((range.start.max(pinned.start)..range.end.min(pinned.end), lease))
    }

    /// What a transfer needs of the region.
    pub fn handle(&self, lease: &Lease) -> Option<P::Handle> {
        self.regions.slots.get(usize::from(lease.slot))?.handle
    }

    /// Ends a lease.
    pub fn release(&mut self, lease: Lease) {
        if let Some(gone) = self.regions.release(&lease) {
            self.unpin(gone);
        }
    }

    /// Forgets a range, because its memory goes back to the system. All of it is left as it is if some is under a
    /// lease.
    pub fn invalidate(&mut self, range: Range<u64>) -> Result<(), InUse> {
        while let Some(at) = self.regions.overlapping(0, &range)? {
            let gone = self.regions.remove(at);
            self.unpin(gone);
        }
        Ok(())
    }

    /// Bytes pinned; pages of overlapping regions count for each.
    pub fn pinned(&self) -> u64 {
        self.regions.pinned()
    }

    /// What pins.
    pub fn pinner(&self) -> &P {
        &self.pinner
    }

    /// Unpins everything, whatever leases there are.
    pub fn unpin_all(mut self) -> P {
        while let Some(at) = self.regions.any() {
            let gone = self.regions.remove(at);
            self.unpin(gone);
        }
        self.pinner
    }

    fn unpin(&mut self, gone: Gone<P::Handle>) {
        if let Some(handle) = gone.handle {
            self.pinner.unpin(gone.range, handle);
        }
    }
}
