//! The interrupt controller, as far as `wfi` needs it: an interrupt that stays masked must still
//! reach the processor (Arm Generic Interrupt Controller specification, version 2; GICv2m: Arm
//! Server Base System Architecture, appendix E).

#![expect(unsafe_code)]
// UNSAFETY: see `register`.

use super::address::{GICC, GICD, GICV2M};
use crate::board::Register;
use crate::pci::Message;

/// Both CTLR registers.
const ENABLE: u32 = 1;
/// GICC_PMR: lets every priority pass; the private interrupts have 0, the highest, from reset on.
const ANY_PRIORITY: u32 = 0xFF;

// SAFETY: GICD_CTLR.
const DISTRIBUTOR: Register<u32> = unsafe { Register::new(GICD) };
// SAFETY: GICD_ISENABLER0, where interrupts private to this processor are enabled; zeros change
// nothing.
const SET_ENABLED: Register<u32> = unsafe { Register::new(GICD + 0x100) };
// SAFETY: GICC_CTLR.
const INTERFACE: Register<u32> = unsafe { Register::new(GICC) };
// SAFETY: GICC_PMR.
const PRIORITY: Register<u32> = unsafe { Register::new(GICC + 4) };

// SAFETY: GICC_IAR, whose reading takes the most urgent pending interrupt.
const TAKE: Register<u32> = unsafe { Register::new(GICC + 0xC) };
// SAFETY: GICC_EOIR.
const DONE: Register<u32> = unsafe { Register::new(GICC + 0x10) };
// SAFETY: MSI_TYPER: which shared interrupts the message window has.
const MESSAGES: Register<u32> = unsafe { Register::new(GICV2M + 8) };
/// MSI_SETSPI_NS: a number written here makes that interrupt pending.
const SET_PENDING: u64 = GICV2M as u64 + 0x40;

/// Interrupts below this number are the processor's own.
const FIRST_SHARED: u32 = 32;
/// GICC_IAR: none is pending, from this number on.
const NONE: u32 = 1020;
/// An interrupt's bits in GICD_ICFGR: its edge counts, which is all that a message has.
const EDGE: u32 = 0b10;
/// GICD_ITARGETSR: this processor.
const THIS: u8 = 1;

/// The message that makes the first interrupt of the window pending, which is forwarded to this
/// processor.
pub(super) fn message() -> Message {
    // Ten bits: all of the registers below exist.
    let number = MESSAGES.read() >> 16 & 0x3FF;
    let at = number as usize;
    // SAFETY: GICD_ICFGR of this interrupt.
    let kind: Register<u32> = unsafe { Register::new(GICD + 0xC00 + 4 * (at / 16)) };
    // SAFETY: GICD_ITARGETSR of this interrupt, a byte.
    let target: Register<u8> = unsafe { Register::new(GICD + 0x800 + at) };
    // SAFETY: GICD_ISENABLER of this interrupt; zeros change nothing.
    let enabled: Register<u32> = unsafe { Register::new(GICD + 0x100 + 4 * (at / 32)) };
    kind.write(kind.read() | EDGE << (2 * (number % 16)));
    target.write(THIS);
    enabled.write(1 << (number % 32));
    Message { address: SET_PENDING, data: number }
}

/// Takes every message that is pending. Not the timer's interrupt, which stays requested until the
/// timer is set again: it would come again and again. It is more urgent, so messages behind it stay
/// pending until then.
pub(super) fn acknowledge() {
    loop {
        let taken = TAKE.read();
        let number = taken & 0x3FF;
        if number >= NONE {
            return;
        }
        DONE.write(taken);
        if number < FIRST_SHARED {
            return;
        }
    }
}

/// Forwards one of this processor's private interrupts (16 to 31) to it.
pub(super) fn forward(interrupt: u32) {
    SET_ENABLED.write(1 << interrupt);
    PRIORITY.write(ANY_PRIORITY);
    INTERFACE.write(ENABLE);
    DISTRIBUTOR.write(ENABLE);
}
