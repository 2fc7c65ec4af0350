//! Logging in a process of an operating system.

#![expect(unsafe_code)]
// UNSAFETY: the logger (`docs/unsafe.md` "logger").

use super::map::Mapping;
use crate::log::{LoggerState, Platform, image_logger};
use hamr_comm::abi::sync::Coherent;
use spin::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

image_logger!(Process);

static STATE: Mutex<LoggerState<Arc<Mapping>, Coherent>> = Mutex::new(LoggerState::new());

/// The platform: any thread may write.
pub(super) struct Process;

impl Platform for Process {
    type Keep = Arc<Mapping>;
    type Order = Coherent;

    fn writer() -> usize {
        std::thread_local!(static MINE: u8 = const { 0 });
        MINE.with(|mine| core::ptr::from_ref(mine).addr())
    }

    fn with(what: impl FnOnce(&mut LoggerState<Arc<Mapping>, Coherent>)) {
        // The thread that has the lock never waits for anything, so this does not wait for long.
        what(&mut STATE.lock());
    }

    /// Microseconds since the first line.
    fn now_us() -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_micros() as u64
    }
}
