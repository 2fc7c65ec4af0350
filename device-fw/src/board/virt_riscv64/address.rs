//! Addresses of QEMU's `virt` machine for riscv64 (QEMU 7.2, `hw/riscv/virt.c`).

use core::ops::Range;
use core::ptr::NonNull;

/// sifive_test.
pub(super) const TEST: NonNull<()> = NonNull::new(0x10_0000 as *mut _).expect("not zero");
/// What ends the machine with code 0, and with the code in the upper half.
pub(super) const PASS: u32 = 0x5555;
pub(super) const FAIL: u32 = 0x3333;
/// mtimecmp of hart 0 in the ACLINT.
pub(super) const MTIMECMP: NonNull<()> = NonNull::new(0x0200_4000 as *mut _).expect("not zero");
/// Hart 0's machine-level interrupt file, with `aia=aplic-imsic`.
pub(super) const IMSIC: u64 = 0x2400_0000;
/// Steps of `time` per second.
pub(super) const TIMER_HZ: u64 = 10_000_000;
/// 16550-compatible UART.
pub(super) const UART: NonNull<()> = NonNull::new(0x1000_0000 as *mut _).expect("not zero");
/// 256 MiB of configuration space.
pub(super) const ECAM: NonNull<u32> = NonNull::new(0x3000_0000 as *mut _).expect("not zero");
/// Where base address registers may point.
pub(super) const LOW_MMIO: Range<u64> = 0x4000_0000..0x8000_0000;
pub(super) const HIGH_MMIO: Range<u64> = 0x4_0000_0000..0x8_0000_0000;
