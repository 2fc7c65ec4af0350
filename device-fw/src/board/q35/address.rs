//! Addresses of QEMU's `q35` machine (QEMU 7.2, `hw/i386/pc_q35.c`), as SeaBIOS leaves them.

use core::ptr::NonNull;

/// The event timer.
pub(super) const HPET: NonNull<()> = NonNull::new(0xFED0_0000 as *mut _).expect("not zero");
/// 256 MiB of configuration space.
pub(super) const ECAM: NonNull<u32> = NonNull::new(0xB000_0000 as *mut _).expect("not zero");
/// Page tables map what is below.
pub(super) const REACH: u64 = 1 << 39;
/// Behind all that firmware places, for cards that must follow each other.
pub(super) const PAIR: core::ops::Range<u64> = 1 << 38..REACH;
