//! Logging where there is one processor and no operating system.

#[path = "../log/logger.rs"]
mod logger;

pub(super) use logger::attach;

/// What keeps a window mapped: nothing unmaps it.
type Keep = ();
/// The fences that the window's memory needs.
type Memory = crate::arch::Device;

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
        // Whoever is ended in here leaves the desk locked, and an image without logs.
        let _mark = crate::bare::NoAbandon::begin();
        if let Some(mut desk) = lock.try_lock() {
            what(&mut desk);
        }
    }
}
