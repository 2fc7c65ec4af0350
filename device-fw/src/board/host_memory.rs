//! The host's memory, where the image that drives it maps it.

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, fence};
use hamr_comm::abi::sync::Order;
use hamr_comm::abi::window::DeviceWindow;
use hamr_comm::mirror::HostPort;

/// The host's memory, mapped: loads, stores, and copies by the processor, which stand for a DMA engine.
pub struct HostMemory<K, F> {
    memory: DeviceWindow<K>,
    has_stored: bool,
    order: PhantomData<F>,
}

impl<K: Clone, F: Order> HostMemory<K, F> {
    pub(crate) fn new(memory: DeviceWindow<K>) -> Self {
        Self { memory, has_stored: false, order: PhantomData }
    }

    /// Where it is, and its length.
    pub fn place(&self) -> (NonNull<u8>, u64) {
        (self.memory.address(), self.memory.len())
    }

    fn fence(order: Ordering) {
        if F::PAIRED { fence(order) } else { F::full() }
    }
}

impl<K: Clone + Send, F: Order> HostPort for HostMemory<K, F> {
    fn load(&mut self, off: u64) -> u64 {
        if core::mem::take(&mut self.has_stored) {
            F::full();
        }
        let word = |off| self.memory.word(off).map_or(0, |word| word.load());
        // A bridge may make two of it, in any order.
        let value = if F::PAIRED {
            self.memory.load(off).unwrap_or(0)
        } else {
            let upper = word(off + 4);
            F::full();
            u64::from(upper) << 32 | u64::from(word(off))
        };
        Self::fence(Ordering::Acquire);
        value
    }
    fn store(&mut self, off: u64, value: u64) {
        self.has_stored = true;
        Self::fence(Ordering::Release);
        // What is outside is nobody's.
        if F::PAIRED {
            let _ = self.memory.store(off, value);
            return;
        }
        let word = |off, half: u64| self.memory.word(off).map(|word| word.store(half as u32));
        let _ = word(off, value);
        F::full();
        let _ = word(off + 4, value >> 32);
    }
    fn pull(&mut self, off: u64, to: &mut [u8]) {
        if self.memory.read_bytes(off, to).is_err() {
            to.fill(0);
        }
    }
    fn push(&mut self, off: u64, from: &[u8]) {
        self.has_stored = true;
        let _ = self.memory.write_bytes(off, from);
    }
}
