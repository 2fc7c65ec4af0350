//! Interrupts beside the tick's.

#![expect(unsafe_code)]
// UNSAFETY: the entries run on no stack of Rust's.

use crate::arch::apic::END_OF_INTERRUPT;
use crate::bare::runtime::{RUNTIME, Runtime};
use core::arch::naked_asm;
use core::mem::offset_of;

/// The doorbell: ends `hlt`, or is remembered for the next one.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn notified() -> ! {
    naked_asm!(
        "push rax",
        "mov dword ptr [rip + {runtime} + {notified}], 1",
        "mov eax, {end}",
        "mov dword ptr [rax], 0",
        "pop rax",
        "iretq",
        runtime = sym RUNTIME,
        notified = const offset_of!(Runtime, notified),
        end = const END_OF_INTERRUPT,
    )
}

/// A spurious interrupt: is not acknowledged.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn spurious() -> ! {
    naked_asm!("iretq")
}
