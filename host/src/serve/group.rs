//! Keepers of one process, of which each is a thread.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Keepers of one process that are asked to end together.
pub(super) struct Group {
    /// Readable when they are.
    pub(super) end: OwnedFd,
    running: Mutex<usize>,
    fewer: Condvar,
}

impl Group {
    /// So many.
    ///
    /// # Errors
    /// No descriptor.
    pub(super) fn of(keepers: usize) -> Result<Self, Errno> {
        Ok(Self { end: crate::doorbells::event()?, running: Mutex::new(keepers), fewer: Condvar::new() })
    }

    pub(super) fn end(&self) {
        // The only error is a counter at its end, and then it is readable.
        let _ = rustix::io::write(&self.end, &1u64.to_ne_bytes());
    }

    /// Until the caller is the last one.
    pub(super) fn wait_for_others(&self, limit: Duration) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // Behind the limit the others are about to end.
        let _ = self.fewer.wait_timeout_while(running, limit, |running| *running > 1);
    }
}

/// A keeper of it ends.
pub(super) struct Left<'a>(pub(super) &'a Group);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        *self.0.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.fewer.notify_all();
    }
}
