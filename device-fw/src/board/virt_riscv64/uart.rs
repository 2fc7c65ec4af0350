//! The 16550-compatible UART, transmitting only.

#![expect(unsafe_code)]
// UNSAFETY: see `board::register`.

use super::address::UART;
use crate::board::Register;

/// Looks at a transmitter that stays full before the byte is dropped: a console may not stop an image.
const PATIENCE: u32 = 100_000;
/// Transmit holding register is empty.
const EMPTY: u8 = 1 << 5;

// SAFETY: the data register of QEMU's UART, one byte wide.
const DATA: Register<u8> = unsafe { Register::new(UART) };
// SAFETY: its line status register.
const STATUS: Register<u8> = unsafe { Register::new(UART + 5) };

pub(super) fn put(byte: u8) {
    if (0..PATIENCE).any(|_| STATUS.read() & EMPTY != 0) {
        DATA.write(byte);
    }
}
