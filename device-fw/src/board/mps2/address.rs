//! Addresses of QEMU's `mps2-an386` (Arm application note 386, "memory map").

use core::ptr::NonNull;

/// CMSDK UART 0.
pub(super) const UART: NonNull<()> = NonNull::new(0x4000_4000 as *mut _).expect("not zero");
/// CMSDK timer 0.
pub(super) const TIMER: NonNull<()> = NonNull::new(0x4000_0000 as *mut _).expect("not zero");
/// The clock of the processor and of the timer.
pub(super) const CLOCK_HZ: u32 = 25_000_000;
