//! Message-signalled interrupts: a function that wants to interrupt writes a word to an address
//! (PCI local bus specification 3.0, section 6.8.2; contract "MSI-X").

#![expect(unsafe_code)]
// UNSAFETY: the table of messages is at an address that the bus gave the function.
//
// Contract "MSI-X". A message is a bus store to an address that the image chooses, possibly into the
// image: callers of `listen` name their board's interrupt controllers. An offset beyond the table's
// sized and enabled register is refused. The table is written before the capability is on.

use super::{Bar, Function, PciError, Space};
use core::ptr::NonNull;
use safe_mmio::fields::WriteOnly;
use safe_mmio::{UniqueMmioPointer, field};

/// Configuration registers used here, and the capability's number.
const COMMAND: u16 = 0x04;
const FIRST_CAPABILITY: u16 = 0x34;
const MSIX: u32 = 0x11;
/// COMMAND's upper half is the status: there are capabilities.
const HAS_CAPABILITIES: u32 = 1 << 20;
/// The capability's first word: on; all masked.
const ON: u32 = 1 << 31;
const MASKED: u32 = 1 << 30;
/// Its second: which base address register the table is behind; the other bits are the offset.
const BAR: u32 = 0b111;
/// More than fit between two registers of 256 bytes: a longer chain is a circle.
const LONGEST_CHAIN: u32 = 48;

/// What a function writes to interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Where: an interrupt controller of the board.
    pub address: u64,
    /// What.
    pub data: u32,
}

/// An entry of the table (section 6.8.2).
#[repr(C)]
struct Entry {
    /// Message Address, and Message Upper Address.
    address: WriteOnly<u32>,
    address_high: WriteOnly<u32>,
    /// Message Data.
    data: WriteOnly<u32>,
    /// Vector Control: bit 0 masks the entry.
    control: WriteOnly<u32>,
}
const _: () = assert!(size_of::<Entry>() == 16);

/// Makes the first interrupt of `function` send `message`, and enables the capability. False when
/// the function has none.
///
/// # Safety
/// The addresses that `low` provides, or firmware gave, are mapped as device memory. A write of
/// the message's data to its address interrupts, and does nothing else.
pub(super) unsafe fn send(function: &mut Function<'_>, low: &Space, message: Message) -> Result<bool, PciError> {
    let Some(at) = capability(function) else { return Ok(false) };
    let table = function.read(at + 4);
    let index = (table & BAR) as u8;
    let bar = Bar::enable(function, index, low, low)?;
    let offset = u64::from(table & !BAR);
    let fits = offset + size_of::<Entry>() as u64 <= bar.len;
    let entry = NonNull::new(core::ptr::with_exposed_provenance_mut::<Entry>((bar.address + offset) as usize));
    let entry = entry.filter(|_| fits).ok_or(PciError::NotMemory { bar: index })?;
    // SAFETY: the table is decoded at this address (enabled above), is mapped (contract of this
    // function), and offsets are multiples of 8; no other code has its address. The message only
    // interrupts (contract of this function), and is not sent before the capability is on.
    let mut entry = unsafe { UniqueMmioPointer::new(entry) };
    field!(entry, address).write(message.address as u32);
    field!(entry, address_high).write((message.address >> 32) as u32);
    field!(entry, data).write(message.data);
    field!(entry, control).write(0);
    let control = function.read(at);
    function.write(at, control & !MASKED | ON);
    Ok(true)
}

/// Where the capability is.
fn capability(function: &Function<'_>) -> Option<u16> {
    if function.read(COMMAND) & HAS_CAPABILITIES == 0 {
        return None;
    }
    let mut at = function.read(FIRST_CAPABILITY) as u16 & 0xFC;
    for _ in 0..LONGEST_CHAIN {
        if at == 0 {
            return None;
        }
        let word = function.read(at);
        if word & 0xFF == MSIX {
            return Some(at);
        }
        at = (word >> 8) as u16 & 0xFC;
    }
    None
}
