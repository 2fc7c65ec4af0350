//! Transfers: puts, gets and copies of what pointers name, each with the lock of its records.
//!
//! Each form looks for the record first, locks it, and looks again: the buffer may have been dropped meanwhile. A short
//! one of a buffer that one thread uses goes by a bias ([`DeviceMemory::put_by_bias`]), else by a locked instruction
//! ([`DeviceMemory::put_at_once`]); what these leave, [`DeviceMemory::put`] does, or says why not. Bodies on the host copy
//! what their device lent them, and long messages are in blocks that only they use.

use super::bias::NoBarrier;
use super::copying::{Reading, Writing};
use super::{Block, DeviceMemory, Record};
use crate::BufferError;
use crate::mapping::provide_pages;
use hamr_comm::abi::buffer::BufferParts;
use hamr_comm::abi::ids::NodeId;
use hamr_comm::abi::window::{CopyError, STREAMED};
use hamr_comm::migrate::NamedBuffer;
use hamr_comm::{BufferPtr, Element};
use std::sync::atomic::Ordering;

/// The longest copy by a bias, for which another thread waits while the bias is taken. What a lock costs is little of a
/// longer one.
pub(super) const SHORT: usize = 4096;
/// The shortest put for which the system is asked for pages that were never used.
pub(super) const PROVIDED: u64 = 64 << 10;

/// Which end of a copy between two devices an error is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Source,
    Target,
}

impl DeviceMemory {
    /// Copies `from` to the front of what `to` names, unless a call in flight names it.
    pub(crate) fn put<T: Element>(&self, from: &[T], to: BufferPtr<T>) -> Result<(), BufferError> {
        self.try_put(from, to).or_else(|why| self.put_anew(from, to, why))
    }

    /// Of a buffer that was lost, all of it.
    #[cold]
    fn put_anew<T: Element>(&self, from: &[T], to: BufferPtr<T>, why: BufferError) -> Result<(), BufferError> {
        let (p, bytes) = (to.parts(), size_of_val(from) as u64);
        let record = self.records.get(p.index as usize).filter(|_| why == BufferError::Lost).ok_or(why)?;
        if (p.off, bytes) != (record.off.load(Ordering::Relaxed), record.bytes.load(Ordering::Relaxed)) {
            return Err(BufferError::Lost);
        }
        if record.is_named() {
            return Err(BufferError::Busy);
        }
        let _writing = record.copying.write()?;
        let losses = self.losses.load(Ordering::SeqCst);
        record.still_lost(p)?;
        self.copies.write_bytes(p.off, bytemuck::cast_slice(from))?;
        record.find_again();
        if self.losses.load(Ordering::SeqCst) != losses {
            record.lose();
            return Err(BufferError::Lost);
        }
        Ok(())
    }

    fn try_put<T: Element>(&self, from: &[T], to: BufferPtr<T>) -> Result<(), BufferError> {
        let record = self.free_record(to, size_of_val(from) as u64)?;
        let _writing = record.copying.write()?;
        record.still(to.parts())?;
        self.provide(to.parts().off, size_of_val(from) as u64);
        self.copies.write_bytes(to.parts().off, bytemuck::cast_slice(from))?;
        // Other memory may have come in between.
        record.is_kept()
    }

    /// [`Self::put`] of at most [`SHORT`] bytes by a bias. `None`: nothing was copied, and the others copy, wait or find the reason.
    /// Its caller compiles to few instructions, since no reason is made and nothing is called.
    #[inline(always)]
    pub(crate) fn put_by_bias<T: Element>(&self, from: &[T], to: BufferPtr<T>) -> Option<()> {
        if size_of_val(from) > SHORT {
            std::hint::cold_path();
            return None;
        }
        let heap = self.copies.ungated()?;
        let record = self.find_free(to, size_of_val(from) as u64)?;
        let _held = record.copying.by_bias()?;
        if !record.is_still(to.parts()) {
            return None;
        }
        heap.write_bytes(to.parts().off, bytemuck::cast_slice(from)).ok()
    }

    /// [`Self::put`] of less than [`STREAMED`] bytes, likewise, by a locked instruction, behind which a bias may be given.
    #[inline]
    pub(crate) fn put_at_once<T: Element>(&self, from: &[T], to: BufferPtr<T>) -> Option<()> {
        if size_of_val(from) >= STREAMED {
            return None;
        }
        let heap = self.copies.ungated()?;
        let record = self.find_free(to, size_of_val(from) as u64)?;
        {
            let _writing = record.copying.write_at_once()?;
            if !record.is_still(to.parts()) {
                return None;
            }
            self.provide(to.parts().off, size_of_val(from) as u64);
            heap.write_bytes(to.parts().off, bytemuck::cast_slice(from)).ok()?;
        }
        if size_of_val(from) <= SHORT {
            record.copying.bias();
        }
        Some(())
    }

    /// Has the system provide pages of a range that is about to be written, as far as no put has reached yet.
    pub(super) fn provide(&self, off: u64, bytes: u64) {
        let used = self.used.load(Ordering::Relaxed);
        if bytes < PROVIDED || off + bytes <= used {
            return;
        }
        self.used.fetch_max(off + bytes, Ordering::Relaxed);
        let from = off.max(used);
        let rest = off + bytes - from;
        if let Some(address) = self.copies.address(from, rest) {
            provide_pages(address, rest as usize);
        }
    }

    /// Copies the front of what `from` names to `to`, unless a call in flight names it.
    pub(crate) fn get<T: Element>(&self, from: BufferPtr<T>, to: &mut [T]) -> Result<(), BufferError> {
        let record = self.free_record(from, size_of_val(to) as u64)?;
        let _reading = record.copying.read()?;
        record.still(from.parts())?;
        self.copies.read_bytes(from.parts().off, bytemuck::cast_slice_mut(to))?;
        // Other memory may have come in between.
        record.is_kept()
    }

    /// [`Self::get`], as [`Self::put_by_bias`].
    #[inline(always)]
    pub(crate) fn get_by_bias<T: Element>(&self, from: BufferPtr<T>, to: &mut [T]) -> Option<()> {
        if size_of_val(to) > SHORT {
            std::hint::cold_path();
            return None;
        }
        let heap = self.copies.ungated()?;
        let record = self.find_free(from, size_of_val(to) as u64)?;
        let _held = record.copying.by_bias()?;
        if !record.is_still(from.parts()) {
            return None;
        }
        heap.read_bytes(from.parts().off, bytemuck::cast_slice_mut(to)).ok()
    }

    /// [`Self::get`], as [`Self::put_at_once`].
    #[inline]
    pub(crate) fn get_at_once<T: Element>(&self, from: BufferPtr<T>, to: &mut [T]) -> Option<()> {
        let heap = self.copies.ungated()?;
        let record = self.find_free(from, size_of_val(to) as u64)?;
        {
            let _reading = record.copying.read_at_once()?;
            if !record.is_still(from.parts()) {
                return None;
            }
            heap.read_bytes(from.parts().off, bytemuck::cast_slice_mut(to)).ok()?;
        }
        if size_of_val(to) <= SHORT {
            record.copying.bias();
        }
        Some(())
    }

    /// Copies all of what `from` names to the front of what `to` names, unless a call in flight
    /// names one of them.
    pub(crate) fn copy<T: Element>(&self, from: BufferPtr<T>, to: BufferPtr<T>) -> Result<(), BufferError> {
        let bytes = from.bytes();
        let (source, target) = (self.free_record(from, bytes)?, self.free_record(to, bytes)?);
        let _locks = lock_both((self.node(), source, from.parts().index), (self.node(), target, to.parts().index))?;
        source.still(from.parts())?;
        target.still(to.parts())?;
        self.copies.copy_within(from.parts().off, to.parts().off, bytes)?;
        source.is_kept()?;
        target.is_kept()
    }

    /// [`Self::copy`] into a buffer of another device. The error names the end that it is of.
    pub(crate) fn copy_to<T: Element>(
        &self,
        from: BufferPtr<T>,
        other: &Self,
        to: BufferPtr<T>,
    ) -> Result<(), (End, BufferError)> {
        let bytes = from.bytes();
        let source = self.free_record(from, bytes).map_err(|why| (End::Source, why))?;
        let target = other.free_record(to, bytes).map_err(|why| (End::Target, why))?;
        let locks = lock_both((self.node(), source, from.parts().index), (other.node(), target, to.parts().index));
        let _locks = locks.map_err(|why| (End::Source, why.into()))?;
        source.still(from.parts()).map_err(|why| (End::Source, why))?;
        target.still(to.parts()).map_err(|why| (End::Target, why))?;
        let copied = self.copies.copy_to(from.parts().off, &other.copies, to.parts().off, bytes);
        copied.map_err(|why| (End::Target, why))?;
        source.is_kept().map_err(|why| (End::Source, why))?;
        target.is_kept().map_err(|why| (End::Target, why))
    }

    /// The record of a pointer for a transfer of `bytes`, unless a call in flight names its buffer.
    fn free_record<T: Element>(&self, ptr: BufferPtr<T>, bytes: u64) -> Result<&Record, BufferError> {
        let record = self.record(ptr.parts(), ptr.bytes())?;
        if bytes > ptr.bytes() {
            return Err(BufferError::Overrun { wanted: bytes, has: ptr.bytes() });
        }
        if record.is_named() {
            return Err(BufferError::Busy);
        }
        Ok(record)
    }

    /// [`Self::free_record`] without the reason why there is none.
    #[inline(always)]
    fn find_free<T: Element>(&self, ptr: BufferPtr<T>, bytes: u64) -> Option<&Record> {
        let record = self.find(ptr.parts(), ptr.bytes())?;
        (bytes <= ptr.bytes() && !record.is_named()).then_some(record)
    }

    /// Copies the front of a buffer out that the device has lent to a body: calls may name it. Where the device is
    /// in this program, no handler runs meanwhile: one may have a view, also by a call that does not name it.
    pub(crate) fn read_lent(&self, from: NamedBuffer, to: &mut [u8]) -> Result<(), BufferError> {
        let (p, record) = self.lent(from, to.len() as u64)?;
        self.copies.alone(|copies| {
            let _reading = record.copying.read()?;
            record.still(p)?;
            copies.read_bytes(p.off, to)
        })
    }

    /// The same to its front.
    pub(crate) fn write_lent(&self, from: &[u8], to: NamedBuffer) -> Result<(), BufferError> {
        let (p, record) = self.lent(to, from.len() as u64)?;
        self.copies.alone(|copies| {
            let _writing = record.copying.write()?;
            record.still(p)?;
            copies.write_bytes(p.off, from)
        })
    }

    fn lent(&self, named: NamedBuffer, bytes: u64) -> Result<(BufferParts, &Record), BufferError> {
        let p = named.wire.unpack();
        let record = self.record(p, named.bytes)?;
        if bytes > named.bytes {
            return Err(BufferError::Overrun { wanted: bytes, has: named.bytes });
        }
        Ok((p, record))
    }

    /// Writes a long message, one piece after the other, into a block of its own.
    pub(crate) fn write_message(&self, to: &Block, pieces: [&[u8]; 2]) -> Result<(), BufferError> {
        let mut at = to.off;
        for piece in pieces {
            apart(|| self.copies.write_bytes(at, piece))?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Reads a long message out of a block of its own.
    pub(crate) fn read_message(&self, from: &Block, bytes: &mut [u8]) -> Result<(), BufferError> {
        apart(|| self.copies.read_bytes(from.off, bytes))?;
        self.records.get(from.index as usize).map_or(Err(BufferError::Lost), Record::is_kept)
    }
}

/// Copies a message, whose block is no buffer of the program and in no view: also for a handler that uses another
/// stream of its own device, of whose thread the gate knows only that it runs a handler.
fn apart(mut copy: impl FnMut() -> Result<(), BufferError> + Send) -> Result<(), BufferError> {
    match copy() {
        Err(BufferError::Busy) => {
            std::thread::scope(|scope| scope.spawn(copy).join()).unwrap_or(Err(BufferError::Busy))
        }
        copied => copied,
    }
}

/// Locks the two ends of a copy, each a record of a node with its index. In their order: two threads
/// that copy between the same two buffers do not wait for each other.
pub(super) fn lock_both<'r>(
    source: (NodeId, &'r Record, u32),
    target: (NodeId, &'r Record, u32),
) -> Result<(Option<Reading<'r>>, Writing<'r>), NoBarrier> {
    let (read, write) = (|| source.1.copying.read().map(Some), || target.1.copying.write());
    Ok(match (source.0, source.2).cmp(&(target.0, target.2)) {
        std::cmp::Ordering::Less => {
            let reading = read()?;
            (reading, write()?)
        }
        // One buffer: writing alone excludes every other thread.
        std::cmp::Ordering::Equal => (None, write()?),
        std::cmp::Ordering::Greater => {
            let writing = write()?;
            (read()?, writing)
        }
    })
}

impl From<NoBarrier> for BufferError {
    fn from(NoBarrier: NoBarrier) -> Self {
        Self::NoBarrier
    }
}

/// Outside is what a copy cannot be, since the record was checked.
impl From<CopyError> for BufferError {
    #[cold]
    fn from(why: CopyError) -> Self {
        match why {
            CopyError::Outside(e) => Self::Overrun { wanted: e.want, has: e.len },
            CopyError::Busy => Self::Busy,
        }
    }
}
