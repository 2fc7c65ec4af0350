//! The tick that finds runaways and answers pings beside queued handlers, as far as it does not depend on the processor.

use super::fault::{self, Trap};
use super::no_abort;
use super::runtime::RUNTIME;
use crate::runaway::{Overdue, RunawayDetector};
use hamr_comm::am::LoanStatus;

/// Ticks per second.
pub(crate) const HZ: u64 = 100;

/// Steps `alive`, while a host is served: before and after, the window is not this side's to write. Called by the tick, which
/// strikes while handlers run, and where rests end, because it does not strike in them.
pub(super) fn beat() {
    if RUNTIME.activity().is_some()
        && let Some(alive) = RUNTIME.found().and_then(|found| found.alive.as_ref())
    {
        alive.word().store(alive.word().load().wrapping_add(1));
    }
}

/// What calls may take that have no deadline of their own; 0: for ever.
pub(super) fn limit(longest_call_ms: u32) {
    RUNTIME.runaways.lock().0 = RunawayDetector::new(longest_call_ms);
}

/// A tick struck at `at`. Returns, unless the call that runs is over its time. The reply of a call is written when no call
/// runs any more, so that is never what is left behind.
pub(crate) fn tick(at: Trap) {
    beat();
    if !fault::is_armed() {
        return;
    }
    if RUNTIME.control.serve() == LoanStatus::NeedsNotify {
        RUNTIME.notify();
    }
    let Some(activity) = RUNTIME.activity() else { return };
    if no_abort::is_held(activity.running()) {
        return;
    }
    let overdue = match RUNTIME.runaways.try_lock() {
        Some(mut runaways) => {
            // Ticks that the processor missed do not count: a call has more time then, not less.
            runaways.1 += 1_000_000 / HZ;
            let now = runaways.1;
            runaways.0.check(activity, now)
        }
        None => return,
    };
    if let Some(Overdue { limit_us, .. }) = overdue {
        fault::overdue(at, limit_us);
    }
}
