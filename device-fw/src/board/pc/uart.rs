//! COM1.

#![expect(unsafe_code)]
// UNSAFETY: see `port`.

use super::port::Port;
use crate::board::uart16550;

/// COM1.
const UART: u16 = 0x3F8;

// SAFETY: the data register of COM1; a UART reaches no memory.
const DATA: Port = unsafe { Port::new(UART) };
// SAFETY: its line status register.
const STATUS: Port = unsafe { Port::new(UART + uart16550::STATUS as u16) };

pub(super) fn put(byte: u8) {
    if uart16550::is_ready(|| STATUS.read()) {
        DATA.write(byte);
    }
}
