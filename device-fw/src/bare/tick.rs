//! The tick: an interrupt that finds runaways and serves pings while tasks run. Here is
//! the part that does not depend on the processor; `arch` has the other part.

use super::fault::{self, Trap};
use super::no_abort;
use super::runtime::RUNTIME;
use crate::runaway::{Overdue, RunawayDetector};
use hamr_comm::am::LoanStatus;

/// Ticks per second.
pub(crate) const HZ: u64 = 100;

/// Steps `alive` while a host is served: before and after, this device may not write the window.
/// Called by the tick, which comes while handlers run, and at the end of sleeps, because no tick
/// comes in a sleep.
pub(super) fn beat() {
    #[cfg(feature = "world")]
    super::world::check();
    if RUNTIME.activity().is_some()
        && let Some(alive) = RUNTIME.found().and_then(|found| found.alive.as_ref())
    {
        alive.word().store(alive.word().load().wrapping_add(1));
    }
}

/// Sets the time limit of calls without a deadline of their own; 0: no limit.
pub(super) fn limit(longest_call_ms: u32) {
    RUNTIME.runaways.lock().0 = RunawayDetector::new(longest_call_ms);
}

/// A tick has interrupted the code at `at`. Returns, unless the call that runs is over its time.
/// The reply of a call is written when the call no longer counts as running, so an abort never
/// interrupts the writing of a reply.
pub(crate) fn tick(at: Trap) {
    beat();
    if !fault::is_armed() {
        return;
    }
    #[cfg(feature = "driven")]
    let is_beside = super::driven::beat();
    let lent = RUNTIME.control.serve();
    if lent == LoanStatus::NeedsNotify {
        RUNTIME.notify();
    }
    #[cfg(feature = "driven")]
    if is_beside && lent != LoanStatus::No {
        super::driven::carry();
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
