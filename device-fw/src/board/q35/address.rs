//! Ports and addresses of QEMU's `q35` machine (QEMU 7.2, `hw/i386/pc_q35.c`), as SeaBIOS leaves them.

use core::ptr::NonNull;

/// COM1, a 16550.
pub(super) const UART: u16 = 0x3F8;
/// isa-debug-exit, where the command line puts it.
pub(super) const DEBUG_EXIT: u16 = 0xF4;
/// Interrupt masks of the two 8259.
pub(super) const PIC_MASKS: [u16; 2] = [0x21, 0xA1];
/// The event timer: what it is, its switch, its counter.
pub(super) const HPET_CAPABILITIES: usize = 0xFED0_0000;
pub(super) const HPET_CONFIGURATION: usize = HPET_CAPABILITIES + 0x10;
pub(super) const HPET_COUNTER: usize = HPET_CAPABILITIES + 0xF0;
/// 256 MiB of configuration space.
pub(super) const ECAM: NonNull<u32> = match NonNull::new(0xB000_0000 as *mut u32) {
    Some(base) => base,
    None => panic!("not zero"),
};
