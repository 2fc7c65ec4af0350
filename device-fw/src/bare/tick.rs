//! The tick that finds runaways and answers pings beside queued handlers, as far as it does not depend on the processor.

#![expect(unsafe_code)]
// UNSAFETY: the poller's activity is reached through a pointer (`docs/unsafe.md` "abandoning").

use super::doorbell::Bell;
use super::fault::{self, Trap};
use super::mark;
use crate::arch;
use crate::runaway::{Overdue, Watch};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use hamr_comm::abi::window::KeptWord;
use hamr_comm::am::{Activity, Desk, Lent};
use spin::Mutex;

/// Ticks per second.
pub(crate) const HZ: u64 = 100;

static ACTIVITY: AtomicPtr<Activity> = AtomicPtr::new(null_mut());
static WATCH: Mutex<(Watch, u64)> = Mutex::new((Watch::new(0), 0));
/// The control stream, while a queued handler runs.
pub(super) static DESK: Desk<(), arch::Device> = Desk::new();
/// The host's doorbell. Not on the stack that the runtime's state is on: whoever says that the runtime is broken rings it.
static BELL: Mutex<Option<Bell>> = Mutex::new(None);
/// Where `alive` is in the window.
static ALIVE: Mutex<Option<KeptWord<()>>> = Mutex::new(None);

/// What the board found.
pub(super) fn connect(bell: Option<Bell>, alive: Option<KeptWord<()>>) {
    *BELL.lock() = bell;
    *ALIVE.lock() = alive;
}

/// Rings the host. The tick does so beside queued handlers only, and the runtime never then, so neither finds the other at it.
pub(super) fn ring() {
    if let Some(Some(bell)) = BELL.try_lock().as_deref_mut() {
        bell.ring();
    }
}

/// Steps `alive`, while a host is served: before and after, the window is not this side's to write. Called by the tick, which
/// strikes while handlers run, and where rests end, because it does not strike in them.
pub(super) fn beat() {
    if !ACTIVITY.load(Ordering::Acquire).is_null()
        && let Some(Some(alive)) = ALIVE.try_lock().as_deref()
    {
        alive.word().store(alive.word().load().wrapping_add(1));
    }
}

/// What calls may take that have no deadline of their own; 0: for ever.
pub(super) fn limit(longest_call_ms: u32) {
    WATCH.lock().0 = Watch::new(longest_call_ms);
}

/// Where the poller says what it is doing.
pub(super) fn watch(activity: Option<&Activity>) {
    let activity = activity.map_or(null_mut(), |activity| (&raw const *activity).cast_mut());
    ACTIVITY.store(activity, Ordering::Release);
}

/// The number of the call that runs, for code that it has called or interrupted.
pub(super) fn running() -> Option<u32> {
    // SAFETY: as in `tick`.
    unsafe { ACTIVITY.load(Ordering::Acquire).as_ref() }.and_then(Activity::running)
}

/// A tick struck at `at`. Returns, unless the call that runs is over its time. The answer of a call is written when no call
/// runs any more, so that is never what is left behind.
pub(crate) fn tick(at: Trap) {
    beat();
    if !fault::is_armed() {
        return;
    }
    if DESK.serve() == Lent::Owed {
        ring();
    }
    // SAFETY: null, or in the device, which is in the frame of `main` for good; it was interrupted, so it does not move now.
    let Some(activity) = (unsafe { ACTIVITY.load(Ordering::Acquire).as_ref() }) else { return };
    if mark::is_held(activity.running()) {
        return;
    }
    let overdue = match WATCH.try_lock() {
        Some(mut watch) => {
            // Ticks that the processor missed do not count: a call has more time then, not less.
            watch.1 += 1_000_000 / HZ;
            let now = watch.1;
            watch.0.look(activity, now)
        }
        None => return,
    };
    if let Some(Overdue { limit_us, .. }) = overdue {
        fault::overdue(at, limit_us);
    }
}
