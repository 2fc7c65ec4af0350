//! The local APIC of the processor that runs this code, and the vectors that its interrupts come by
//! (Intel SDM volume 3, chapter 11).

#![expect(unsafe_code)]
// UNSAFETY: registers at an address that the architecture names.

use core::mem::offset_of;
use core::ptr::NonNull;
use safe_mmio::fields::{ReadPure, WriteOnly};
use safe_mmio::{UniqueMmioPointer, field};

/// Its registers (table 11-1).
#[repr(C)]
pub(super) struct Apic {
    _unused_1: [u32; 60],
    /// Spurious interrupt vector (section 11.9), which also switches the APIC on.
    pub(super) spurious: WriteOnly<u32>,
    _unused_2: [u32; 139],
    /// Local vector table (11.5.1): the timer.
    pub(super) lvt_timer: WriteOnly<u32>,
    _unused_3: [u32; 11],
    /// Local vector table: the pin that the old interrupt controllers are wired to.
    pub(super) lvt_lint0: WriteOnly<u32>,
    _unused_4: [u32; 11],
    /// The count that the timer starts from (11.5.4); writing starts it, 0 stops it.
    pub(super) initial: WriteOnly<u32>,
    _unused_5: [u32; 3],
    /// The count now.
    pub(super) current: ReadPure<u32>,
    _unused_6: [u32; 19],
    /// By what the timer's clock is divided.
    pub(super) divide: WriteOnly<u32>,
}
const _: () = assert!(offset_of!(Apic, spurious) == 0xF0 && offset_of!(Apic, lvt_timer) == 0x320);
const _: () = assert!(offset_of!(Apic, initial) == 0x380 && offset_of!(Apic, divide) == 0x3E0);

/// Where its registers are.
pub(super) const BASE: usize = 0xFEE0_0000;
/// Where a handled interrupt is acknowledged, in assembly (section 11.8.5).
pub(crate) const END_OF_INTERRUPT: usize = BASE + 0xB0;

/// Vectors of the timer, of the doorbell, and of interrupts that vanished before they were
/// delivered (its low 4 bits must be set).
pub(crate) const TIMER_VECTOR: u8 = 0x20;
pub(crate) const DOORBELL_VECTOR: u8 = 0x21;
pub(crate) const SPURIOUS_VECTOR: u8 = 0x2F;

/// The registers, for the function that calls this.
pub(super) fn apic() -> UniqueMmioPointer<'static, Apic> {
    const AT: NonNull<Apic> = NonNull::new(BASE as *mut _).expect("not zero");
    // SAFETY: the architecture's address, never moved, without effects on memory. Functions access
    // the registers with interrupts off, so that no interrupt's access comes between.
    unsafe { UniqueMmioPointer::new(AT) }
}

/// Makes the timer count down from `steps`; 0 stops it.
pub(crate) fn start_count(steps: u32) {
    let mut apic = apic();
    field!(apic, initial).write(steps);
}
