//! Interrupts: the timer's and the doorbell's only end a sleep.

#![expect(unsafe_code)]
// UNSAFETY: the entries run on no stack of Rust's.

use super::timer::END_OF_INTERRUPT;
use core::arch::naked_asm;

/// The timer, or the doorbell: its interrupt did its work by ending `hlt`.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn woken() -> ! {
    naked_asm!(
        "push rax",
        "mov eax, {end}",
        "mov dword ptr [rax], 0",
        "pop rax",
        "iretq",
        end = const END_OF_INTERRUPT,
    )
}

/// A spurious interrupt: is not acknowledged.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn spurious() -> ! {
    naked_asm!("iretq")
}
