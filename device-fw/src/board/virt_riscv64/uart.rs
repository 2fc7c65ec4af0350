//! The machine's UART.

#![expect(unsafe_code)]
// UNSAFETY: see `register`.

use super::address::UART;
use crate::board::{Register, uart16550};

// SAFETY: the data register of QEMU's UART, one byte wide.
const DATA: Register<u8> = unsafe { Register::new(UART) };
// SAFETY: its line status register.
const STATUS: Register<u8> = unsafe { Register::new(UART + uart16550::STATUS as usize) };

pub(super) fn put(byte: u8) {
    uart16550::put(byte, || STATUS.read(), |byte| DATA.write(byte));
}
