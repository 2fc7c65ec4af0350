//! Order of accesses to memory behind a bus (Arm architecture reference manual, "DMB").

#![expect(unsafe_code)]
// UNSAFETY: barriers for the outer shareable domain have no intrinsic; `fence` stops at the inner
// one.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering};
use hamr_comm::abi::sync::Order;

/// Memory of a PCI function: what observes it is outside of the processors' own domain, where
/// Release and Acquire end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusOrder;

impl Order for BusOrder {
    #[inline(always)]
    fn publish(word: &AtomicU32, value: u32) {
        // SAFETY: orders accesses, changes nothing. Stores only: loads before it are kept by
        // Release, which is enough for this side's own.
        unsafe { asm!("dmb oshst", options(nostack, preserves_flags)) };
        word.store(value, Ordering::Release);
    }
    #[inline(always)]
    fn observe(word: &AtomicU32) -> u32 {
        let value = word.load(Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { asm!("dmb oshld", options(nostack, preserves_flags)) };
        value
    }
    #[inline(always)]
    fn full() {
        // SAFETY: as above.
        unsafe { asm!("dmb osh", options(nostack, preserves_flags)) };
    }
}
