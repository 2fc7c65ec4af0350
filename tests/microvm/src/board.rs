//! QEMU's `microvm`: a PC with few devices, entered by PVH. No firmware has assigned base address
//! registers on its bus.

#![expect(unsafe_code)]
// UNSAFETY: this file guarantees the addresses of `address` (contract "boards").

use crate::{address, clock};
use hamr_device_fw::arch::{DOORBELL, TimedSleep};
use hamr_device_fw::bare::{BareBoard, Hardware, StartError};
use hamr_device_fw::board::pc;
use hamr_device_fw::pci::{Bus, Ecam, Ivshmem, Space};

/// The board of QEMU's `microvm`.
pub(crate) struct Microvm;

impl BareBoard for Microvm {
    const NAME: &'static str = "qemu-microvm";

    fn start() -> Result<Hardware, StartError> {
        pc::mask_interrupts();
        // SAFETY: the configuration space of this machine: 256 buses of 1 MiB, which no other code
        // accesses. Page tables map it; an emulator has no caches, so it needs no attribute of
        // device memory.
        let ecam = unsafe { Ecam::new(address::ECAM, 256) };
        let mut bus = Bus { ecam, low: Space::new(address::WINDOW), high: Space::new(0..0), reach: address::REACH };
        // SAFETY: only the bus is in the machine's window, and no other function was given an
        // address there. Page tables map the first 512 GiB, and the emulator's caching is that of
        // the memory behind it, which is ordinary memory of the host. Called here only, and `start`
        // runs once.
        let mut card = unsafe { Ivshmem::find(&mut bus) }?;
        let timer =
            clock::timer().ok_or(StartError::Board("expected the interval timer (8254) to count, it does not"))?;
        // SAFETY: the processor's own message, whose vector has an entry.
        let has_doorbell = unsafe { card.listen(DOORBELL) }?;
        // The interrupt's entry has acknowledged it.
        let timed_sleep = if has_doorbell { TimedSleep::with_doorbell(timer, || {}) } else { TimedSleep::new(timer) };
        let (window, registers) = card.into_parts();
        Ok(Hardware { window, registers: Some(registers), timed_sleep })
    }

    fn console(text: &str) {
        pc::console(text);
    }

    fn exit(code: u8) -> ! {
        pc::exit(code)
    }
}
