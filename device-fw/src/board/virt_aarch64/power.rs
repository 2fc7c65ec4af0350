//! The end of the machine: semihosting, which has an exit code, else PSCI, which has none.

#![expect(unsafe_code)]
// UNSAFETY: both are instructions that the emulator or firmware around the machine executes.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering};

/// Semihosting's operation, and its reason "application exit".
const SYS_EXIT_EXTENDED: u64 = 0x20;
const APPLICATION_EXIT: u64 = 0x2_0026;
/// PSCI's function.
const SYSTEM_OFF: u64 = 0x8400_0008;

/// Count of the ways that were tried. Where a way is not supported, its instruction traps, which
/// leads to another call of [`off`] (and to text on the console).
static TRIED: AtomicU32 = AtomicU32::new(0);

/// Ends the machine.
pub(super) fn off(code: u8) -> ! {
    match TRIED.fetch_add(1, Ordering::Relaxed) {
        0 => {
            let block = [APPLICATION_EXIT, u64::from(code)];
            // SAFETY: ends the machine, traps, or does nothing; reads the block at most.
            unsafe { asm!("hlt #0xF000", inout("x0") SYS_EXIT_EXTENDED => _, in("x1") &block, options(nostack)) };
            off(code)
        }
        1 => {
            // SAFETY: ends the machine, traps, or returns an error; the calling convention clobbers
            // x0 to x17.
            unsafe { asm!("hvc #0", inout("x0") SYSTEM_OFF => _, clobber_abi("C"), options(nostack)) };
            off(code)
        }
        _ => loop {
            core::hint::spin_loop();
        },
    }
}
