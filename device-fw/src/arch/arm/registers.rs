//! Registers of the processor that are memory: the System Control Space, at the same addresses in every ARMv7-M processor
//! (architecture reference manual, B3.2 and B3.3).

#![expect(unsafe_code)]
// UNSAFETY: registers at fixed addresses.

/// One of them, of 32 bits.
#[derive(Clone, Copy)]
pub(crate) struct Register(usize);

/// SysTick: control, reload value, current value.
pub(crate) const SYST_CSR: Register = Register(0xE000_E010);
pub(crate) const SYST_RVR: Register = Register(0xE000_E014);
pub(crate) const SYST_CVR: Register = Register(0xE000_E018);
/// Configurable faults, and the addresses of two kinds.
pub(crate) const CFSR: Register = Register(0xE000_ED28);
pub(crate) const MMFAR: Register = Register(0xE000_ED34);
pub(crate) const BFAR: Register = Register(0xE000_ED38);
/// Regions of the memory protection unit.
#[cfg(feature = "tasks")]
pub(crate) const MPU_TYPE: Register = Register(0xE000_ED90);
#[cfg(feature = "tasks")]
pub(crate) const MPU_RBAR: Register = Register(0xE000_ED9C);
#[cfg(feature = "tasks")]
pub(crate) const MPU_RASR: Register = Register(0xE000_EDA0);

impl Register {
    pub(crate) fn read(self) -> u32 {
        // SAFETY: a register of every processor that this module is for; reading one of those above has no effect but that of
        // SYST_CSR, whose flag no code uses.
        unsafe { core::ptr::with_exposed_provenance::<u32>(self.0).read_volatile() }
    }

    /// # Safety
    /// What the value does affects no memory that a Rust object is in.
    pub(crate) unsafe fn write(self, value: u32) {
        // SAFETY: as in `read`; the contract.
        unsafe { core::ptr::with_exposed_provenance_mut::<u32>(self.0).write_volatile(value) };
    }
}
