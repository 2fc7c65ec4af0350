//! Order of accesses to memory behind a bus (Intel SDM volume 3, "Memory Ordering").

#![expect(unsafe_code)]
// UNSAFETY: these intrinsics are safe only in functions that name their target feature, which a
// trait's may not.

use core::arch::x86_64::{_mm_mfence, _mm_sfence};
use core::sync::atomic::{AtomicU32, Ordering};
use hamr_comm::abi::sync::Order;

/// Memory of a PCI function. Stores are ordered even where it is mapped write-combining. Loads rely
/// on its being uncached or write-back, where none passes an earlier one: that is what firmware's
/// range registers and the page tables here make of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusOrder;

impl Order for BusOrder {
    #[inline(always)]
    fn publish(word: &AtomicU32, value: u32) {
        // SAFETY: SSE is part of x86_64; orders accesses, changes nothing.
        unsafe { _mm_sfence() };
        word.store(value, Ordering::Release);
    }
    #[inline(always)]
    fn observe(word: &AtomicU32) -> u32 {
        word.load(Ordering::Acquire)
    }
    #[inline(always)]
    fn full() {
        // SAFETY: as above, SSE2.
        unsafe { _mm_mfence() };
    }
}
