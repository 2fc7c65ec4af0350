//! Order of accesses to memory that something else than the processor observes (ARMv7-M architecture reference manual,
//! A3.7.3).

#![expect(unsafe_code)]
// UNSAFETY: `fence` is a barrier as well, but says nothing of observers that are no processor.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering};
use hamr_comm::abi::sync::Order;

/// Memory that another bus master reads and writes: a debug probe, a card, a second core. There is one barrier for all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusOrder;

impl Order for BusOrder {
    #[inline(always)]
    fn publish(word: &AtomicU32, value: u32) {
        Self::full();
        word.store(value, Ordering::Relaxed);
    }
    #[inline(always)]
    fn observe(word: &AtomicU32) -> u32 {
        let value = word.load(Ordering::Relaxed);
        Self::full();
        value
    }
    #[inline(always)]
    fn full() {
        // SAFETY: orders accesses, changes nothing.
        unsafe { asm!("dmb", options(nostack, preserves_flags)) };
    }
}
