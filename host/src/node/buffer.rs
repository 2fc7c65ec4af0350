//! Buffers, as programs own them.

use super::Node;
use crate::Error;
use crate::memory::{Block, DeviceMemory};
use hamr_comm::abi::buffer::WireBuffer;
use hamr_comm::{BufferPtr, Element};
use std::marker::PhantomData;
use std::sync::Arc;

/// Elements in a device's memory, owned by the host program. Dropping it frees it, once every call
/// that names it is answered.
pub struct Buffer<T: Element> {
    memory: Arc<DeviceMemory>,
    block: Block,
    len: usize,
    _elements: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    pub(crate) fn new(node: &Node, len: usize) -> Result<Self, Error> {
        let memory = node.memory().clone();
        let bytes = (len as u64).checked_mul(size_of::<T>() as u64).filter(|b| *b < WireBuffer::MAX_OFF);
        let bytes = bytes.unwrap_or(u64::MAX);
        // Calls for which no thread waits may be answered by now, and free memory.
        let block = memory.allocate(bytes).or_else(|_| {
            node.reap_unread();
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
