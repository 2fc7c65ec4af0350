//! The machine's UART.

#![expect(unsafe_code)]
// UNSAFETY: the address is that of this machine (contract "boards").

use super::address::UART;
use crate::board::uart16550;
use core::mem::offset_of;
use safe_mmio::fields::{ReadOnly, WriteOnly};
use safe_mmio::{UniqueMmioPointer, field};

/// Registers of one byte (PC16550D data sheet, section 8).
#[repr(C)]
struct Registers {
    /// THR, the transmitter holding register.
    data: WriteOnly<u8>,
    _unused: [u8; 4],
    /// LSR, the line status register; reading clears the receiver's errors.
    status: ReadOnly<u8>,
}
const _: () = assert!(offset_of!(Registers, status) == uart16550::STATUS as usize);

pub(super) fn put(byte: u8) {
    // SAFETY: this machine's UART, which reaches no memory; a fault that interrupts this and
    // writes a text of its own does not return to it.
    let mut uart = unsafe { UniqueMmioPointer::<Registers>::new(UART.cast()) };
    if uart16550::is_ready(|| field!(uart, status).read()) {
        field!(uart, data).write(byte);
    }
}
