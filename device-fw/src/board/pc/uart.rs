//! The 16550-compatible UART, transmitting only.

#![expect(unsafe_code)]
// UNSAFETY: see `port`.

use super::port::Port;

/// COM1.
const UART: u16 = 0x3F8;
/// Looks at a transmitter that stays full before the byte is dropped: a console may not stop an image.
const PATIENCE: u32 = 100_000;
/// Transmit holding register is empty.
const EMPTY: u8 = 1 << 5;

// SAFETY: the data register of COM1; a UART reaches no memory.
const DATA: Port = unsafe { Port::new(UART) };
// SAFETY: its line status register.
const STATUS: Port = unsafe { Port::new(UART + 5) };

pub(super) fn put(byte: u8) {
    if (0..PATIENCE).any(|_| STATUS.read() & EMPTY != 0) {
        DATA.write(byte);
    }
}
