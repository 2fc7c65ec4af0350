//! QEMU's `q35`: a PC whose firmware has numbered the bus and placed every base address register,
//! entered by PVH.

#![expect(unsafe_code)]
// UNSAFETY: the addresses of `address` are those of this machine (contract "boards").

mod address;

use super::pc;
use crate::arch::{DOORBELL, TimedSleep, Timer};
use crate::board::bare_board::{BareBoard, Hardware, StartError};
use crate::pci::{Bus, Ecam, Ivshmem, Space};
use core::mem::offset_of;
use hamr_comm::abi::split::Split;
use safe_mmio::fields::{ReadPure, WriteOnly};
use safe_mmio::{UniqueMmioPointer, field, field_shared};

/// Registers of the event timer (IA-PC HPET specification 1.0a).
#[repr(C)]
struct Hpet {
    /// Capabilities (section 2.3.4): the upper half is the femtoseconds of a step.
    capabilities: ReadPure<u64>,
    _unused: u64,
    /// Configuration (2.3.5).
    configuration: WriteOnly<u64>,
    _unused_too: [u64; 27],
    /// Main counter (2.3.7).
    counter: ReadPure<u64>,
}
const _: () = assert!(offset_of!(Hpet, counter) == 0xF0);

/// Configuration: the counter runs. The comparators stay off, so the timer does not interrupt.
const RUNS: u64 = 1;
const FEMTOSECONDS: u64 = 1_000_000_000_000_000;
/// Femtoseconds of a step at most (section 2.3.4).
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
        // address chosen here may be that of another device, so there are none to give, but to two that
        // must follow each other: far behind all that firmware places.
        let high = if Split::IS_SUPPORTED { address::PAIR } else { 0..0 };
        let mut bus = Bus { ecam, low: Space::new(0..0), high: Space::new(high), reach: address::REACH };
        // SAFETY: firmware uses addresses outside of RAM, and what is behind `REACH`, where page
        // tables end, is refused; and caching there is as firmware set it. Called here only, and
        // `start` runs once.
        let mut card = unsafe { Ivshmem::find(&mut bus) }?;
        let timer = timer().ok_or(StartError::Board("expected the event timer (HPET) to count, it does not"))?;
        // SAFETY: the processor's own message, whose vector has an entry.
        let has_doorbell = unsafe { card.listen(DOORBELL) }?;
        // The interrupt's entry has acknowledged the doorbell already.
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

/// The processor's timers, measured by the machine's.
fn timer() -> Option<Timer> {
    // SAFETY: where SeaBIOS leaves the event timer, which reaches no memory. Used here only, and
    // `start` calls this once.
    let mut hpet = unsafe { UniqueMmioPointer::<Hpet>::new(address::HPET.cast()) };
    let step = field_shared!(hpet, capabilities).read() >> 32;
    let hz = (1..=LONGEST_STEP).contains(&step).then(|| FEMTOSECONDS / step)?;
    field!(hpet, configuration).write(RUNS);
    Timer::new(|| field_shared!(hpet, counter).read(), hz)
}
