//! The queue pairs of a device: which of them belong to streams.

use super::wait::measure_polls;
use super::{StreamInfo, StreamOptions, Submitter, User};
use crate::Error;
use crate::device::{Device, Fence};
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::slot::seq_tag;
use hamr_comm::am::{SlotAccess, Slots};
use std::any::Any;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

/// Index 0 is the control stream's, which is not given to streams.
pub(crate) struct QueuePairs {
    slots: Mutex<Vec<QueueSlot>>,
    /// So many for the streams of the program, of bodies that the device calls, and that threads beyond share.
    limits: [u32; 3],
    /// The last: what a `SharedStream` is, which has these.
    pub(super) beyond: Mutex<Option<Weak<dyn Any + Send + Sync>>>,
}

/// What a queue pair is used for.
enum QueueSlot {
    /// Nothing yet.
    Fresh,
    /// A stream has it, with so many calls outstanding at most.
    InUse(User, usize),
    /// No stream has it, but its counts go on, and calls without a waiter may be in flight.
    Idle(Box<Submitter>),
}

impl QueuePairs {
    /// The queue pairs of a device with so many of them for streams of the program, and of bodies.
    pub(crate) fn new(streams: u32, bodies: u32) -> Self {
        measure_polls();
        let slots = (0..=streams + bodies).map(|_| QueueSlot::Fresh).collect();
        // Bodies keep one. Two: a stream that its last thread has just left is not closed at once.
        let limits = [streams, bodies, bodies.saturating_sub(1).min(2)];
        Self { slots: Mutex::new(slots), limits, beyond: Mutex::default() }
    }

    fn slots(&self) -> MutexGuard<'_, Vec<QueueSlot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins another epoch of a lost device, for a stream that is opened for itself. One that is opened for a call
    /// leaves that to the call, which has a deadline.
    pub(super) fn revive(device: &Device) -> Result<(), Error> {
        if device.is_lost() && !device.restart() {
            let why = device.loss_reason();
            return Err(Error::Lost { device: device.name.clone(), stage: "opening a stream", why });
        }
        Ok(())
    }

    /// Takes a queue pair that no stream has. Waits for nothing.
    pub(super) fn take(
        &self,
        device: &Device,
        user: User,
        options: &StreamOptions,
    ) -> Result<(u32, Box<Submitter>), Error> {
        let mut slots = self.slots();
        let limit = self.limits[user as usize];
        let taken = slots.iter().filter(|slot| matches!(slot, QueueSlot::InUse(by, _) if *by == user)).count();
        // A body waits for one call, in front of which nothing is.
        let is_free = |slot: &mut QueueSlot| match slot {
            QueueSlot::InUse(..) => false,
            slot => user == User::Program || slot.is_quiet(device),
        };
        let free =
            slots.iter_mut().enumerate().skip(1).find_map(|(index, slot)| is_free(slot).then_some((index, slot)));
        let Some((index, slot)) = free.filter(|_| taken < limit as usize) else {
            let limit = self.limits[if user == User::Body { User::Body } else { User::Program } as usize];
            return Err(Error::TooManyStreams { device: device.name.clone(), limit });
        };
        let max_outstanding = options.max_outstanding.unwrap_or(device.options.max_outstanding);
        let mut submitter = match std::mem::replace(slot, QueueSlot::InUse(user, max_outstanding)) {
            QueueSlot::Idle(submitter) => submitter,
            QueueSlot::Fresh | QueueSlot::InUse(..) => match fresh_submitter(device, index as u32) {
                Ok(submitter) => Box::new(submitter),
                Err(e) => {
                    *slot = QueueSlot::Fresh;
                    return Err(e);
                }
            },
        };
        submitter.set_chained(user == User::Body);
        let task_stack = options.task_stack.unwrap_or(0);
        if let Err(has) = submitter.set_task_stack(device, task_stack) {
            *slot = QueueSlot::Idle(submitter);
            let expected = match has {
                0 => format!("an image with tasks; that of {} has none", device.name),
                _ => format!("at most {has} bytes, those of the image of {} (`image!(task_stack = …)`)", device.name),
            };
            let got = task_stack.to_string();
            return Err(Error::InvalidConfig { option: "StreamOptions::task_stack", expected, got });
        }
        submitter.set_max_outstanding(max_outstanding);
        show_open(device, &slots);
        Ok((index as u32, submitter))
    }

    /// Returns the queue pair of a stream that is dropped. The submitter stays with it: the counts
    /// go on, and calls in flight still use buffers.
    pub(super) fn detach(&self, device: &Device, index: u32, submitter: Option<Box<Submitter>>) {
        let Some(mut submitter) = submitter else { return };
        submitter.detach_hot();
        submitter.poll(device);
        let mut slots = self.slots();
        if let Some(slot) = slots.get_mut(index as usize) {
            *slot = QueueSlot::Idle(submitter);
        }
        show_open(device, &slots);
        drop(slots);
        // No thread waits for the calls in flight there.
        device.notify(Fence::Full);
    }
}

impl QueuePairs {
    /// Polls those that no stream has, and shows the device which it must poll.
    pub(super) fn poll(&self, device: &Device) {
        let mut slots = self.slots();
        for slot in slots.iter_mut() {
            if let QueueSlot::Idle(submitter) = slot {
                submitter.poll(device);
            }
        }
        show_open(device, &slots);
    }

    /// Those that streams have.
    pub(crate) fn streams(&self, device: &Device) -> Vec<StreamInfo> {
        let of = |(index, slot): (u32, &QueueSlot)| match slot {
            QueueSlot::InUse(user, max_outstanding) => Some(StreamInfo {
                queue: index as u16,
                is_of_body: *user == User::Body,
                max_outstanding: *max_outstanding,
                unanswered: unanswered(device, index),
            }),
            QueueSlot::Fresh | QueueSlot::Idle(_) => None,
        };
        (0..).zip(self.slots().iter()).filter_map(of).collect()
    }
}

/// Requests of this epoch without a reply.
fn unanswered(device: &Device, index: u32) -> u32 {
    let Some(queue) = device.queue_in(device.link.window(), index) else { return 0 };
    let tag = Epoch(device.epoch.load(Ordering::Acquire)).tag();
    let slots = (0..queue.ring_len()).map(|i| queue.ring(i)).chain([queue.hot()]);
    slots.filter(|slot| slot.req_seq() != slot.rep_seq() && seq_tag(slot.req_seq()) == tag).count() as u32
}

impl QueueSlot {
    /// Is nothing in flight in it?
    fn is_quiet(&mut self, device: &Device) -> bool {
        let Self::Idle(submitter) = self else { return true };
        submitter.poll(device);
        !submitter.has_work()
    }
}

/// Publishes which queue pairs the device must poll: up to the last that a stream has or that still
/// has calls in flight.
fn show_open(device: &Device, slots: &[QueueSlot]) {
    let last = slots.iter().rposition(|slot| match slot {
        QueueSlot::Fresh => false,
        QueueSlot::InUse(..) => true,
        QueueSlot::Idle(submitter) => submitter.has_work(),
    });
    device.set_open_queues(last.map_or(1, |last| last as u32 + 1));
}

/// The first submitter of a queue pair.
pub(crate) fn fresh_submitter(device: &Device, index: u32) -> Result<Submitter, Error> {
    let none = || Error::too_short(&device.name, &device.layout, device.link.window().len());
    let queue = device.queue_in(device.link.window(), index).ok_or_else(none)?;
    Ok(Submitter::new(index, queue, device))
}
