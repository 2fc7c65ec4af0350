//! Which of the host's workers *watches* the queues of a device: it sleeps until the device notifies,
//! and looks for messages that no other thread takes.
//!
//! In front of a body, which may take any time, the watcher gives the watch to another worker, an idle
//! one or a new one. So there is always one more worker than bodies run, and no body keeps another
//! from being found.

use super::locks::{Condvar, Mutex, MutexGuard};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// An idle worker that does not watch ends after so long.
const IDLE: Duration = Duration::from_secs(10);

/// The watch of one device.
#[derive(Default)]
pub struct Watch {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// A worker watches.
    watched: bool,
    /// Workers that wait to watch.
    idle: usize,
    stopped: bool,
}

impl Watch {
    /// A watch that no worker has.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Workers end, and none begins. The watcher has to be woken behind this.
    pub fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }

    /// Have workers been told to end?
    pub fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    /// Waits for the watch. False: the worker ends.
    pub fn take(&self) -> bool {
        let until = Instant::now() + IDLE;
        let mut state = self.state();
        state.idle += 1;
        while state.watched && !state.stopped {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            (state, _) = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        state.idle -= 1;
        let takes = !state.watched && !state.stopped;
        state.watched |= takes;
        takes
    }

    /// Gives the watch to another worker; `start` starts one, and tells whether it did. False: there is
    /// none to be had, and this one keeps the watch.
    pub fn give(&self, start: impl FnOnce() -> bool) -> bool {
        let mut state = self.state();
        state.watched = false;
        if state.idle != 0 {
            drop(state);
            self.changed.notify_one();
            return true;
        }
        drop(state);
        if start() {
            return true;
        }
        // True: taken meanwhile by a worker that came back.
        std::mem::replace(&mut self.state().watched, true)
    }
}
