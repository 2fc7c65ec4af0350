//! Ringing the host; and its rings that come while the image does not sleep. Interrupts are on then, for the tick: one of the
//! doorbell is taken, and must still end the sleep that the image may be about to begin.

use super::runtime::RUNTIME;
use core::sync::atomic::Ordering;

/// Says what to write to ring this side.
pub(super) fn name(doorbell: u32) {
    if let Some(word) = RUNTIME.found().and_then(|found| found.own_bell.as_ref()) {
        word.word().store(doorbell);
    }
}

/// The host rang: called by the interrupt's entry. False where nothing expects that, and the interrupt stays pending.
#[cfg_attr(target_arch = "x86_64", expect(dead_code, reason = "the entry of x86_64 acknowledges by itself"))]
pub(crate) fn notified() -> bool {
    let Some(acknowledge) = RUNTIME.found().and_then(|found| found.acknowledge) else { return false };
    acknowledge();
    RUNTIME.notified.store(1, Ordering::Relaxed);
    true
}

/// Has the host rung since the last sleep?
pub(super) fn is_notified() -> bool {
    RUNTIME.notified.load(Ordering::Relaxed) != 0
}

/// Has the host rung since the last question? Asked with interrupts masked, right before sleeping.
pub(super) fn was_notified() -> bool {
    RUNTIME.notified.swap(0, Ordering::Relaxed) != 0
}
