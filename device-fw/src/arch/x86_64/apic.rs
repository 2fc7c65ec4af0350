//! The local APIC of the processor that runs this code, and the vectors that its interrupts come by
//! (Intel SDM volume 3, chapter 11).

#![expect(unsafe_code)]
// UNSAFETY: a register at an address that the architecture names.

use crate::register::Register;

/// Where its registers are.
pub(super) const APIC: usize = 0xFEE0_0000;
/// Where a handled interrupt is acknowledged (table 11-1, "EOI register").
pub(crate) const END_OF_INTERRUPT: usize = APIC + 0xB0;
// SAFETY: the count that the timer starts from; writing starts it, 0 stops it.
pub(crate) const INITIAL: Register<u32> = unsafe { Register::new(APIC + 0x380) };

/// Vectors of the timer, of the doorbell, and of interrupts that vanished before they were
/// delivered (its low 4 bits must be set).
pub(crate) const TIMER_VECTOR: u8 = 0x20;
pub(crate) const DOORBELL_VECTOR: u8 = 0x21;
pub(crate) const SPURIOUS_VECTOR: u8 = 0x2F;
