//! Buffers, as programs own them.

use super::Node;
use crate::device::Device;
use crate::memory::{Block, DeviceMemory};
use crate::{BufferError, Error, MemoryChange};
use hamr_comm::abi::buffer::WireBuffer;
use hamr_comm::{BufferPtr, Element};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Arc, Weak};

const READING: &str = "reading a buffer";

/// Elements in a device's memory, owned by the host program. Dropping it frees it, once every call
/// that names it is answered.
///
/// [`Self::read`], [`Self::write`] and [`Self::slice`] are [`Node::read`], [`Node::put`] and
/// [`BufferPtr::slice`] of these elements.
pub struct Buffer<T: Element> {
    memory: Arc<DeviceMemory>,
    /// For copies. Weak: a buffer that outlives its node keeps the node's window mapped, and
    /// neither its link nor its device.
    device: Weak<Device>,
    block: Block,
    len: usize,
    _elements: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    pub(crate) fn new(node: &Node, len: usize) -> Result<Self, Error> {
        node.device().check_open("allocating a buffer")?;
        let memory = node.memory().clone();
        let bytes = (len as u64).checked_mul(size_of::<T>() as u64).filter(|b| *b < WireBuffer::MAX_OFF);
        let bytes = bytes.unwrap_or(u64::MAX);
        // Calls for which no thread waits may be answered by now, and free memory.
        let block = memory.allocate(bytes).or_else(|_| {
            node.device().reap_unread();
            memory.allocate(bytes)
        })?;
        let buffer = Self { memory, device: Arc::downgrade(node.device()), block, len, _elements: PhantomData };
        buffer.memory.tell(MemoryChange::Allocated, block);
        Ok(buffer)
    }

    /// What handlers take: a plain value that names these elements.
    pub fn ptr(&self) -> BufferPtr<T> {
        self.memory.pointer(self.block, self.len)
    }

    /// A pointer to the elements of `range`. Like every pointer it carries the buffer's generation,
    /// and is refused once the buffer is dropped.
    ///
    /// # Errors
    /// [`BufferError::Overrun`] when the range leaves the buffer.
    pub fn slice(&self, range: Range<usize>) -> Result<BufferPtr<T>, BufferError> {
        let end = range.end.max(range.start) as u64;
        let overrun = BufferError::Overrun { wanted: end.saturating_mul(size_of::<T>() as u64), has: self.block.bytes };
        self.ptr().slice(range).ok_or(overrun)
    }

    /// A copy of all elements, as [`Node::read`].
    ///
    /// # Errors
    /// As [`Node::get`]; [`Error::Lost`] after the node was dropped.
    pub fn read(&self) -> Result<Vec<T>, Error> {
        let mut to = vec![T::zeroed(); self.len];
        let device = self.device(READING)?;
        device.get(self.ptr(), &mut to)?;
        // The node may have been dropped beside the copy.
        if device.heap_is_released() { Err(self.released(READING)) } else { Ok(to) }
    }

    /// Copies `from` to the front, as [`Node::put`].
    ///
    /// # Errors
    /// As [`Node::put`]; [`Error::Lost`] after the node was dropped.
    pub fn write(&self, from: &[T]) -> Result<(), Error> {
        self.device("writing a buffer")?.put(from, self.ptr())
    }

    /// The device, unless its node was dropped: the window may be another host's then.
    fn device(&self, stage: &'static str) -> Result<Arc<Device>, Error> {
        let device = self.device.upgrade().ok_or_else(|| self.released(stage))?;
        device.check_open(stage)?;
        Ok(device)
    }

    fn released(&self, stage: &'static str) -> Error {
        let why = "its node was dropped by this program".into();
        Error::Lost { device: self.memory.device().into(), stage, why }
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
        self.memory.tell(MemoryChange::Freed, self.block);
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
