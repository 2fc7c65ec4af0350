//! The interrupt controller, as far as `wfi` needs it: an interrupt that stays masked must still reach the processor
//! (Arm Generic Interrupt Controller specification, version 2).

#![expect(unsafe_code)]
// UNSAFETY: see `board::register`.

use super::address::{GICC, GICD};
use crate::board::Register;

/// Both CTLR registers.
const ENABLE: u32 = 1;
/// GICC_PMR: lets every priority pass; the private interrupts have 0, the highest, from reset on.
const ANY_PRIORITY: u32 = 0xFF;

// SAFETY: GICD_CTLR.
const DISTRIBUTOR: Register<u32> = unsafe { Register::new(GICD) };
// SAFETY: GICD_ISENABLER0, where interrupts private to this processor are enabled; zeros change nothing.
const SET_ENABLED: Register<u32> = unsafe { Register::new(GICD + 0x100) };
// SAFETY: GICC_CTLR.
const INTERFACE: Register<u32> = unsafe { Register::new(GICC) };
// SAFETY: GICC_PMR.
const PRIORITY: Register<u32> = unsafe { Register::new(GICC + 4) };

/// Forwards one of this processor's private interrupts (16 to 31) to it.
pub(super) fn forward(interrupt: u32) {
    SET_ENABLED.write(1 << interrupt);
    PRIORITY.write(ANY_PRIORITY);
    INTERFACE.write(ENABLE);
    DISTRIBUTOR.write(ENABLE);
}
