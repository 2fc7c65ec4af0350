//! Rings that come while the image does not sleep. Interrupts are on then, for the tick: one of the doorbell is taken, and must
//! still end the sleep that the image may be about to begin.

use core::sync::atomic::{AtomicU32, Ordering};
use spin::Once;

/// Not zero: the host has rung. Also stored by x86_64's entry, in assembly.
pub(crate) static RUNG: AtomicU32 = AtomicU32::new(0);
static ACKNOWLEDGE: Once<fn()> = Once::new();

/// How the board takes its rings.
pub(super) fn connect(acknowledge: Option<fn()>) {
    if let Some(acknowledge) = acknowledge {
        ACKNOWLEDGE.call_once(|| acknowledge);
    }
}

/// The host rang: called by the interrupt's entry. False where nobody expects that, and the interrupt stays pending.
#[allow(dead_code, reason = "the entry of x86_64 acknowledges by itself")]
pub(crate) fn rung() -> bool {
    let Some(acknowledge) = ACKNOWLEDGE.get() else { return false };
    acknowledge();
    RUNG.store(1, Ordering::Relaxed);
    true
}

/// Has the host rung since the last question? Asked with interrupts masked, right before sleeping.
pub(super) fn was_rung() -> bool {
    RUNG.swap(0, Ordering::Relaxed) != 0
}
