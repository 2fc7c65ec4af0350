//! Base address registers: sized, and placed where no firmware did (PCI local bus specification
//! 3.0, section 6.2.5.1).

use super::{Function, PciError};
use core::cell::Cell;
use core::ops::Range;

/// Configuration registers used here.
const COMMAND: u16 = 0x04;
const FIRST_BAR: u16 = 0x10;
/// COMMAND: decodes memory accesses; may start transactions.
const MEMORY: u32 = 1 << 1;
const MASTER: u32 = 1 << 2;
const DECODING: u32 = 0b11;
/// BAR: an I/O port range; a 64-bit address.
const IS_IO: u32 = 1;
const KIND: u32 = 0b110;
const KIND_64: u32 = 0b100;
const FLAGS: u32 = 0xF;

/// Addresses that no register has yet.
pub struct Space {
    next: Cell<u64>,
    end: u64,
}

impl Space {
    /// Addresses on the bus, which are the processor's too on every board here.
    pub const fn new(addresses: Range<u64>) -> Self {
        Self { next: Cell::new(addresses.start), end: addresses.end }
    }

    /// Takes `bytes`, a power of two, naturally aligned.
    pub(super) fn take(&self, bytes: u64) -> Option<u64> {
        let at = self.next.get().checked_next_multiple_of(bytes)?;
        let end = at.checked_add(bytes).filter(|end| *end <= self.end)?;
        self.next.set(end);
        Some(at)
    }
}

/// A base address register: a range of addresses that the function decodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bar {
    /// First address.
    pub(super) address: u64,
    /// Bytes.
    pub(super) len: u64,
}

impl Bar {
    /// Sizes register `index` of `function` and enables it: at its present address when firmware
    /// gave it one, else at an address of `low` (32-bit registers) or `high` (64-bit ones, or `low`
    /// when `high` has no room).
    pub(super) fn enable(function: &mut Function<'_>, index: u8, low: &Space, high: &Space) -> Result<Self, PciError> {
        let at = FIRST_BAR + 4 * u16::from(index);
        let command = function.read(COMMAND);
        // A register must not decode while its value is the pattern that sizes it.
        function.write(COMMAND, command & !DECODING);
        let before = function.read(at);
        let is_wide = before & KIND == KIND_64;
        let before_high = if is_wide { function.read(at + 4) } else { 0 };
        let len = size(function, at, before, is_wide).ok_or(PciError::NotMemory { bar: index })?;
        let placed = u64::from(before_high) << 32 | u64::from(before & !FLAGS);
        let address = match placed {
            0 if is_wide => high.take(len).or_else(|| low.take(len)),
            0 => low.take(len),
            there => Some(there),
        };
        let address = address.ok_or(PciError::NoRoom { bar: index, bytes: len })?;
        function.write(at, address as u32 | before & FLAGS);
        if is_wide {
            function.write(at + 4, (address >> 32) as u32);
        }
        function.write(COMMAND, command & !DECODING | MEMORY | MASTER);
        Ok(Self { address, len })
    }

    /// Bytes of the 64-bit register `index`, which does not decode from here on until it is enabled.
    #[cfg(feature = "split")]
    pub(super) fn len(function: &mut Function<'_>, index: u8) -> Result<u64, PciError> {
        let at = FIRST_BAR + 4 * u16::from(index);
        let command = function.read(COMMAND);
        function.write(COMMAND, command & !DECODING);
        let before = function.read(at);
        match before & KIND == KIND_64 {
            true => size(function, at, before, true).ok_or(PciError::NotMemory { bar: index }),
            false => Err(PciError::NotMemory { bar: index }),
        }
    }

    /// Gives that register an address, which [`Self::enable`] leaves.
    #[cfg(feature = "split")]
    pub(super) fn place(function: &mut Function<'_>, index: u8, address: u64) {
        let at = FIRST_BAR + 4 * u16::from(index);
        function.write(at, address as u32);
        function.write(at + 4, (address >> 32) as u32);
    }
}

/// Writes ones and reads which bits are kept; `None` when the register is not for memory.
fn size(function: &mut Function<'_>, at: u16, before: u32, is_wide: bool) -> Option<u64> {
    if before & IS_IO != 0 {
        return None;
    }
    function.write(at, u32::MAX);
    let mut mask = u64::from(function.read(at) & !FLAGS) | u64::from(u32::MAX) << 32;
    if is_wide {
        function.write(at + 4, u32::MAX);
        mask = mask & u64::from(u32::MAX) | u64::from(function.read(at + 4)) << 32;
    }
    match mask as u32 {
        0 if !is_wide => None,
        _ => (!mask).checked_add(1),
    }
}
