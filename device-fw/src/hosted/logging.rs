//! Logging in a process of an operating system.

#![expect(unsafe_code)]
// UNSAFETY: the logger (contract "logger").

use super::map::Mapping;
use super::runtime::RUNTIME;
use crate::log::{LoggerState, Platform, image_logger};
use hamr_comm::abi::sync::Coherent;
use std::sync::Arc;

image_logger!(Process);

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
        what(&mut RUNTIME.log.lock());
    }

    /// Microseconds since about the first line.
    fn now_us() -> u64 {
        RUNTIME.micros()
    }
}
