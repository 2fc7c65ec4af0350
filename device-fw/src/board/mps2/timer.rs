//! The CMSDK APB timer, a counter without interrupts (Arm DDI 0479, section 4.1).

#![expect(unsafe_code)]
// UNSAFETY: the address is that of this machine (contract "boards").

use super::address::TIMER;
use safe_mmio::fields::{ReadPureWrite, WriteOnly};
use safe_mmio::{UniqueMmioPointer, field, field_shared};

#[repr(C)]
struct Registers {
    control: WriteOnly<u32>,
    /// Counts down.
    value: ReadPureWrite<u32>,
    reload: WriteOnly<u32>,
}

fn registers() -> UniqueMmioPointer<'static, Registers> {
    // SAFETY: this machine's timer, which reaches no memory; behind `turn_on` it is only read.
    unsafe { UniqueMmioPointer::new(TIMER.cast()) }
}

pub(super) fn turn_on() {
    let mut timer = registers();
    field!(timer, reload).write(u32::MAX);
    field!(timer, value).write(u32::MAX);
    field!(timer, control).write(1);
}

/// Steps since then, mod 2^32.
pub(super) fn count() -> u32 {
    let timer = registers();
    !field_shared!(timer, value).read()
}
