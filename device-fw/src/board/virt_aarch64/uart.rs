//! The PL011, transmitting only.

#![expect(unsafe_code)]
// UNSAFETY: see `register`.

use super::address::UART;
use crate::board::Register;

/// Polls of a full transmitter after which the byte is dropped: a console may not stop an image.
const MAX_READY_POLLS: u32 = 100_000;
/// UARTFR: the transmit FIFO is full.
const FULL: u32 = 1 << 5;
/// UARTCR: on, and transmitting.
const TRANSMIT: u32 = 1 << 0 | 1 << 8;

// SAFETY: the data register of QEMU's UART; the upper bytes are ignored.
const DATA: Register<u32> = unsafe { Register::new(UART) };
// SAFETY: its flag register.
const FLAGS: Register<u32> = unsafe { Register::new(UART + 0x18) };
// SAFETY: its control register.
const CONTROL: Register<u32> = unsafe { Register::new(UART + 0x30) };

/// Firmware would do this; QEMU 7.2 transmits without it, later versions print a warning.
pub(super) fn turn_on() {
    CONTROL.write(TRANSMIT);
}

pub(super) fn put(byte: u8) {
    if (0..MAX_READY_POLLS).any(|_| FLAGS.read() & FULL == 0) {
        DATA.write(u32::from(byte));
    }
}
