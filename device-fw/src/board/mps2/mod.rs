//! QEMU's `mps2-an386`: Arm's MPS2 board with a Cortex-M4. The window is memory of the image, in the board's PSRAM
//! (`linker/scripts/memory-arm.x`), which QEMU has in a file that the host maps.

#![expect(unsafe_code)]
// UNSAFETY: the addresses of `address` are those of this machine (contract "boards"), and semihosting is an instruction.

mod address;
mod timer;
mod uart;

use crate::arch::Timer;
use crate::board::bare_board::{BareBoard, Hardware, StartError};
use crate::board::window::reserved_window;
use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};

/// Semihosting's operation, and its reason "application exit".
const SYS_EXIT_EXTENDED: u32 = 0x20;
const APPLICATION_EXIT: u32 = 0x2_0026;

/// The machine that the module's head describes.
pub struct Mps2An386;

impl BareBoard for Mps2An386 {
    const NAME: &'static str = "mps2-an386";

    // Not inlined into the image's crate: here it is compiled for size.
    #[inline(never)]
    fn start() -> Result<Hardware, StartError> {
        uart::turn_on();
        timer::turn_on();
        let timer = Timer::new(address::CLOCK_HZ, timer::count, address::CLOCK_HZ);
        Ok(Hardware::without_doorbell(reserved_window()?, timer))
    }

    fn console(text: &str) {
        text.bytes().for_each(uart::put);
    }

    fn exit(code: u8) -> ! {
        // Without a debugger or emulator that knows semihosting the instruction is a fault, which comes here again.
        static TRIED: AtomicBool = AtomicBool::new(false);
        if !TRIED.swap(true, Ordering::Relaxed) {
            let block = [APPLICATION_EXIT, u32::from(code)];
            // SAFETY: ends the machine, faults, or does nothing; reads the block at most.
            unsafe { asm!("bkpt #0xAB", inout("r0") SYS_EXIT_EXTENDED => _, in("r1") &block, options(nostack)) };
        }
        loop {
            core::hint::spin_loop();
        }
    }
}
