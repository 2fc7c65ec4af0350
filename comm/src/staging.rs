//! Calls with slices of the program, which lie in buffers for the time of the call.

use crate::buffer::{BufferPtr, Element};
use hamr_shared_abi::buffer::WireBuffer;

/// Makes buffers of slices while a call is bound: `hamr::Node::sync_staged` gives it to the closure
/// that binds.
pub struct Staging<'s, 'd> {
    stage: &'s mut dyn Stage<'d>,
}

/// A slice of the program, as bytes.
pub enum Staged<'s, 'd> {
    /// Copied in.
    In(&'s [u8]),
    /// Copied back.
    Out(&'d mut [u8]),
    /// Both.
    InOut(&'d mut [u8]),
}

/// Where the buffers come from.
pub trait Stage<'d> {
    /// A buffer of the slice's bytes, aligned for every element. Without room it is one of no device, and the call is not sent.
    fn buffer(&mut self, of: Staged<'_, 'd>) -> BufferPtr<u8>;
}

impl<'s, 'd> Staging<'s, 'd> {
    /// In the buffers of `stage`.
    pub fn new(stage: &'s mut dyn Stage<'d>) -> Self {
        Self { stage }
    }

    /// The handler reads the slice.
    pub fn input<T: Element>(&mut self, from: &[T]) -> BufferPtr<T> {
        self.stage(from.len(), Staged::In(bytemuck::cast_slice(from)))
    }

    /// The handler writes all of the slice. What it does not write is unspecified.
    pub fn output<T: Element>(&mut self, to: &'d mut [T]) -> BufferPtr<T> {
        self.stage(to.len(), Staged::Out(bytemuck::cast_slice_mut(to)))
    }

    /// The handler reads and writes the slice.
    pub fn in_out<T: Element>(&mut self, both: &'d mut [T]) -> BufferPtr<T> {
        self.stage(both.len(), Staged::InOut(bytemuck::cast_slice_mut(both)))
    }

    fn stage<T: Element>(&mut self, len: usize, slice: Staged<'_, 'd>) -> BufferPtr<T> {
        let mut parts = self.stage.buffer(slice).parts();
        parts.len = len as u64;
        BufferPtr::from_wire(WireBuffer::pack(parts))
    }
}
