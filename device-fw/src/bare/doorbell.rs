//! Ringing the host; and its rings that come while the image does not sleep. Interrupts are on then, for the tick: one of the
//! doorbell is taken, and must still end the sleep that the image may be about to begin.

use crate::pci::Registers;
use core::sync::atomic::{AtomicU32, Ordering};
use hamr_comm::abi::preamble::word;
use hamr_comm::abi::window::{DeviceWindow, KeptWord};
use spin::Mutex;

/// The host's doorbell: the card's register, and the word that says what to write there.
pub(super) struct Bell {
    registers: Registers,
    host: KeptWord<()>,
}

impl Bell {
    /// `None` where the window is too short for a preamble.
    pub(super) fn of(registers: &Registers, window: &DeviceWindow<()>) -> Option<Self> {
        Some(Self { registers: registers.again(), host: window.keep_word(word::HOST_BELL).ok()? })
    }

    /// Rings it.
    pub(super) fn ring(&mut self) {
        self.registers.ring(self.host.word().load());
    }
}

/// Not zero: the host has rung. Also stored by x86_64's entry, in assembly.
pub(crate) static RUNG: AtomicU32 = AtomicU32::new(0);
static ACKNOWLEDGE: Mutex<Option<fn()>> = Mutex::new(None);

/// Where the host learns what to write to ring this side. Not on the stack that the runtime's state is on: a new epoch after a
/// fault needs it.
static NAME: Mutex<Option<KeptWord<()>>> = Mutex::new(None);

/// Where [`name`] says it.
pub(super) fn name_in(word: Option<KeptWord<()>>) {
    *NAME.lock() = word;
}

/// Says what to write to ring this side.
pub(super) fn name(bell: u32) {
    if let Some(Some(word)) = NAME.try_lock().as_deref() {
        word.word().store(bell);
    }
}

/// How the board takes its rings.
pub(super) fn connect(acknowledge: Option<fn()>) {
    *ACKNOWLEDGE.lock() = acknowledge;
}

/// The host rang: called by the interrupt's entry. False where nobody expects that, and the interrupt stays pending.
#[allow(dead_code, reason = "the entry of x86_64 acknowledges by itself")]
pub(crate) fn rung() -> bool {
    let acknowledge = ACKNOWLEDGE.try_lock().and_then(|known| *known);
    let Some(acknowledge) = acknowledge else { return false };
    acknowledge();
    RUNG.store(1, Ordering::Relaxed);
    true
}

/// Has the host rung since the last sleep?
pub(super) fn is_rung() -> bool {
    RUNG.load(Ordering::Relaxed) != 0
}

/// Has the host rung since the last question? Asked with interrupts masked, right before sleeping.
pub(super) fn was_rung() -> bool {
    RUNG.swap(0, Ordering::Relaxed) != 0
}
