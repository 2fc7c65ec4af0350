//! Order of accesses to memory behind a bus (RISC-V unprivileged specification, "FENCE").

#![expect(unsafe_code)]
// UNSAFETY: `fence` has no intrinsic.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering};
use hamr_comm::abi::sync::Order;

/// Memory of a PCI function: accesses may count as input and output, which Release and Acquire do
/// not order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusOrder;

impl Order for BusOrder {
    #[inline(always)]
    fn publish(word: &AtomicU32, value: u32) {
        // SAFETY: orders accesses, changes nothing.
        unsafe { asm!("fence iorw, ow", options(nostack, preserves_flags)) };
        word.store(value, Ordering::Relaxed);
    }
    #[inline(always)]
    fn observe(word: &AtomicU32) -> u32 {
        let value = word.load(Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { asm!("fence ir, iorw", options(nostack, preserves_flags)) };
        value
    }
    #[inline(always)]
    fn full() {
        // SAFETY: as above.
        unsafe { asm!("fence iorw, iorw", options(nostack, preserves_flags)) };
    }
}
