//! Registered memory at the device: copies. There are no references into it, because the adapter writes there (docs/unsafe.md).

use crate::error::VerbsError;
use crate::ids::MrId;
use crate::memory::Memory;
use crate::verbs::Verbs;
use crate::wire::{Kind, Object, Sge};
use core::ops::Range;

/// A memory region, open for the time of a call (see the module).
pub struct MemoryRegion<'v, M: Memory> {
    verbs: &'v Verbs<'v, M>,
    object: Object,
}

impl<M: Memory> Verbs<'_, M> {
    /// Opens a memory region.
    ///
    /// # Errors
    /// [`VerbsError::Stale`], [`VerbsError::Corrupt`].
    pub fn region(&self, id: MrId) -> Result<MemoryRegion<'_, M>, VerbsError> {
        Ok(MemoryRegion { verbs: self, object: self.open(Kind::REGION, id.name())? })
    }
}

impl<M: Memory> MemoryRegion<'_, M> {
    /// Bytes of it.
    pub fn len(&self) -> u64 {
        self.object.len
    }

    /// It has no bytes.
    pub fn is_empty(&self) -> bool {
        self.object.len == 0
    }

    /// A part of it, for a work request.
    ///
    /// # Errors
    /// [`VerbsError::Length`].
    pub fn part(&self, range: Range<u64>) -> Result<Sge, VerbsError> {
        let len = range.end.checked_sub(range.start).filter(|_| range.end <= self.object.len);
        let len = len.and_then(|len| u32::try_from(len).ok()).ok_or(VerbsError::Length)?;
        Ok(Sge { addr: self.object.iova.wrapping_add(range.start), len, lkey: self.object.lkey })
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// [`VerbsError::Length`].
    pub fn copy_in(&self, at: u64, from: &[u8]) -> Result<(), VerbsError> {
        let off = self.place(at, from.len())?;
        Ok(self.verbs.memory.write_bytes(off, from)?)
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// [`VerbsError::Length`].
    pub fn copy_out(&self, at: u64, to: &mut [u8]) -> Result<(), VerbsError> {
        let off = self.place(at, to.len())?;
        Ok(self.verbs.memory.read_bytes(off, to)?)
    }

    /// Where so many bytes are in the section.
    fn place(&self, at: u64, len: usize) -> Result<u64, VerbsError> {
        let end = at.checked_add(len as u64).filter(|end| *end <= self.object.len);
        end.map(|_| self.object.off + at).ok_or(VerbsError::Length)
    }
}
