//! Exceptions: a fault ends the handler that caused it; SysTick's interrupt finds runaways. The processor has stored eight
//! registers on the stack of what it interrupted, and those of floating point behind them.

#![expect(unsafe_code)]
// UNSAFETY: the entries run between two stacks.

use crate::arch::registers::{BFAR, CFSR, MMFAR};
use crate::bare::fault::{self, Trap};
use crate::bare::{memory, tick as bare_tick};
use core::arch::naked_asm;

/// EXC_RETURN: set in exceptions that have interrupted no other one; set without registers of floating point.
const FROM_THREAD: u32 = 1 << 3;
const NO_FLOATS: u32 = 1 << 4;
/// xPSR: one more word was left free, so that the stack is aligned.
const ALIGNED: u32 = 1 << 9;

/// Every fault, and what no code asks for.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn entry() -> ! {
    naked_asm!("mov r0, lr", "mrs r1, psp", "mov r2, r7", "mrs r3, ipsr", "b {trap}", trap = sym trap)
}

/// SysTick: returns to what it has interrupted, unless that is over its time.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn systick() {
    naked_asm!("mov r0, lr", "mrs r1, psp", "mov r2, r7", "b {tick}", tick = sym tick)
}

/// What was interrupted.
fn interrupted(exc_return: u32, stack: u32, frame: u32) -> Trap {
    // Where the stack had no room, nothing is there.
    let word = |place: u32| memory::stack_word(u64::from(stack) + 4 * u64::from(place)).unwrap_or(0);
    let [link, pc, state] = [5, 6, 7].map(word);
    let floats = if exc_return & NO_FLOATS == 0 { 18 * 4 } else { 0 };
    let free = if state as u32 & ALIGNED != 0 { 4 } else { 0 };
    let stack = u64::from(stack) + 32 + floats + free;
    let link = Some(link & !1);
    Trap { name: "", cause: 0, pc, address: 0, stack, frame: frame.into(), link }
}

extern "C" fn tick(exc_return: u32, stack: u32, frame: u32) {
    if super::tick::next() {
        bare_tick::tick(interrupted(exc_return, stack, frame));
    }
}

extern "C" fn trap(exc_return: u32, stack: u32, frame: u32, number: u32) -> ! {
    let status = CFSR.read();
    let (name, address) = match status {
        _ if status & 1 << 7 != 0 => ("access fault", MMFAR.read()),
        _ if status & 1 << 15 != 0 => ("bus fault", BFAR.read()),
        // The address is the stack's.
        _ if status & (1 << 4 | 1 << 12) != 0 => ("stack access fault", stack),
        _ if status & 1 != 0 => ("instruction access fault", 0),
        _ if status & 0xFF != 0 => ("access fault", 0),
        _ if status & 0xFF00 != 0 => ("bus fault", 0),
        _ if status & 1 << 16 != 0 => ("undefined instruction", 0),
        _ if status & 1 << 17 != 0 => ("illegal execution state", 0),
        _ if status & 1 << 24 != 0 => ("data address misaligned", 0),
        _ if status & 1 << 25 != 0 => ("division by zero", 0),
        _ if status != 0 => ("usage fault", 0),
        _ => ("unexpected exception", 0),
    };
    // SAFETY: each bit that is written as one becomes zero.
    unsafe { CFSR.write(status) };
    let trap = Trap { name, cause: number, address: address.into(), ..interrupted(exc_return, stack, frame) };
    if exc_return & FROM_THREAD == 0 {
        // The exception that it has interrupted would stay active.
        fault::ended(trap);
    }
    fault::trapped(trap)
}
