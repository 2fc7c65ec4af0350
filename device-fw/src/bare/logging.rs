//! Logging where there is one processor and no operating system.

#![expect(unsafe_code)]
// UNSAFETY: opens the logger's lock when its holder was abandoned (`docs/unsafe.md` "logger").

#[path = "../log/logger.rs"]
mod logger;

use logger::DESK;
pub(super) use logger::attach;

/// What keeps a window mapped: nothing unmaps it.
type Keep = ();
/// The fences that the window's memory needs.
type Memory = crate::arch::Device;

/// The serve stack was just abandoned. If that happened inside of the logger, its lock is opened, and the journal begins anew: the next
/// host gets what is said from here on.
///
/// # Safety
/// Nothing on the serve stack goes on, and the caller holds no lock of the logger's.
pub(super) unsafe fn recover() {
    if !DESK.is_locked() {
        return;
    }
    // SAFETY: there is one processor. Its holder was not in an interrupt that goes on: those have their turn to the end, before the
    // code that they interrupted. So it was on the serve stack, or interrupted it and was abandoned with it, and as the caller says neither goes
    // on: the guard is never dropped, and its borrow of the desk never used again.
    unsafe { DESK.force_unlock() };
    if let Some(mut desk) = DESK.try_lock() {
        desk.owner = 0;
        desk.journal.begin_anew();
    }
}

/// Device time.
pub(super) mod clock {
    use core::sync::atomic::{AtomicU64, Ordering};

    static HZ: AtomicU64 = AtomicU64::new(0);

    /// The board knows from now on how fast the processor's timer runs.
    pub(in crate::bare) fn start(hz: u64) {
        HZ.store(hz, Ordering::Relaxed);
    }

    /// Microseconds since reset; 0 while nobody knows how long a step is.
    pub(super) fn now() -> u64 {
        let hz = HZ.load(Ordering::Relaxed);
        let now = crate::arch::now();
        // In two parts: steps times a million would overflow within hours.
        match (now.checked_div(hz), now.checked_rem(hz)) {
            (Some(seconds), Some(rest)) => seconds * 1_000_000 + rest * 1_000_000 / hz,
            _ => 0,
        }
    }
}

/// Who is logging.
mod context {
    use spin::Mutex;

    /// There is one processor, and code that interrupts it has its turn to the end.
    pub(super) fn id() -> usize {
        1
    }

    /// Runs `what`, unless it was just the holder of the lock that was interrupted: waiting for it would be for ever.
    pub(super) fn with<T>(lock: &Mutex<T>, what: impl FnOnce(&mut T)) {
        // Whoever is ended in here leaves the desk locked, and costs the image its epoch.
        let _mark = crate::bare::NoAbandon::begin();
        if let Some(mut desk) = lock.try_lock() {
            what(&mut desk);
        }
    }
}
