//! QEMU's `virt` machine for riscv64, without firmware: the image is entered in machine mode.

#![expect(unsafe_code)]
// UNSAFETY: the addresses of `address` are those of this machine (contract "boards").

mod address;
mod uart;

use crate::arch::{TimedSleep, Timer, imsic};
use crate::board::bare_board::{BareBoard, Hardware, StartError};
use crate::board::window::reserved_window;
use crate::pci::{Bus, Ecam, Ivshmem, Message, PciError, Space};
use safe_mmio::UniqueMmioPointer;
use safe_mmio::fields::WriteOnly;

/// Any number but zero would do: no other interrupt is enabled.
const DOORBELL: Message = Message { address: address::IMSIC, data: 5 };

/// The machine that the module's head describes.
pub struct VirtRiscv64;

impl BareBoard for VirtRiscv64 {
    const NAME: &'static str = "qemu-virt";

    // Not inlined into the image's crate: here it is compiled for size.
    #[inline(never)]
    fn start() -> Result<Hardware, StartError> {
        // SAFETY: the ECAM of QEMU's virt machine: 256 buses of 1 MiB, accessed by nothing else.
        let ecam = unsafe { Ecam::new(address::ECAM, 256) };
        let mut bus =
            Bus { ecam, low: Space::new(address::LOW_MMIO), high: Space::new(address::HIGH_MMIO), reach: u64::MAX };
        // SAFETY: both spaces are the machine's windows for memory of PCI functions; machine mode
        // has no translation, and an address in them is memory or a register by the device behind
        // it. Called here only, and `start` runs once.
        let card = unsafe { Ivshmem::find(&mut bus) };
        let timer = Timer::new(set_compare, address::TIMER_HZ);
        let mut card = match card {
            Ok(card) => card,
            Err(missing @ PciError::NoDevice { .. }) => {
                let window = reserved_window().map_err(|_| missing)?;
                return Ok(Hardware::without_doorbell(window, timer));
            }
            Err(other) => return Err(other.into()),
        };
        // SAFETY: hart 0's interrupt file, which takes interrupt numbers. Where the machine has
        // none (without `aia=aplic-imsic`), no device is at its address, and the notification is
        // lost.
        let has_doorbell = unsafe { card.listen(DOORBELL) }? && imsic::forward(DOORBELL.data);
        let timed_sleep =
            if has_doorbell { TimedSleep::with_doorbell(timer, imsic::acknowledge) } else { TimedSleep::new(timer) };
        let (window, registers) = card.into_parts();
        Ok(Hardware { window, registers: Some(registers), timed_sleep })
    }

    fn console(text: &str) {
        text.bytes().for_each(uart::put);
    }

    fn exit(code: u8) -> ! {
        // SAFETY: sifive_test of QEMU's virt machine, used here only; a write to it ends the machine
        // or does nothing.
        let mut test = unsafe { UniqueMmioPointer::<WriteOnly<u32>>::new(address::TEST.cast()) };
        test.write(if code == 0 { address::PASS } else { u32::from(code) << 16 | address::FAIL });
        loop {
            core::hint::spin_loop();
        }
    }
}

/// Sets when the timer interrupts.
fn set_compare(time: u64) {
    // SAFETY: the timer compare register of hart 0 in the ACLINT, used here only, with interrupts
    // off.
    unsafe { UniqueMmioPointer::<WriteOnly<u64>>::new(address::MTIMECMP.cast()) }.write(time);
}
