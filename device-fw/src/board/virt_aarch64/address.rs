//! Addresses of QEMU's `virt` machine for aarch64 (QEMU 7.2, `hw/arm/virt.c`), with a GICv2 and
//! `highmem` on.

use core::ops::Range;
use core::ptr::NonNull;

/// GICv2: the distributor, and this processor's interface to it.
pub(super) const GICD: NonNull<()> = NonNull::new(0x0800_0000 as *mut _).expect("not zero");
pub(super) const GICC: NonNull<()> = NonNull::new(0x0801_0000 as *mut _).expect("not zero");
/// Its message window (GICv2m).
pub(super) const GICV2M: NonNull<()> = NonNull::new(0x0802_0000 as *mut _).expect("not zero");
/// The virtual timer's interrupt, private to each processor.
pub(super) const TIMER_INTERRUPT: u32 = 27;
/// PL011.
pub(super) const UART: NonNull<()> = NonNull::new(0x0900_0000 as *mut _).expect("not zero");
/// 256 MiB of configuration space.
pub(super) const ECAM: NonNull<u32> = NonNull::new(0x40_1000_0000 as *mut _).expect("not zero");
/// Where base address registers may point. `memory-aarch64.x` names the upper range too: it is
/// mapped as cached memory.
pub(super) const LOW_MMIO: Range<u64> = 0x1000_0000..0x3EFF_0000;
pub(super) const HIGH_MMIO: Range<u64> = 0x80_0000_0000..0x100_0000_0000;
/// Translation tables map what is below.
pub(super) const REACH: u64 = HIGH_MMIO.end;
