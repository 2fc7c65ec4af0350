//! QEMU's `q35`: a PC whose firmware has numbered the bus and placed every base address register,
//! entered by PVH.

#![expect(unsafe_code)]
// UNSAFETY: the addresses of `address` are those of this machine (`docs/unsafe.md` "boards").

mod address;

use super::{Register, pc};
use crate::arch::{DOORBELL, TimedSleep, Timer};
use crate::board::bare_board::{BareBoard, Hardware, StartError};
use crate::pci::{Bus, Ecam, Ivshmem, Space};

// SAFETY: read-only: what the event timer is.
const HPET_CAPABILITIES: Register<u64> = unsafe { Register::new(address::HPET_CAPABILITIES) };
// SAFETY: its switch. Its comparators stay off, so it does not interrupt.
const HPET_CONFIGURATION: Register<u64> = unsafe { Register::new(address::HPET_CONFIGURATION) };
// SAFETY: its counter.
const HPET_COUNTER: Register<u64> = unsafe { Register::new(address::HPET_COUNTER) };

/// HPET_CONFIGURATION: the counter runs.
const RUNS: u64 = 1;
const FEMTOSECONDS: u64 = 1_000_000_000_000_000;
/// Femtoseconds of a step at most (IA-PC HPET specification 1.0a, section 2.3.4).
const LONGEST_STEP: u64 = 100_000_000;

/// The machine that the module's head describes.
pub struct Q35;

impl BareBoard for Q35 {
    const NAME: &'static str = "qemu-q35";

    // Not inlined into the image's crate: here it is compiled for size.
    #[inline(never)]
    fn start() -> Result<Hardware, StartError> {
        pc::mask_interrupts();
        // SAFETY: where SeaBIOS puts the ECAM of q35: 256 buses of 1 MiB, accessed by nothing else.
        let ecam = unsafe { Ecam::new(address::ECAM, 256) };
        // Firmware places base address registers. It found no room for one without an address; an
        // address chosen here may be that of another device, so there are none to give.
        let mut bus = Bus { ecam, low: Space::new(0..0), high: Space::new(0..0), reach: address::REACH };
        // SAFETY: firmware uses addresses outside of RAM, and what is behind `REACH`, where page
        // tables end, is refused; and caching there is as firmware set it. Called here only, and
        // `start` runs once.
        let mut card = unsafe { Ivshmem::find(&mut bus) }?;
        let timer = timer().ok_or(StartError::Board("expected the event timer (HPET) to count, it does not"))?;
        // SAFETY: the processor's own message, whose vector has an entry.
        let rings = unsafe { card.listen(DOORBELL) }?;
        // The interrupt's entry has acknowledged the doorbell already.
        let timed_sleep = if rings { TimedSleep::with_doorbell(timer, || {}) } else { TimedSleep::new(timer) };
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

/// The processor's timers, measured by the machine's.
fn timer() -> Option<Timer> {
    let step = HPET_CAPABILITIES.read() >> 32;
    let hz = (1..=LONGEST_STEP).contains(&step).then(|| FEMTOSECONDS / step)?;
    HPET_CONFIGURATION.write(RUNS);
    Timer::new(|| HPET_COUNTER.read(), hz)
}
