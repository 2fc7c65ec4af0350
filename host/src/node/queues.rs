//! Who has which queue pair: streams that come and go, and the control stream.

use super::{Device, NO_EPOCH};
use crate::stream::Submitter;
use crate::{CallError, Error, SubmitError};
use hamr_comm::abi::preamble::word;
use hamr_comm::{Call, ErrorOf, Handler, ValueOf};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Who has a queue pair.
pub(super) enum QueueSlot {
    /// Nobody ever had it.
    Fresh,
    /// A stream.
    InUse,
    /// Nobody, but its counts go on, and perhaps calls that nobody waits for.
    Idle(Box<Submitter>),
}

impl Device {
    pub(super) fn lock_queues(&self) -> std::sync::MutexGuard<'_, Vec<QueueSlot>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a queue pair that no stream has.
    pub(crate) fn take_queue(&self) -> Result<(u32, Box<Submitter>), Error> {
        if self.epoch.load(Ordering::Acquire) == NO_EPOCH && !self.restart() {
            return Err(Error::Lost { device: self.name.clone(), stage: "opening a stream", why: self.loss_reason() });
        }
        let mut queues = self.lock_queues();
        let free = queues.iter_mut().enumerate().skip(1).find(|(_, slot)| !matches!(slot, QueueSlot::InUse));
        let Some((index, slot)) = free else {
            return Err(Error::TooManyStreams { device: self.name.clone(), limit: self.options.streams });
        };
        let submitter = match std::mem::replace(slot, QueueSlot::InUse) {
            QueueSlot::Idle(submitter) => submitter,
            QueueSlot::Fresh | QueueSlot::InUse => match self.fresh_submitter(index as u32) {
                Ok(submitter) => Box::new(submitter),
                Err(e) => {
                    *slot = QueueSlot::Fresh;
                    return Err(e);
                }
            },
        };
        self.show_open_queues(&queues);
        Ok((index as u32, submitter))
    }

    fn fresh_submitter(&self, index: u32) -> Result<Submitter, Error> {
        let none = || Error::Plan(format!("queue pair {index}: expected it inside of the window, which is shorter"));
        let queue = self.queue_in(self.link.window(), index).ok_or_else(none)?;
        Ok(Submitter::new(index, queue, self))
    }

    /// Lets go of what calls of dropped streams and of the calling thread's own one held, as far as they are answered. For a caller
    /// that finds a buffer busy or the heap full: perhaps nobody else looks at those replies.
    #[cold]
    pub(crate) fn reap_unread(&self) {
        crate::stream::reap_local(self);
        self.poll_idle_queues();
    }

    /// The same of dropped streams only.
    pub(super) fn poll_idle_queues(&self) {
        let mut queues = self.lock_queues();
        for slot in queues.iter_mut() {
            if let QueueSlot::Idle(submitter) = slot {
                submitter.poll(self);
            }
        }
        self.show_open_queues(&queues);
    }

    /// Tells the device which queue pairs to poll: up to the last that a stream has or that still has calls in flight.
    pub(super) fn show_open_queues(&self, queues: &[QueueSlot]) {
        // Asked with the queues locked: `Node::drop` passes the lock before the next host is let in.
        if self.is_closed() {
            return;
        }
        let last = queues.iter().rposition(|slot| match slot {
            QueueSlot::Fresh => false,
            QueueSlot::InUse => true,
            QueueSlot::Idle(submitter) => submitter.has_work(),
        });
        if let Ok(word) = self.link.window().word(word::OPEN_QUEUES) {
            word.publish(last.map_or(1, |last| last as u32 + 1));
        }
    }

    /// Calls through the control stream.
    pub(super) fn control_call<H: Handler>(&self, call: Call<H>) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        let submitter = match &mut *control {
            Some(submitter) => submitter,
            none => none.insert(Box::new(
                self.fresh_submitter(0)
                    .map_err(|e| SubmitError::NoRoom { site: self.site::<H>("submitting"), why: e.to_string() })?,
            )),
        };
        crate::stream::sync(submitter, self, call)
    }
}

/// Gives a queue pair back, with what is still in flight in it.
pub(crate) fn give_queue_back(inner: &Device, index: u32, submitter: Box<Submitter>) {
    let mut queues = inner.lock_queues();
    if let Some(slot) = queues.get_mut(index as usize) {
        *slot = QueueSlot::Idle(submitter);
    }
    inner.show_open_queues(&queues);
    drop(queues);
    // Nobody will wait for what is in flight there.
    inner.notify_fenced();
}
