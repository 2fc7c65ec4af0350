//! QEMU's `virt` machine for aarch64, without firmware: the image runs at exception level 1.

#![expect(unsafe_code)]
// UNSAFETY: the addresses of `address` are those of this machine (contract "boards").

mod address;
mod gic;
mod power;
mod uart;

use crate::arch::{TimedSleep, Timer};
use crate::board::bare_board::{BareBoard, Hardware, StartError};
use crate::board::window::reserved_window;
use crate::pci::{Bus, Ecam, Ivshmem, PciError, Space};

/// The machine that the module's head describes.
pub struct VirtAarch64;

impl BareBoard for VirtAarch64 {
    const NAME: &'static str = "qemu-virt";

    // Not inlined into the image's crate: here it is compiled for size.
    #[inline(never)]
    fn start() -> Result<Hardware, StartError> {
        uart::turn_on();
        gic::forward(address::TIMER_INTERRUPT);
        // SAFETY: the ECAM of QEMU's virt machine: 256 buses of 1 MiB, mapped as device memory,
        // accessed by nothing else.
        let ecam = unsafe { Ecam::new(address::ECAM, 256) };
        let mut bus = Bus {
            ecam,
            low: Space::new(address::LOW_MMIO),
            high: Space::new(address::HIGH_MMIO),
            reach: address::REACH,
        };
        // SAFETY: both spaces are the machine's windows for memory of PCI functions.
        // `bare/aarch64/tables` maps the low one, where registers go, as device memory and the high
        // one, where the 64-bit BAR of the memory goes and always has room (512 GiB), as normal
        // memory. Called here only, and `start` runs once.
        let card = unsafe { Ivshmem::find(&mut bus) };
        let timer = Timer::of_this_processor();
        let mut card = match card {
            Ok(card) => card,
            Err(missing @ PciError::NoDevice { .. }) => {
                let window = reserved_window().map_err(|_| missing)?;
                return Ok(Hardware::without_doorbell(window, timer));
            }
            Err(other) => return Err(other.into()),
        };
        let message = gic::message().ok_or(StartError::Board("no interrupt is left for messages"))?;
        // SAFETY: the message window of the interrupt controller, which takes the numbers of its
        // own interrupts.
        let has_doorbell = unsafe { card.listen(message) }?;
        let timed_sleep =
            if has_doorbell { TimedSleep::with_doorbell(timer, gic::acknowledge) } else { TimedSleep::new(timer) };
        let (window, registers) = card.into_parts();
        Ok(Hardware { window, registers: Some(registers), timed_sleep })
    }

    fn console(text: &str) {
        text.bytes().for_each(uart::put);
    }

    fn exit(code: u8) -> ! {
        power::off(code)
    }
}
