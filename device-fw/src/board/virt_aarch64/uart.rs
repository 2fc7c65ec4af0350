//! The PL011, transmitting only (Arm PrimeCell UART, DDI 0183).

#![expect(unsafe_code)]
// UNSAFETY: the address is that of this machine (contract "boards").

use super::address::UART;
use core::mem::offset_of;
use safe_mmio::fields::{ReadPure, WriteOnly};
use safe_mmio::{UniqueMmioPointer, field, field_shared};

#[repr(C)]
struct Registers {
    /// UARTDR (section 3.3.1); the upper bytes are ignored.
    data: WriteOnly<u32>,
    _unused: [u32; 5],
    /// UARTFR (3.3.3).
    flags: ReadPure<u32>,
    _unused_too: [u32; 5],
    /// UARTCR (3.3.8).
    control: WriteOnly<u32>,
}
const _: () = assert!(offset_of!(Registers, flags) == 0x18 && offset_of!(Registers, control) == 0x30);

/// Polls of a full transmitter after which the byte is dropped: a console may not stop an image.
const MAX_READY_POLLS: u32 = 100_000;
/// UARTFR: the transmit FIFO is full.
const FULL: u32 = 1 << 5;
/// UARTCR: on, and transmitting.
const TRANSMIT: u32 = 1 << 0 | 1 << 8;

fn registers() -> UniqueMmioPointer<'static, Registers> {
    // SAFETY: this machine's UART, mapped as device memory, without effects on memory; a fault
    // that interrupts `put` and writes a text of its own does not return to it.
    unsafe { UniqueMmioPointer::new(UART.cast()) }
}

/// Firmware would do this; QEMU 7.2 transmits without it, later versions print a warning.
pub(super) fn turn_on() {
    let mut uart = registers();
    field!(uart, control).write(TRANSMIT);
}

pub(super) fn put(byte: u8) {
    let mut uart = registers();
    if (0..MAX_READY_POLLS).any(|_| field_shared!(uart, flags).read() & FULL == 0) {
        field!(uart, data).write(u32::from(byte));
    }
}
