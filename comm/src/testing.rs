//! For users' own tests: a heap and a context without any device, so that a handler is called as
//! the function it is.
//!
//! ```
//! use hamr_comm::testing::Heap;
//! let mut heap = Heap::new(4096);
//! let x = heap.buffer(&[1.0f64, 2.0, 3.0]);
//! assert_eq!(heap.context().view(x).unwrap().iter().sum::<f64>(), 6.0);
//! assert_eq!(heap.read(x), [1.0, 2.0, 3.0]);
//! ```

use crate::buffer::{BufferPtr, Element};
use crate::context::Context;
use crate::mirror::HostPort;
use alloc::vec;
use alloc::vec::Vec;
use hamr_shared_abi::buffer::{BufferParts, WireBuffer};
use hamr_shared_abi::ids::NodeId;
use hamr_shared_abi::preamble::PREAMBLE_BYTES;
use hamr_shared_abi::window::{self, DeviceWindow, Private, Shared, Window};

/// The node that test heaps belong to.
const NODE: NodeId = NodeId(1);

/// A device's memory, in private memory. Buffers are handed out one behind the other and never
/// freed.
pub struct Heap {
    heap: window::Heap<Private>,
    next: u64,
    count: u32,
}

impl Heap {
    /// A heap of `bytes`, all zero.
    pub fn new(bytes: usize) -> Self {
        let whole = DeviceWindow::private(PREAMBLE_BYTES + bytes as u64);
        let len = whole.len() - PREAMBLE_BYTES;
        let Ok((_, heap)) = whole.split(PREAMBLE_BYTES, len, &(0..0)) else { unreachable!("it is that long") };
        Self { heap, next: 0, count: 0 }
    }

    /// A buffer with a copy of `data`. Panics when the heap is full: size it for the test.
    pub fn buffer<T: Element>(&mut self, data: &[T]) -> BufferPtr<T> {
        let ptr = self.zeroed(data.len());
        self.write(ptr, data);
        ptr
    }

    /// A buffer of `len` zero elements.
    pub fn zeroed<T: Element>(&mut self, len: usize) -> BufferPtr<T> {
        let off = self.next;
        let end = off + (len * size_of::<T>()) as u64;
        assert!(end <= self.heap.len(), "the test heap has {} bytes, {end} are needed", self.heap.len());
        self.next = end.next_multiple_of(64);
        self.count += 1;
        let parts = BufferParts { off, index: self.count, len: len as u64, generation: 0, node: NODE };
        BufferPtr::from_wire(WireBuffer::pack(parts))
    }

    /// Copies `data` to the front of a buffer. Panics when it does not fit.
    pub fn write<T: Element>(&mut self, ptr: BufferPtr<T>, data: &[T]) {
        if let Err(fault) = self.context().copy_in(data, ptr) {
            panic!("{fault}");
        }
    }

    /// A copy of a buffer's contents.
    pub fn read<T: Element>(&mut self, ptr: BufferPtr<T>) -> Vec<T> {
        let mut data = vec![T::zeroed(); ptr.len()];
        if let Err(fault) = self.context().copy_out(ptr, &mut data) {
            panic!("{fault}");
        }
        data
    }

    /// What a handler gets as its first argument.
    pub fn context(&mut self) -> Context<'_> {
        Context::new(self.heap.lend(), NODE)
    }
}

/// Memory of a host in this program, as a device reaches it that drives it. Panics where there is none.
impl HostPort for Window<Shared> {
    fn load(&mut self, off: u64) -> u64 {
        let mut bytes = [0; 8];
        self.pull(off, &mut bytes);
        u64::from_le_bytes(bytes)
    }
    fn store(&mut self, off: u64, value: u64) {
        self.push(off, &value.to_le_bytes());
    }
    fn pull(&mut self, off: u64, to: &mut [u8]) {
        self.read_bytes(off, to).unwrap_or_else(|e| panic!("{e}"));
    }
    fn push(&mut self, off: u64, from: &[u8]) {
        self.write_bytes(off, from).unwrap_or_else(|e| panic!("{e}"));
    }
}
