//! A resource that a task keeps across its waits.

use super::{CLAIMED, FREE, Resource, present, refused};
use crate::claims::Owner;
use crate::fault::Fault;
use core::sync::atomic::{AtomicU32, Ordering};

impl<T> Resource<T> {
    /// Keeps it for a task. The number is that of its range in the list.
    pub(crate) fn claim(&self, owner: &Owner<'_>) -> Result<(u16, Claimed<'_>), Fault> {
        let take = || self.take(FREE, CLAIMED).map_err(|holder| refused(holder, present()));
        Ok((owner.claim_resource(self.at(), take)?, Claimed(&self.holder)))
    }
}

/// A resource that a task keeps.
pub(crate) struct Claimed<'r>(&'r AtomicU32);

impl Claimed<'_> {
    /// The task keeps it no more, or is unwound. One that was poisoned meanwhile stays so.
    pub(crate) fn end(&self) {
        #[cfg(not(hamr_bare))]
        let free = if std::thread::panicking() { super::POISONED } else { FREE };
        #[cfg(hamr_bare)]
        let free = FREE;
        let _ = self.0.compare_exchange(CLAIMED, free, Ordering::Release, Ordering::Relaxed);
    }
}
