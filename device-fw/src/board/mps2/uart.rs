//! The CMSDK APB UART, transmitting only (Arm DDI 0479, section 4.3).

#![expect(unsafe_code)]
// UNSAFETY: the address is that of this machine (contract "boards").

use super::address::UART;
use core::mem::offset_of;
use safe_mmio::fields::{ReadPure, WriteOnly};
use safe_mmio::{UniqueMmioPointer, field, field_shared};

#[repr(C)]
struct Registers {
    data: WriteOnly<u32>,
    state: ReadPure<u32>,
    control: WriteOnly<u32>,
    _interrupts: u32,
    divider: WriteOnly<u32>,
}
const _: () = assert!(offset_of!(Registers, divider) == 0x10);

/// Polls of a full transmitter after which the byte is dropped: a console may not stop an image.
const MAX_READY_POLLS: u32 = 100_000;
/// STATE: the transmit buffer is full.
const FULL: u32 = 1 << 0;
/// CTRL: transmitting.
const TRANSMIT: u32 = 1 << 0;
/// The least that BAUDDIV may be.
const DIVIDER: u32 = 16;

fn registers() -> UniqueMmioPointer<'static, Registers> {
    // SAFETY: this machine's UART, which reaches no memory; a fault that interrupts `put` and writes a text of its own
    // does not return to it.
    unsafe { UniqueMmioPointer::new(UART.cast()) }
}

pub(super) fn turn_on() {
    let mut uart = registers();
    field!(uart, divider).write(DIVIDER);
    field!(uart, control).write(TRANSMIT);
}

pub(super) fn put(byte: u8) {
    let mut uart = registers();
    if (0..MAX_READY_POLLS).any(|_| field_shared!(uart, state).read() & FULL == 0) {
        field!(uart, data).write(u32::from(byte));
    }
}
