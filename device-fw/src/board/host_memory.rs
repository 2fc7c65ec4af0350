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

#[cfg(test)]
mod tests {
    use super::*;
    use hamr_comm::abi::preamble::word;
    use std::boxed::Box;
    use std::cell::RefCell;
    use std::vec::Vec;

    /// Memory behind a bus, whose bridges make two accesses of one of 64 bits. Others act at each full fence.
    #[derive(Clone, Copy)]
    struct Bus;

    std::thread_local! {
        static AT_FENCE: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
    }

    impl Order for Bus {
        fn publish(word: &core::sync::atomic::AtomicU32, value: u32) {
            word.store(value, Ordering::SeqCst);
        }
        fn observe(word: &core::sync::atomic::AtomicU32) -> u32 {
            word.load(Ordering::SeqCst)
        }
        fn full() {
            AT_FENCE.with_borrow_mut(|act| act.iter_mut().for_each(|act| act()));
        }
    }

    const AT: u64 = word::BELL & !7;
    const OLD: [u32; 2] = [1, 2];
    const NEW: [u32; 2] = [3, 4];

    fn both([low, high]: [u32; 2]) -> u64 {
        u64::from(low) | u64::from(high) << 32
    }

    /// With the words at `AT`, which have old values.
    fn memory() -> (HostMemory<impl Clone + Send + Sync + 'static, Bus>, impl Fn() -> [u32; 2], impl Fn([u32; 2])) {
        let window = DeviceWindow::private(4096);
        let words = || [AT, AT + 4].map(|off| window.keep_word(off).expect("inside"));
        let (seen, host) = (words(), words());
        let get = move || seen.each_ref().map(|word| word.word().load());
        let set = move |values: [u32; 2]| host.iter().zip(values).for_each(|(word, value)| word.word().store(value));
        set(OLD);
        (HostMemory::new(window), get, set)
    }

    /// The upper half is the word that is published.
    #[test]
    fn halves_are_loaded_from_the_upper_one_on() {
        let (mut memory, _, set) = memory();
        AT_FENCE.set(Some(Box::new(move || set(NEW))));
        assert_eq!(memory.load(AT), both([NEW[0], OLD[1]]), "payload of the next, beside the word of this one");
        AT_FENCE.take();
        assert_eq!(memory.load(AT), both(NEW));
    }

    #[test]
    fn halves_are_stored_from_the_lower_one_on() {
        let (mut memory, get, _) = memory();
        let at_fences = std::rc::Rc::<RefCell<Vec<[u32; 2]>>>::default();
        let seen = at_fences.clone();
        AT_FENCE.set(Some(Box::new(move || seen.borrow_mut().push(get()))));
        memory.store(AT, both(NEW));
        AT_FENCE.take();
        assert_eq!(at_fences.borrow().last(), Some(&[NEW[0], OLD[1]]), "{at_fences:?}");
        assert_eq!(memory.load(AT), both(NEW));
    }
}
