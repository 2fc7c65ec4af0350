//! Interrupts beside the tick's.

#![expect(unsafe_code)]
// UNSAFETY: the entries run on no stack of Rust's.

use super::timer::END_OF_INTERRUPT;
use core::arch::naked_asm;

/// The doorbell: ends `hlt`, or is kept in mind for the next one.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn rung() -> ! {
    naked_asm!(
        "push rax",
        "mov dword ptr [rip + {rung}], 1",
        "mov eax, {end}",
        "mov dword ptr [rax], 0",
        "pop rax",
        "iretq",
        rung = sym crate::bare::doorbell::RUNG,
        end = const END_OF_INTERRUPT,
    )
}

/// A spurious interrupt: is not acknowledged.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn spurious() -> ! {
    naked_asm!("iretq")
}
