//! Logging where there is one processor and no operating system.

#![expect(unsafe_code)]
// UNSAFETY: the logger, and opening its lock when its holder was abandoned (contract
// "logger").

use super::NoAbort;
use super::runtime::RUNTIME;
use crate::arch::{self, BusOrder};
use crate::log::{Logger, LoggerState, Platform, image_logger};
use hamr_comm::abi::window::Window;

image_logger!(Bare);

/// The platform: interrupts are the only other writers.
pub(super) struct Bare;

impl Platform for Bare {
    // Nothing unmaps a window.
    type Keep = ();
    type Order = BusOrder;

    fn writer() -> usize {
        // There is one processor, and an interrupt runs to its end.
        1
    }

    fn with(what: impl FnOnce(&mut LoggerState<(), BusOrder>)) {
        // A writer that is aborted in here would leave the lock taken, which ends the epoch.
        let _mark = NoAbort::begin();
        // The lock is taken if its holder is what was interrupted: waiting would be for ever.
        if let Some(mut state) = RUNTIME.log.try_lock() {
            what(&mut state);
        }
    }

    /// Microseconds since reset; 0 before the board has started, while the length of a step is not
    /// known.
    fn now_us() -> u64 {
        let (hz, now) = (RUNTIME.found().map_or(0, |found| found.hz), arch::now());
        // In two parts: steps times a million would overflow within hours.
        match (now.checked_div(hz), now.checked_rem(hz)) {
            (Some(seconds), Some(rest)) => seconds * 1_000_000 + rest * 1_000_000 / hz,
            _ => 0,
        }
    }
}

/// [`Logger::attach`] outside of generic code, which would be compiled with the image's crate, and
/// not for size.
#[inline(never)]
pub(super) fn attach(section: Option<Window<()>>) {
    Logger::<Bare>::attach(section);
}

/// The serve stack was just abandoned. If that happened inside of the logger, its lock is opened,
/// and the frame buffer restarts: the next host gets what is logged from here on.
///
/// # Safety
/// Nothing on the serve stack goes on, and the caller has not taken the logger's lock.
pub(super) unsafe fn recover() {
    if !RUNTIME.log.is_locked() {
        return;
    }
    // SAFETY: there is one processor. The code that took the lock was not in an interrupt that goes
    // on: an interrupt runs to its end before the code that it interrupted. So it was on the serve
    // stack, or interrupted it and was abandoned with it, and neither goes on (contract of this
    // function): the guard is never dropped, and its borrow of the state never used again.
    unsafe { RUNTIME.log.force_unlock() };
    if let Some(mut state) = RUNTIME.log.try_lock() {
        state.begin_epoch();
    }
}
