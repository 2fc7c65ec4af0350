//! Memory of the device, managed by the host: who owns what, and which calls still name it.
//!
//! Every buffer has a record: place, generation, and how many calls without a reply name it. A
//! pointer is checked against its record wherever it is used, so a freed, foreign or overlong one
//! is an error and never a write. A buffer dropped while calls name it is freed after the last of
//! them has its reply, at the next access to the heap.
//!
//! Counting costs a call no locked instruction: that would wait for the data just put to reach
//! memory before the request may follow it. The first stream that uses a record counts in a word
//! that no other stream ever writes; other streams share a second one. The counts belong to the
//! record: they are never reset, so each use is subtracted from the word that counted it.
//!
//! A drop on one thread beside a submission on another, with nothing ordering the two, ends in one
//! of two ways:
//!
//! - The submission sees the drop when it loads the generation again after its count. It subtracts
//!   the count and is refused. The record may be another buffer's by then, which is busy for that
//!   moment.
//! - The submission does not see it, because its count is still on its way to memory. Then the
//!   buffer may be freed under this call, as if it had been dropped before. If the record is
//!   another buffer's by then, that one is busy until the call is answered.
//!
//! In neither case is a count left behind, and no call of another stream loses its own.

mod bias;
mod copying;
mod heap;
mod hook;
mod ranges;
mod record;
mod submitted;
mod transfers;

pub(crate) use bias::register as register_barrier;
pub use heap::{FarHeap, Heap};
pub use hook::{MemoryChange, MemoryEvent, MemoryHook};
pub use ranges::Ranges;
pub(crate) use record::Record;
pub(crate) use submitted::Submitted;
pub(crate) use transfers::End;

use crate::node_number::NodeNumber;
use crate::{BufferError, Error};
use hamr_comm::abi::buffer::{BufferParts, WireBuffer};
use hamr_comm::abi::ids::NodeId;
use hamr_comm::abi::section::Section;
use hamr_comm::abi::window::Words;
use hamr_comm::{BufferPtr, Element};
use record::{LIVE, freed};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// Buffers start at multiples of a cache line: two of them never share one.
const ALIGN: u64 = 64;

/// No device has this number: a copy of the process has no buffer of one.
const NO_NODE: u16 = u16::MAX;
const _: () = assert!(NO_NODE > NodeId::MAX.0);

pub(crate) struct DeviceMemory {
    /// The device's, or [`NO_NODE`].
    node: AtomicU16,
    /// Kept as long as a buffer is: another device's memory does not take this one's pointers.
    _number: NodeNumber,
    device: String,
    heap: Section,
    /// The heap, for `transfers`: each reaches it with the lock of its records.
    copies: Heap,
    /// Up to where long puts have reached: pages behind it were hardly used.
    used: AtomicU64,
    records: Box<[Record]>,
    /// Counts [`Self::lose`].
    losses: AtomicU64,
    hook: RwLock<Option<MemoryHook>>,
    state: Mutex<State>,
}

struct State {
    ranges: Ranges,
    // First in, first out: a record stays unused as long as possible before its generation is used
    // again.
    free: VecDeque<u32>,
    free_bytes: u64,
    /// Dropped by their owners while calls named them.
    deferred: Vec<u32>,
}

/// A range of the heap, by record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) index: u32,
    pub(crate) generation: u16,
    /// From the start of the heap.
    pub(crate) off: u64,
    pub(crate) bytes: u64,
}

impl DeviceMemory {
    pub(crate) fn new(
        number: NodeNumber,
        device: &str,
        copies: Heap,
        heap: Section,
        max_buffers: u32,
        hook: Option<MemoryHook>,
    ) -> Self {
        let records = (0..max_buffers.clamp(1, WireBuffer::MAX_INDEX)).map(|_| Record::new()).collect::<Box<[_]>>();
        let state = State {
            ranges: Ranges::new(heap.len),
            free: (0..records.len() as u32).collect(),
            free_bytes: heap.len,
            deferred: Vec::new(),
        };
        Self {
            node: AtomicU16::new(number.id().0),
            _number: number,
            device: device.into(),
            heap,
            copies,
            used: AtomicU64::new(0),
            records,
            losses: AtomicU64::new(0),
            hook: RwLock::new(hook),
            state: Mutex::new(state),
        }
    }

    /// The lock, after freeing what no call names any more.
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before the lock is released, also when a panic unwinds through
        // it.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.deferred.is_empty() {
            let waiting = std::mem::take(&mut state.deferred);
            for index in waiting {
                match self.records.get(index as usize) {
                    Some(record) if record.is_in_use() => state.deferred.push(index),
                    Some(record) => self.free(&mut state, index, record),
                    None => {}
                }
            }
        }
        state
    }

    pub(crate) fn heap_len(&self) -> u64 {
        self.heap.len
    }

    /// Bytes not allocated.
    pub(crate) fn free_bytes(&self) -> u64 {
        if self.is_forgotten() {
            return 0;
        }
        self.state().free_bytes
    }

    /// Buffers allocated.
    pub(crate) fn live(&self) -> usize {
        if self.is_forgotten() {
            return 0;
        }
        self.records.len() - self.state().free.len()
    }

    pub(crate) fn allocate(&self, bytes: u64) -> Result<Block, Error> {
        if self.is_forgotten() {
            return Err(Error::TooManyBuffers { device: self.device.clone(), limit: 0 });
        }
        let size = bytes.max(1).checked_next_multiple_of(ALIGN);
        let mut state = self.state();
        let full = |state: &State| Error::OutOfMemory {
            device: self.device.clone(),
            wanted: bytes,
            free: state.free_bytes,
            total: self.heap.len,
            deferred: state.deferred.iter().filter_map(|i| self.bytes_of(*i)).sum(),
        };
        let Some(size) = size.filter(|size| *size <= self.heap.len) else { return Err(full(&state)) };
        let Some(index) = state.free.pop_front() else {
            return Err(Error::TooManyBuffers { device: self.device.clone(), limit: self.records.len() as u32 });
        };
        let Some(range) = state.ranges.allocate(size) else {
            state.free.push_front(index);
            return Err(full(&state));
        };
        state.free_bytes -= size;
        let Some(record) = self.records.get(index as usize) else { return Err(full(&state)) };
        let generation = record.generation.load(Ordering::Relaxed) as u16;
        record.off.store(range.start, Ordering::Relaxed);
        record.bytes.store(bytes, Ordering::Relaxed);
        record.generation.store(u32::from(generation) | LIVE, Ordering::Release);
        Ok(Block { index, generation, off: range.start, bytes })
    }

    fn bytes_of(&self, index: u32) -> Option<u64> {
        self.records.get(index as usize).map(|r| r.bytes.load(Ordering::Relaxed))
    }

    /// The owner drops the buffer. Freed now, or after the last call that names it has its reply
    /// and the last transfer has ended.
    pub(crate) fn release(&self, index: u32) {
        let Some(record) = self.records.get(index as usize).filter(|_| !self.is_forgotten()) else { return };
        // SeqCst, as are the load of the lock below, the locking of a transfer and its second load
        // of the generation (`Record::still`): either the transfer sees that the buffer is gone, or
        // this thread sees the transfer. One by a bias it sees behind the barrier that takes the bias.
        record.drop_owner();
        let mut state = self.state();
        if record.is_in_use() {
            state.deferred.push(index);
        } else {
            self.free(&mut state, index, record);
        }
    }

    fn free(&self, state: &mut State, index: u32, record: &Record) {
        let off = record.off.load(Ordering::Relaxed);
        let size = record.bytes.load(Ordering::Relaxed).max(1).next_multiple_of(ALIGN);
        let generation = record.generation.load(Ordering::Relaxed) as u16;
        record.generation.store(u32::from(generation.wrapping_add(1)), Ordering::Release);
        state.ranges.free(off..off + size);
        state.free.push_back(index);
        state.free_bytes += size;
    }

    /// Was the buffer dropped, and calls that named it are not answered?
    pub(crate) fn is_awaited(&self, p: BufferParts) -> bool {
        let record = self.records.get(p.index as usize);
        record.is_some_and(|record| {
            record.generation.load(Ordering::Acquire) as u16 == p.generation && record.is_in_use()
        })
    }

    /// Checks that a pointer names a live buffer of this device and that `bytes` from its offset
    /// lie in it.
    #[inline(always)]
    fn record(&self, p: BufferParts, bytes: u64) -> Result<&Record, BufferError> {
        self.find(p, bytes).ok_or_else(|| self.why_not(p, bytes))
    }

    /// [`Self::record`] without the reason why there is none.
    #[inline(always)]
    fn find(&self, p: BufferParts, bytes: u64) -> Option<&Record> {
        if p.node != self.node() {
            return None;
        }
        let record = self.records.get(p.index as usize)?;
        if !record.is_of(p) {
            return None;
        }
        // The pointer's offset is absolute in the heap; its distance from the record's start counts
        // against its bytes. Before the start it wraps, and is more than any record has.
        let skip = p.off.wrapping_sub(record.off.load(Ordering::Relaxed));
        let has = record.bytes.load(Ordering::Relaxed);
        if skip > has {
            // Where this is not stated, the two comparisons become one of more instructions.
            std::hint::cold_path();
            return None;
        }
        (bytes <= has - skip).then_some(record)
    }

    /// Why [`Self::find`] finds nothing.
    #[cold]
    #[inline(never)]
    fn why_not(&self, p: BufferParts, bytes: u64) -> BufferError {
        if p.node != self.node() {
            return BufferError::Foreign { owner: p.node.0, here: self.node().0 };
        }
        match self.records.get(p.index as usize).filter(|record| record.is_of(p)) {
            Some(record) => {
                let skip = p.off.saturating_sub(record.off.load(Ordering::Relaxed));
                BufferError::Overrun { wanted: skip.saturating_add(bytes), has: record.bytes.load(Ordering::Relaxed) }
            }
            None => self.records.get(p.index as usize).map_or_else(|| freed(p), |record| record.why_not(p)),
        }
    }

    /// In a copy of the process: from now on no pointer is of this memory, so that the device is asked why.
    pub(crate) fn forget(&self) {
        self.node.store(NO_NODE, Ordering::Relaxed);
    }

    #[inline(always)]
    fn node(&self) -> NodeId {
        NodeId(self.node.load(Ordering::Relaxed))
    }

    /// Is it of the process that this one is a copy of? Then its lock may be taken for good, by a thread that is not here.
    fn is_forgotten(&self) -> bool {
        self.node.load(Ordering::Relaxed) == NO_NODE
    }

    /// The device has other memory: no buffer has what was put into it.
    pub(crate) fn lose(&self) {
        // Before the marks, one of which a put may be about to take away.
        self.losses.fetch_add(1, Ordering::SeqCst);
        self.records.iter().for_each(Record::lose);
    }

    /// Does a pointer name a live buffer, also while calls name it?
    pub(crate) fn check_live<T: Element>(&self, ptr: BufferPtr<T>) -> Result<(), BufferError> {
        self.record(ptr.parts(), ptr.bytes()).map(|_| ())
    }

    /// The words of a buffer, also while calls name it: they are atomics.
    pub(crate) fn words(&self, of: BufferPtr<u32>) -> Result<Words<'_>, BufferError> {
        self.record(of.parts(), of.bytes())?;
        self.copies.words(of.parts().off, of.len() as u64)
    }

    /// A call of stream `stream` that names the buffer is about to be sent. What comes back names
    /// the record for [`Self::end_use`].
    pub(crate) fn begin_use(&self, wire: WireBuffer, bytes: u64, stream: u32) -> Result<u32, BufferError> {
        let p = wire.unpack();
        let record = self.record(p, bytes)?;
        record.count(p, stream).map(|_| p.index).ok_or_else(|| record.why_not(p))
    }

    /// [`Self::begin_use`] without the reason for a refusal; [`Record::end_use`] ends it.
    #[inline(always)]
    pub(crate) fn begin_use_at_once(&self, wire: WireBuffer, bytes: u64, stream: u32) -> Option<&Record> {
        let p = wire.unpack();
        self.find(p, bytes)?.count(p, stream)
    }

    /// [`Self::begin_use_at_once`] of a call that is sent with `len` bytes of data for the front of
    /// the buffer, of which the pointer names `room` bytes. Refused, as a put is, while calls or
    /// transfers use the buffer: [`Self::find`] sees those that are submitted.
    #[inline(always)]
    pub(crate) fn begin_put_at_once(&self, wire: WireBuffer, room: u64, len: u64, stream: u32) -> Option<&Record> {
        let p = wire.unpack();
        let record = self.find(p, room)?;
        if len > room || record.is_busy() {
            return None;
        }
        record.count(p, stream)
    }

    /// That call was answered.
    pub(crate) fn end_use(&self, index: u32, stream: u32) {
        if let Some(record) = self.records.get(index as usize) {
            record.end_use(stream);
        }
    }

    /// What names a record of this memory for [`Self::end_use`].
    pub(crate) fn index_of(&self, record: &Record) -> u32 {
        // Every record has an index that fits: there are at most MAX_INDEX.
        self.records.element_offset(record).map_or(u32::MAX, |index| index as u32)
    }

    pub(crate) fn pointer<T: Element>(&self, block: Block, len: usize) -> BufferPtr<T> {
        BufferPtr::from_wire(WireBuffer::pack(BufferParts {
            off: block.off,
            index: block.index,
            len: len as u64,
            generation: block.generation,
            node: self.node(),
        }))
    }

    /// Name of the device.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }
}

#[cfg(test)]
mod tests;
