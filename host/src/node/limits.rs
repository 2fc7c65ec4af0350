//! Limits of a device, as it was opened.

use super::{Features, Node};
use hamr_comm::abi::slot::{INLINE_BYTES, TWO_LINE_BYTES};

/// Limits of a device, as it was opened. The error of what exceeds one has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of arguments, and of a result, in the message's own slot.
    pub slot: usize,
    /// Bytes of arguments in two lines; as `slot` where the device has none.
    pub two_lines: usize,
    /// Bytes of arguments, and of a result, in the slot's chunk. Longer ones go through the heap.
    pub chunk: usize,
    /// Bytes of the arguments of any call, and of its result ([`TooLong`](crate::SubmitError::TooLong),
    /// [`ResultTooLong`](crate::CallError::ResultTooLong)): of a hosted device those of the heap, on bare metal what its
    /// image says (`image!(longest_message = …)`), 16 KiB by default. Longer data is in slices and buffers.
    pub message: usize,
    /// Bytes of the heap, for buffers, slices and long messages ([`OutOfMemory`](crate::Error::OutOfMemory));
    /// [`Node::free_bytes`] of them are free.
    pub heap: u64,
    /// Buffers at once ([`TooManyBuffers`](crate::Error::TooManyBuffers)).
    pub buffers: u32,
    /// Streams at once ([`TooManyStreams`](crate::Error::TooManyStreams)).
    pub streams: u32,
    /// Calls of a stream in flight or unread, unless it was opened with another number
    /// ([`Full`](crate::SubmitError::Full)).
    pub outstanding: usize,
    /// Tasks at once; more wait.
    pub tasks: u32,
}

impl Node {
    /// The device's limits.
    pub fn limits(&self) -> Limits {
        let info = self.info();
        let options = &self.device().options;
        Limits {
            slot: INLINE_BYTES,
            two_lines: if info.features.contains(Features::TWO_LINES) { TWO_LINE_BYTES } else { INLINE_BYTES },
            chunk: options.chunk as usize,
            message: self.device().longest_message(&self.device().epoch_info().record),
            heap: info.heap,
            buffers: options.max_buffers,
            streams: options.streams(),
            outstanding: options.max_outstanding,
            tasks: info.tasks,
        }
    }
}
