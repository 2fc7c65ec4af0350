//! Logging in a process of an operating system.

#[path = "../log/logger.rs"]
mod logger;

pub(super) use logger::attach;

use super::map::Mapping;
use hamr_comm::abi::sync::Coherent;
use std::sync::Arc;

/// What keeps a window mapped.
type Keep = Arc<Mapping>;
/// The fences that the window's memory needs.
type Memory = Coherent;

/// Device time.
mod clock {
    use std::sync::OnceLock;
    use std::time::Instant;

    /// Microseconds since the first line.
    pub(super) fn now() -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_micros() as u64
    }
}

/// Who is logging.
mod context {
    use spin::Mutex;

    /// A number of the calling thread's own, never 0.
    pub(super) fn id() -> usize {
        std::thread_local!(static MINE: u8 = const { 0 });
        MINE.with(|mine| core::ptr::from_ref(mine).addr())
    }

    /// Runs `what` alone. Its holder never waits for anything, so neither does this for long.
    pub(super) fn with<T>(lock: &Mutex<T>, what: impl FnOnce(&mut T)) {
        what(&mut lock.lock());
    }
}
