//! Addresses and ports of QEMU's `microvm` with `pcie=on` (QEMU 7.2, `include/hw/i386/microvm.h`,
//! `hw/i386/microvm.c`). Those of every PC are in `hamr_device_fw::board::pc`.

use core::ops::Range;
use core::ptr::NonNull;

/// Configuration space of 256 buses.
pub(crate) const ECAM: NonNull<u32> = NonNull::new(0xE000_0000 as *mut _).expect("not zero");
/// The range for base address registers. The machine has a second range, of 64 bits, that begins at
/// 768 GiB: page tables end at 512.
pub(crate) const WINDOW: Range<u64> = 0xC000_0000..0xE000_0000;
/// Page tables map the addresses below.
pub(crate) const REACH: u64 = 1 << 39;
/// The interval timer (8254): its channel 0, and its commands.
pub(crate) const CHANNEL: u16 = 0x40;
pub(crate) const COMMAND: u16 = 0x43;
