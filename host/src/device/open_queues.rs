//! Which queue pairs the device polls.

use super::Device;
use hamr_comm::abi::preamble::word;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The queue pairs that no stream has, but perhaps calls in flight.
pub(crate) trait IdleQueues: Send + Sync {
    /// Takes in the replies that are there. At the end of an epoch, gives every call its outcome.
    fn poll(&self, device: &Device);
    /// Runs `body`, a body for a device's call, without the streams that this thread has of its own:
    /// a body's calls go to streams for bodies.
    fn in_body(&self, body: &mut dyn FnMut());
}

/// How many queue pairs there are to poll.
pub(super) struct OpenQueues {
    /// Up to the last one with calls, and at least the control stream's.
    count: Mutex<u32>,
    pub(super) idle: Arc<dyn IdleQueues>,
}

impl OpenQueues {
    pub(super) fn new(idle: Arc<dyn IdleQueues>) -> Self {
        Self { count: Mutex::new(1), idle }
    }

    fn count(&self) -> MutexGuard<'_, u32> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For a device that is closed: after this no thread writes the count into the window.
    pub(super) fn pass(&self) {
        drop(self.count());
    }
}

impl Device {
    /// The device is to poll the first `count` queue pairs.
    pub(crate) fn set_open_queues(&self, count: u32) {
        let mut kept = self.open_queues.count();
        if *kept != count {
            *kept = count;
            self.publish_open_queues(&kept);
        }
    }

    /// The device is to poll the queue pair `index`, too.
    pub(crate) fn open_queue(&self, index: u32) {
        let mut kept = self.open_queues.count();
        if *kept <= index {
            *kept = index + 1;
            self.publish_open_queues(&kept);
        }
    }

    /// How many queue pairs the device is to poll, from the first on.
    pub(crate) fn open_queues(&self) -> u32 {
        *self.open_queues.count()
    }

    /// The window was laid out again: shows the device the count that there is.
    pub(super) fn show_open_queues(&self) {
        self.publish_open_queues(&self.open_queues.count());
    }

    /// Takes the count locked: a count that another thread sets is not written over by an older
    /// one.
    fn publish_open_queues(&self, count: &MutexGuard<'_, u32>) {
        if self.is_closed() {
            return;
        }
        if let Ok(word) = self.link.window().word(word::OPEN_QUEUES) {
            word.publish(**count);
        }
    }

    /// Polls the queue pairs that no stream has.
    pub(crate) fn poll_idle_queues(&self) {
        self.open_queues.idle.poll(self);
    }
}
