//! Registered memory at the host.

use super::{FabricError, Inner, LIMIT};
use crate::ids::{MrId, Remote};
use crate::wire::{Access, Kind, Object};
use hamr_comm::abi::window::{Shared, Window};
use std::sync::Arc;

/// Registered memory. It stays until it is deregistered, or as long as its adapter.
pub struct Region {
    pub(super) inner: Arc<Inner>,
    pub(super) id: MrId,
    pub(super) object: Object,
}

impl Region {
    /// Its name, for handlers.
    pub fn id(&self) -> MrId {
        self.id
    }

    /// Its byte `at`, for the requests of peers.
    pub fn remote(&self, at: u64) -> Remote {
        Remote { addr: self.object.iova, rkey: self.object.lkey }.at(at)
    }

    /// Ends the region: when this returns, no adapter accesses it any more, and handlers find it stale. Its memory is
    /// used again when no handler has it open, or, of one with [`Access::VIEW`], not in this epoch.
    ///
    /// # Errors
    /// Its adapter is closed.
    pub fn deregister(self) -> Result<(), FabricError> {
        self.inner.destroy(Kind::REGION, self.id.name())
    }

    /// Copies bytes in. It has no order with messages.
    ///
    /// # Errors
    /// They leave the region; handlers view it; its adapter is closed.
    pub fn put(&self, at: u64, from: &[u8]) -> Result<(), FabricError> {
        if self.object.access.has(Access::VIEW) {
            return Err(FabricError::Viewed);
        }
        self.access(at, from.len(), |section, off| Ok(section.write_bytes(off, from)?))
    }

    /// Copies bytes out, likewise: also of a region that a handler has a view of, and may be writing.
    ///
    /// # Errors
    /// They leave the region; its adapter is closed.
    pub fn get(&self, at: u64, to: &mut [u8]) -> Result<(), FabricError> {
        self.access(at, to.len(), |section, off| Ok(section.read_bytes(off, to)?))
    }

    fn access(
        &self,
        at: u64,
        len: usize,
        copy: impl FnOnce(&Window<Shared>, u64) -> Result<(), FabricError>,
    ) -> Result<(), FabricError> {
        let wanted = at.saturating_add(len as u64);
        if wanted > self.object.len {
            return Err(FabricError::Limit { what: "bytes of the region", most: self.object.len, wanted });
        }
        let ends = self.inner.lock(LIMIT)?;
        copy(&ends.as_ref().ok_or(FabricError::Lost)?.section, self.object.off + at)
    }
}
