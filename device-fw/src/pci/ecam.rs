//! Configuration space through the enhanced access mechanism: memory, 4 KiB a function (PCI Express
//! base specification, section 7.2.2; `docs/unsafe.md` "configuration space").

#![expect(unsafe_code)]
// UNSAFETY: configuration registers are memory at an address that only the board knows.

use core::ptr::NonNull;

/// Vendor number of a function that is not there.
const NO_DEVICE: u16 = 0xFFFF;
/// Functions of one bus.
const PER_BUS: u32 = 256;

/// The configuration space of some buses.
pub struct Ecam {
    base: NonNull<u32>,
    buses: u32,
}

impl Ecam {
    /// Configuration space of `buses` buses at `base`.
    ///
    /// # Safety
    /// `base` is the address of `buses` MiB of configuration space, mapped as device memory for as
    /// long as the image runs, and nothing else in the image writes there.
    pub const unsafe fn new(base: NonNull<u32>, buses: u32) -> Self {
        Self { base, buses }
    }

    /// Every function that is there, in the order of bus, device and function number. Buses behind
    /// bridges are seen where firmware has numbered them.
    pub(super) fn functions(&self) -> impl Iterator<Item = Function<'_>> {
        (0..self.buses * PER_BUS)
            .map(|number| Function { ecam: self, number })
            .filter(|function| function.id().0 != NO_DEVICE)
    }

    fn register(&self, function: u32, offset: u16) -> NonNull<u32> {
        let index = (function as usize) << 10 | usize::from(offset & 0xFFC) >> 2;
        // SAFETY: a function number is below 256 times the number of buses and an offset below 4
        // KiB (masked), so the register is in the configuration space at `base` (contract of
        // `new`).
        unsafe { self.base.add(index) }
    }
}

/// One function.
#[derive(Clone, Copy)]
pub(super) struct Function<'e> {
    ecam: &'e Ecam,
    number: u32,
}

impl Function<'_> {
    /// Vendor and device number.
    pub(super) fn id(&self) -> (u16, u16) {
        let word = self.read(0);
        (word as u16, (word >> 16) as u16)
    }

    /// The register at `offset`, a multiple of 4 below 4096.
    pub(super) fn read(&self, offset: u16) -> u32 {
        // SAFETY: the register is in mapped configuration space (`Ecam::register`) and aligned;
        // reading configuration registers has no side effect that Rust could notice.
        unsafe { self.ecam.register(self.number, offset).read_volatile() }
    }

    /// Writes the register at `offset`, a multiple of 4 below 4096. The effect depends on the
    /// function; no code uses memory that a write makes appear or move before [`super::Bar`]
    /// returns its address.
    pub(super) fn write(&self, offset: u16, value: u32) {
        // SAFETY: as in `read`; the image has no other access to configuration space (contract of
        // `Ecam::new`), and no code outside of this module can write it and move memory that is in
        // use.
        unsafe { self.ecam.register(self.number, offset).write_volatile(value) };
    }
}
