//! The interrupt controller, as far as `wfi` needs it: an interrupt that stays masked must still
//! reach the processor (Arm Generic Interrupt Controller specification, version 2; GICv2m: Arm
//! Server Base System Architecture, appendix E).

#![expect(unsafe_code)]
// UNSAFETY: the addresses of `address` are those of this machine (contract "boards").

use super::address::{GICC, GICD, GICV2M};
use crate::pci::Message;
use core::mem::offset_of;
use safe_mmio::fields::{ReadOnly, ReadPure, ReadPureWrite, WriteOnly};
use safe_mmio::{UniqueMmioPointer, field, field_shared};

/// Registers of the distributor (section 4.3).
#[repr(C)]
struct Distributor {
    /// GICD_CTLR (4.3.1).
    control: WriteOnly<u32>,
    _unused: [u32; 63],
    /// GICD_ISENABLER (4.3.5): a bit for each interrupt; zeros change nothing.
    set_enabled: [WriteOnly<u32>; 32],
    _unused_too: [u32; 416],
    /// GICD_ITARGETSR (4.3.12): a byte for each interrupt.
    targets: [WriteOnly<u8>; 1024],
    /// GICD_ICFGR (4.3.13): two bits for each interrupt.
    kinds: [ReadPureWrite<u32>; 64],
}
const _: () = assert!(offset_of!(Distributor, set_enabled) == 0x100 && offset_of!(Distributor, kinds) == 0xC00);

/// Registers of this processor's interface (section 4.4).
#[repr(C)]
struct Interface {
    /// GICC_CTLR (4.4.1).
    control: WriteOnly<u32>,
    /// GICC_PMR (4.4.2).
    priority: WriteOnly<u32>,
    _unused: u32,
    /// GICC_IAR (4.4.4): reading takes the most urgent pending interrupt.
    take: ReadOnly<u32>,
    /// GICC_EOIR (4.4.5).
    done: WriteOnly<u32>,
}
const _: () = assert!(offset_of!(Interface, done) == 0x10);

/// Registers of the message window.
#[repr(C)]
struct Messages {
    _unused: [u32; 2],
    /// MSI_TYPER: which shared interrupts the window has.
    kind: ReadPure<u32>,
    _unused_too: [u32; 13],
    /// MSI_SETSPI_NS: a number written here makes that interrupt pending.
    set_pending: WriteOnly<u32>,
}
const _: () = assert!(offset_of!(Messages, set_pending) == 0x40);

/// Both CTLR registers.
const ENABLE: u32 = 1;
/// GICC_PMR: lets every priority pass; the private interrupts have 0, the highest, from reset on.
const ANY_PRIORITY: u32 = 0xFF;
/// Interrupts below this number are the processor's own.
const FIRST_SHARED: u32 = 32;
/// GICC_IAR: none is pending, from this number on.
const NONE: u32 = 1020;
/// An interrupt's bits in GICD_ICFGR: its edge counts, which is all that a message has.
const EDGE: u32 = 0b10;
/// GICD_ITARGETSR: this processor.
const THIS: u8 = 1;

/// The distributor, for the function of this module that runs.
fn distributor() -> UniqueMmioPointer<'static, Distributor> {
    // SAFETY: this machine's, mapped as device memory, without effects on memory. Used by
    // `message` and `forward`, which run one after the other while the board starts.
    unsafe { UniqueMmioPointer::new(GICD.cast()) }
}

/// The interface, for the function of this module that runs.
fn interface() -> UniqueMmioPointer<'static, Interface> {
    // SAFETY: as above. Used by `forward`, before there are interrupts, and `acknowledge`, which
    // runs with interrupts masked.
    unsafe { UniqueMmioPointer::new(GICC.cast()) }
}

/// The message that makes the first interrupt of the window pending, which is forwarded to this
/// processor.
pub(super) fn message() -> Option<Message> {
    // SAFETY: as in `distributor`; used here only, and the function writes its message as any
    // device of the machine may.
    let messages = unsafe { UniqueMmioPointer::<Messages>::new(GICV2M.cast()) };
    // Ten bits: all of the registers below exist.
    let number = field_shared!(messages, kind).read() >> 16 & 0x3FF;
    let (at, mut distributor) = (number as usize, distributor());
    field!(distributor, kinds).get(at / 16)?.modify(|kinds| kinds | EDGE << (2 * (number % 16)));
    field!(distributor, targets).get(at)?.write(THIS);
    field!(distributor, set_enabled).get(at / 32)?.write(1 << (number % 32));
    let address = GICV2M.addr().get() + offset_of!(Messages, set_pending);
    Some(Message { address: address as u64, data: number })
}

/// Takes every message that is pending. Not the timer's interrupt, which stays requested until the
/// timer is set again: it would come again and again. It is more urgent, so messages behind it stay
/// pending until then.
pub(super) fn acknowledge() {
    let mut interface = interface();
    loop {
        let taken = field!(interface, take).read();
        let number = taken & 0x3FF;
        if number >= NONE {
            return;
        }
        field!(interface, done).write(taken);
        if number < FIRST_SHARED {
            return;
        }
    }
}

/// Forwards one of this processor's private interrupts (16 to 31) to it.
pub(super) fn forward(interrupt: u32) {
    let (mut distributor, mut interface) = (distributor(), interface());
    if let Some(mut private) = field!(distributor, set_enabled).get(0) {
        private.write(1 << interrupt);
    }
    field!(interface, priority).write(ANY_PRIORITY);
    field!(interface, control).write(ENABLE);
    field!(distributor, control).write(ENABLE);
}
