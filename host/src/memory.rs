//! Memory of the device, managed by the host: who owns what, and which calls still name it.
//!
//! Every buffer has a record: place, generation, and how many unanswered calls name it. A pointer is checked against its
//! record wherever it is used, so a freed, foreign or overlong one is an error and never a write. A buffer dropped while
//! calls name it is freed after the last of them is answered, by the next look at the heap.
//!
//! Counting costs a call no locked instruction: that would wait for the data just put to reach memory before the request
//! may follow it. The first stream that names a buffer counts in a word of its own; other streams share a second one.
//! The price: a buffer dropped on one thread while another submits a call that names it, with nothing ordering the two, may
//! be freed under that call, as if it had been dropped before.

use crate::node::NodeNumber;
use crate::{BufferError, Error, Node};
use hamr_comm::abi::buffer::{BufferParts, WireBuffer};
use hamr_comm::abi::ids::NodeId;
use hamr_comm::abi::section::Section;
use hamr_comm::abi::window::{Copies, OutOfWindow, Shared, Window};
use hamr_comm::{BufferPtr, Element};
use range_alloc::RangeAllocator;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Buffers start at multiples of a cache line: two of them never share one.
const ALIGN: u64 = 64;
/// The record holds a buffer that its owner still has. Above every generation.
const LIVE: u32 = 1 << 16;
/// No stream has named the buffer yet.
const NOBODY: u32 = u32::MAX;

pub(crate) struct Memory {
    node: NodeId,
    /// Kept as long as a buffer is: another device's memory does not take this one's pointers.
    _number: NodeNumber,
    device: String,
    heap: Section,
    /// The heap, for transfers.
    pub(crate) copies: Copies<Shared>,
    records: Box<[Record]>,
    state: Mutex<State>,
}

#[derive(Default)]
struct Record {
    /// Generation in the low 16 bits, LIVE above.
    generation: AtomicU32,
    /// The stream that counts in `own`: the first that named the buffer.
    first: AtomicU32,
    /// Unanswered calls of that stream that name the buffer; written by it alone.
    own: AtomicU32,
    /// The same of all other streams.
    others: AtomicU32,
    off: AtomicU64,
    bytes: AtomicU64,
}

struct State {
    ranges: RangeAllocator<u64>,
    // First in, first out: a record rests as long as possible before its generation is used again.
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

impl Memory {
    pub(crate) fn new(
        number: NodeNumber,
        device: &str,
        window: &Window<Shared>,
        heap: Section,
        max_buffers: u32,
    ) -> Result<Self, OutOfWindow> {
        let records = (0..max_buffers.clamp(1, WireBuffer::MAX_INDEX)).map(|_| Record::default()).collect::<Box<[_]>>();
        let state = State {
            ranges: RangeAllocator::new(0..heap.len),
            free: (0..records.len() as u32).collect(),
            free_bytes: heap.len,
            deferred: Vec::new(),
        };
        let copies = window.copies(heap.off, heap.len)?;
        Ok(Self {
            node: number.id(),
            _number: number,
            device: device.into(),
            heap,
            copies,
            records,
            state: Mutex::new(state),
        })
    }

    /// The lock, after freeing what no call names any more.
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before the lock is given back, also when a panic unwinds through it.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.deferred.is_empty() {
            let waiting = std::mem::take(&mut state.deferred);
            for index in waiting {
                match self.records.get(index as usize) {
                    Some(record) if record.is_named() => state.deferred.push(index),
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
        self.state().free_bytes
    }

    /// Buffers alive.
    pub(crate) fn live(&self) -> usize {
        self.records.len() - self.state().free.len()
    }

    pub(crate) fn allocate(&self, bytes: u64) -> Result<Block, Error> {
        let size = bytes.max(1).checked_next_multiple_of(ALIGN);
        let mut state = self.state();
        let full = |state: &State| Error::OutOfMemory {
            device: self.device.clone(),
            wanted: bytes,
            free: state.free_bytes,
            total: self.heap.len,
            deferred: state.deferred.iter().filter_map(|i| self.bytes_of(*i)).sum(),
        };
        let Some(size) = size else { return Err(full(&state)) };
        let Some(index) = state.free.pop_front() else {
            return Err(Error::TooManyBuffers { device: self.device.clone(), limit: self.records.len() as u32 });
        };
        let Ok(range) = state.ranges.allocate_range(size) else {
            state.free.push_front(index);
            return Err(full(&state));
        };
        state.free_bytes -= size;
        let Some(record) = self.records.get(index as usize) else { return Err(full(&state)) };
        let generation = record.generation.load(Ordering::Relaxed) as u16;
        record.off.store(range.start, Ordering::Relaxed);
        record.bytes.store(bytes, Ordering::Relaxed);
        record.first.store(NOBODY, Ordering::Relaxed);
        record.own.store(0, Ordering::Relaxed);
        record.others.store(0, Ordering::Relaxed);
        record.generation.store(u32::from(generation) | LIVE, Ordering::Release);
        Ok(Block { index, generation, off: range.start, bytes })
    }

    fn bytes_of(&self, index: u32) -> Option<u64> {
        self.records.get(index as usize).map(|r| r.bytes.load(Ordering::Relaxed))
    }

    /// The owner lets go. Freed now, or after the last call that names it is answered.
    pub(crate) fn release(&self, index: u32) {
        let Some(record) = self.records.get(index as usize) else { return };
        // No pointer of this generation is good any more.
        let generation = record.generation.load(Ordering::Relaxed) & (LIVE - 1);
        record.generation.store(generation, Ordering::Release);
        let mut state = self.state();
        if record.is_named() {
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
        state.ranges.free_range(off..off + size);
        state.free.push_back(index);
        state.free_bytes += size;
    }

    /// Checks that a pointer names a live buffer of this device and that `bytes` from its offset lie in it.
    #[inline(always)]
    fn record(&self, p: BufferParts, bytes: u64) -> Result<&Record, BufferError> {
        if p.node != self.node {
            return Err(BufferError::Foreign { owner: p.node.0, here: self.node.0 });
        }
        let freed = BufferError::Freed { index: p.index, generation: p.generation };
        let record = self.records.get(p.index as usize).ok_or(freed)?;
        if record.generation.load(Ordering::Acquire) != u32::from(p.generation) | LIVE {
            return Err(freed);
        }
        let start = record.off.load(Ordering::Relaxed);
        let has = record.bytes.load(Ordering::Relaxed);
        // The pointer's offset is absolute in the heap; its distance from the record's start counts against its bytes.
        match p.off.checked_sub(start) {
            Some(skip) if skip <= has && bytes <= has - skip => Ok(record),
            skip => Err(BufferError::Overrun { wanted: skip.unwrap_or(0).saturating_add(bytes), has }),
        }
    }

    /// A pointer for a transfer of `bytes`: its place in the heap, unless a call in flight names it.
    #[inline(always)]
    pub(crate) fn place<T: Element>(&self, ptr: BufferPtr<T>, bytes: u64) -> Result<u64, BufferError> {
        let p = ptr.parts();
        let record = self.record(p, ptr.bytes())?;
        if bytes > ptr.bytes() {
            return Err(BufferError::Overrun { wanted: bytes, has: ptr.bytes() });
        }
        if record.is_named() {
            return Err(BufferError::Busy);
        }
        Ok(p.off)
    }

    /// A pointer's place in the window, also while calls name it: for words, which are atomics.
    pub(crate) fn live_place<T: Element>(&self, ptr: BufferPtr<T>) -> Result<u64, BufferError> {
        self.record(ptr.parts(), ptr.bytes()).map(|_| self.heap.off + ptr.parts().off)
    }

    /// A call of stream `stream` that names the buffer is about to be sent. What comes back names record and generation
    /// for [`Self::unhold`].
    #[inline(always)]
    pub(crate) fn hold(&self, wire: WireBuffer, bytes: u64, stream: u32) -> Result<u64, BufferError> {
        let p = wire.unpack();
        let record = self.record(p, bytes)?;
        if record.first.load(Ordering::Relaxed) == stream {
            record.own.store(record.own.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            record.hold_as_other(stream);
        }
        Ok(u64::from(p.generation) << 32 | u64::from(p.index))
    }

    /// That call was answered.
    #[inline(always)]
    pub(crate) fn unhold(&self, hold: u64, stream: u32) {
        let Some(record) = self.records.get(hold as u32 as usize) else { return };
        // Freed under the call (see the module's head): the record's counts are another buffer's by now.
        if record.generation.load(Ordering::Relaxed) as u16 != (hold >> 32) as u16 {
            return;
        }
        // Release: whoever frees the memory does so after the answer was seen.
        if record.first.load(Ordering::Relaxed) == stream {
            record.own.store(record.own.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Release);
        } else {
            record.others.fetch_sub(1, Ordering::Release);
        }
    }

    pub(crate) fn pointer<T: Element>(&self, block: Block, len: usize) -> BufferPtr<T> {
        BufferPtr::from_wire(WireBuffer::pack(BufferParts {
            off: block.off,
            index: block.index,
            len: len as u64,
            generation: block.generation,
            node: self.node,
        }))
    }

    /// Offset of the heap in the window.
    pub(crate) fn heap_off(&self) -> u64 {
        self.heap.off
    }
}

impl Record {
    /// Does an unanswered call name it? Acquire: pairs with the release in [`Memory::unhold`].
    #[inline(always)]
    fn is_named(&self) -> bool {
        self.own.load(Ordering::Acquire) != 0 || self.others.load(Ordering::Acquire) != 0
    }

    #[cold]
    fn hold_as_other(&self, stream: u32) {
        // The first stream to come counts in its own word from now on.
        match self.first.compare_exchange(NOBODY, stream, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => self.own.store(1, Ordering::Relaxed),
            Err(_) => {
                self.others.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Elements in a device's memory, owned by the host program. Dropping it frees it, once every call that names it is
/// answered.
pub struct Buffer<T: Element> {
    memory: Arc<Memory>,
    block: Block,
    len: usize,
    _elements: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    pub(crate) fn new(node: &Node, len: usize) -> Result<Self, Error> {
        let memory = node.memory().clone();
        let bytes = (len as u64).checked_mul(size_of::<T>() as u64).filter(|b| *b < WireBuffer::MAX_OFF);
        let bytes = bytes.unwrap_or(u64::MAX);
        // What calls that nobody waits for still hold may be answered by now.
        let block = memory.allocate(bytes).or_else(|_| {
            node.inner().reap_unread();
            memory.allocate(bytes)
        })?;
        Ok(Self { memory, block, len, _elements: PhantomData })
    }

    /// What handlers take: a plain value that names these elements.
    pub fn ptr(&self) -> BufferPtr<T> {
        self.memory.pointer(self.block, self.len)
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// No elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.block.bytes
    }
}

impl<T: Element> Drop for Buffer<T> {
    fn drop(&mut self) {
        self.memory.release(self.block.index);
    }
}

impl<T: Element> std::fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({:?})", self.ptr())
    }
}

impl<T: Element> From<&Buffer<T>> for BufferPtr<T> {
    fn from(buffer: &Buffer<T>) -> Self {
        buffer.ptr()
    }
}
