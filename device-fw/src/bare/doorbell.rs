//! The device's doorbell, while the image does not sleep. Interrupts are on then, for the tick: the
//! doorbell's interrupt is taken, and must still end the sleep that the image may be about to
//! begin. So it is remembered until the next sleep.

use super::runtime::RUNTIME;
use core::sync::atomic::Ordering;

/// Publishes the value that the host writes to notify this device.
pub(super) fn name(doorbell: u32) {
    if let Some(word) = RUNTIME.found().and_then(|found| found.own_doorbell.as_ref()) {
        word.word().store(doorbell);
    }
}

/// The host has notified: called by the interrupt's entry. False where the board expects no
/// notification; then the interrupt stays pending.
#[cfg_attr(
    any(target_arch = "x86_64", target_arch = "arm"),
    expect(dead_code, reason = "the entry of x86_64 acknowledges by itself, and arm has no doorbell")
)]
pub(crate) fn notified() -> bool {
    let Some(acknowledge) = RUNTIME.found().and_then(|found| found.acknowledge) else { return false };
    acknowledge();
    RUNTIME.notified.store(1, Ordering::Relaxed);
    true
}

/// Has the host notified since the last sleep?
pub(super) fn is_notified() -> bool {
    RUNTIME.notified.load(Ordering::Relaxed) != 0
}

/// Has the host notified since the last call of this function? Called with interrupts masked, right
/// before a sleep.
pub(super) fn was_notified() -> bool {
    RUNTIME.notified.swap(0, Ordering::Relaxed) != 0
}
