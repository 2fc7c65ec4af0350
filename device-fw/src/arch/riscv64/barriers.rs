//! Order of accesses to memory behind a bus (RISC-V unprivileged specification, "FENCE").

#![expect(unsafe_code)]
// UNSAFETY: `fence` has no intrinsic.

use core::arch::asm;
use hamr_comm::abi::sync::Order;

/// Memory of a PCI function: accesses may count as input and output, which Release and Acquire do not order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Device;

impl Order for Device {
    #[inline(always)]
    fn before_publish() {
        // SAFETY: orders accesses, changes nothing.
        unsafe { asm!("fence ow, ow", options(nostack, preserves_flags)) };
    }
    #[inline(always)]
    fn after_observe() {
        // SAFETY: as above.
        unsafe { asm!("fence ir, iorw", options(nostack, preserves_flags)) };
    }
    #[inline(always)]
    fn full() {
        // SAFETY: as above.
        unsafe { asm!("fence iorw, iorw", options(nostack, preserves_flags)) };
    }
}
