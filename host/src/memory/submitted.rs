//! Buffers of transfers that were submitted and that another thread makes.

use super::DeviceMemory;
use super::record::{Record, freed};
use super::transfers::{End, lock_both};
use crate::BufferError;
use hamr_comm::{BufferPtr, Element};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One end of a submitted transfer: bytes of a buffer, which is in use until this is dropped.
pub(crate) struct Submitted {
    memory: Arc<DeviceMemory>,
    index: u32,
    /// From the start of the heap.
    off: u64,
    bytes: u64,
}

impl DeviceMemory {
    /// Submits a transfer of the first `bytes` of what a pointer names. Refused while a call in
    /// flight names the buffer; other submitted transfers of it may be there.
    pub(crate) fn submit<T: Element>(
        self: &Arc<Self>,
        ptr: BufferPtr<T>,
        bytes: u64,
    ) -> Result<Submitted, BufferError> {
        let p = ptr.parts();
        if p.node != self.node() {
            return Err(BufferError::Foreign { owner: p.node.0, here: self.node().0 });
        }
        let record = self.records.get(p.index as usize).ok_or_else(|| freed(p))?;
        record.begin_transfer(p)?;
        // Ends the transfer if it is refused below.
        let submitted = Submitted { memory: self.clone(), index: p.index, off: p.off, bytes };
        // From here on the record is this buffer's: its place does not change.
        let (off, has) = (record.off.load(Ordering::Relaxed), record.bytes.load(Ordering::Relaxed));
        let room = p.off.checked_sub(off).and_then(|skip| has.checked_sub(skip)).filter(|room| ptr.bytes() <= *room);
        if room.is_none() {
            let wanted = p.off.saturating_sub(off).saturating_add(ptr.bytes());
            return Err(BufferError::Overrun { wanted, has });
        }
        if bytes > ptr.bytes() {
            return Err(BufferError::Overrun { wanted: bytes, has: ptr.bytes() });
        }
        if record.is_named() {
            return Err(BufferError::Busy);
        }
        // Another thread makes the copy.
        record.copying.unbias();
        Ok(submitted)
    }
}

impl Submitted {
    fn record(&self) -> Result<&Record, BufferError> {
        let none = BufferError::Overrun { wanted: u64::from(self.index), has: self.memory.records.len() as u64 };
        self.memory.records.get(self.index as usize).ok_or(none)
    }

    /// Copies `from` to its front.
    pub(crate) fn write(&self, from: &[u8]) -> Result<(), BufferError> {
        self.check(from)?;
        let _writing = self.record()?.copying.write()?;
        self.memory.provide(self.off, from.len() as u64);
        self.memory.copies.write_bytes(self.off, from)?;
        self.record()?.is_kept()
    }

    /// Copies its front to `to`.
    pub(crate) fn read(&self, to: &mut [u8]) -> Result<(), BufferError> {
        self.check(to)?;
        let _reading = self.record()?.copying.read()?;
        self.memory.copies.read_bytes(self.off, to)?;
        self.record()?.is_kept()
    }

    /// Copies it to another one of as many bytes, of this device or another.
    pub(crate) fn copy_to(&self, to: &Self) -> Result<(), (End, BufferError)> {
        let source = self.record().map_err(|why| (End::Source, why))?;
        let target = to.record().map_err(|why| (End::Target, why))?;
        let locks = lock_both((self.memory.node(), source, self.index), (to.memory.node(), target, to.index));
        let _locks = locks.map_err(|why| (End::Source, why.into()))?;
        let copied = match Arc::ptr_eq(&self.memory, &to.memory) {
            true => self.memory.copies.copy_within(self.off, to.off, self.bytes),
            false => self.memory.copies.copy_to(self.off, &to.memory.copies, to.off, self.bytes),
        };
        copied.map_err(|why| (End::Target, why))?;
        source.is_kept().map_err(|why| (End::Source, why))?;
        target.is_kept().map_err(|why| (End::Target, why))
    }

    /// The program's memory was as long when the transfer was submitted, unless its type lies.
    fn check(&self, memory: &[u8]) -> Result<(), BufferError> {
        let wanted = memory.len() as u64;
        if wanted > self.bytes { Err(BufferError::Overrun { wanted, has: self.bytes }) } else { Ok(()) }
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        if let Ok(record) = self.record() {
            record.end_transfer();
        }
    }
}
