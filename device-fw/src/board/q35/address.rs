//! Addresses of QEMU's `q35` machine (QEMU 7.2, `hw/i386/pc_q35.c`), as SeaBIOS leaves them.

use core::ptr::NonNull;

/// The event timer: what it is, its switch, its counter.
pub(super) const HPET_CAPABILITIES: usize = 0xFED0_0000;
pub(super) const HPET_CONFIGURATION: usize = HPET_CAPABILITIES + 0x10;
pub(super) const HPET_COUNTER: usize = HPET_CAPABILITIES + 0xF0;
/// 256 MiB of configuration space.
pub(super) const ECAM: NonNull<u32> = match NonNull::new(0xB000_0000 as *mut u32) {
    Some(base) => base,
    None => panic!("not zero"),
};
/// Page tables map what is below.
pub(super) const REACH: u64 = 1 << 39;
