//! Configuration space through the enhanced access mechanism: memory, 4 KiB a function (PCI Express
//! base specification, section 7.2.2; contract "configuration space").

#![expect(unsafe_code)]
// UNSAFETY: configuration registers are memory at an address that only the board knows.
//
// Contract "configuration space". While a base address register is sized, the function's decoding is
// off.

use super::PciError;
use core::ptr::NonNull;
use safe_mmio::fields::ReadPureWrite;
use safe_mmio::{SharedMmioPointer, UniqueMmioPointer};

/// Vendor number of a function that is not there.
const NO_DEVICE: u16 = 0xFFFF;
/// Functions of one bus.
const PER_BUS: usize = 256;
/// Registers of one function.
const PER_FUNCTION: usize = 1024;

type Registers = [ReadPureWrite<u32>; PER_FUNCTION];

/// The configuration space of some buses, function by function.
pub struct Ecam(UniqueMmioPointer<'static, [Registers]>);

impl Ecam {
    /// Configuration space of `buses` buses at `base`.
    ///
    /// # Safety
    /// `base` is the address of `buses` MiB of configuration space, mapped as device memory for as
    /// long as the image runs, and nothing else in the image writes there.
    pub const unsafe fn new(base: NonNull<u32>, buses: u32) -> Self {
        let functions = NonNull::slice_from_raw_parts(base.cast(), buses as usize * PER_BUS);
        // SAFETY: as many functions as these buses have, for this value alone (contract of this
        // function). A read has no effect; that of a write depends on the function, and no code
        // uses memory that a write makes appear or move before [`super::Bar`] returns its address.
        Self(unsafe { UniqueMmioPointer::new(functions) })
    }

    /// The first function with this vendor and device number behind `before` others, in the order of bus, device and
    /// function number. Buses behind bridges are seen where firmware has numbered them.
    pub(super) fn find(&mut self, vendor: u16, device: u16, before: u32) -> Result<Function<'_>, PciError> {
        let no_device = |functions| PciError::NoDevice { functions };
        let (mut others, mut before) = (0, before);
        for number in 0..self.0.len() {
            let id = self.id(number);
            if id == u32::from(device) << 16 | u32::from(vendor) {
                if before != 0 {
                    before -= 1;
                    continue;
                }
                return self.0.get(number).map(Function).ok_or(no_device(others));
            }
            others += u32::from(id as u16 != NO_DEVICE);
        }
        Err(no_device(others))
    }

    /// Device and vendor number of a function.
    fn id(&self, number: usize) -> u32 {
        let functions: &SharedMmioPointer<'_, [Registers]> = &self.0;
        functions.get(number).and_then(|function| function.get(0)).map_or(u32::MAX, |id| id.read())
    }
}

/// One function. A register's offset is a multiple of 4 below 4096.
pub(super) struct Function<'e>(UniqueMmioPointer<'e, Registers>);

impl Function<'_> {
    /// Reads the register at `offset`.
    pub(super) fn read(&self, offset: u16) -> u32 {
        let registers: &SharedMmioPointer<'_, Registers> = &self.0;
        registers.get(usize::from(offset) / 4 % PER_FUNCTION).map_or(u32::MAX, |register| register.read())
    }

    /// Writes the register at `offset`.
    pub(super) fn write(&mut self, offset: u16, value: u32) {
        if let Some(mut register) = self.0.get(usize::from(offset) / 4 % PER_FUNCTION) {
            register.write(value);
        }
    }
}
