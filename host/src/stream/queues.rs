//! The queue pairs of a device: which of them belong to streams.

use super::Submitter;
use super::wait::measure_polls;
use crate::Error;
use crate::device::{Device, Fence, IdleQueues};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Index 0 is the control stream's, which is not given to streams.
pub(crate) struct QueuePairs(Mutex<Vec<QueueSlot>>);

/// What a queue pair is used for.
enum QueueSlot {
    /// Nothing yet.
    Fresh,
    /// A stream has it.
    InUse,
    /// No stream has it, but its counts go on, and calls without a waiter may be in flight.
    Idle(Box<Submitter>),
}

impl QueuePairs {
    /// The queue pairs of a device with so many of them for streams.
    pub(crate) fn new(streams: u32) -> Self {
        measure_polls();
        Self(Mutex::new((0..=streams).map(|_| QueueSlot::Fresh).collect()))
    }

    fn slots(&self) -> MutexGuard<'_, Vec<QueueSlot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a queue pair that no stream has.
    pub(super) fn take(&self, device: &Device) -> Result<(u32, Box<Submitter>), Error> {
        if device.is_lost() && !device.restart() {
            let why = device.loss_reason();
            return Err(Error::Lost { device: device.name.clone(), stage: "opening a stream", why });
        }
        let mut slots = self.slots();
        let free = slots.iter_mut().enumerate().skip(1).find(|(_, slot)| !matches!(slot, QueueSlot::InUse));
        let Some((index, slot)) = free else {
            return Err(Error::TooManyStreams { device: device.name.clone(), limit: device.options.streams });
        };
        let submitter = match std::mem::replace(slot, QueueSlot::InUse) {
            QueueSlot::Idle(submitter) => submitter,
            QueueSlot::Fresh | QueueSlot::InUse => match fresh_submitter(device, index as u32) {
                Ok(submitter) => Box::new(submitter),
                Err(e) => {
                    *slot = QueueSlot::Fresh;
                    return Err(e);
                }
            },
        };
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

impl IdleQueues for QueuePairs {
    fn poll(&self, device: &Device) {
        let mut slots = self.slots();
        for slot in slots.iter_mut() {
            if let QueueSlot::Idle(submitter) = slot {
                submitter.poll(device);
            }
        }
        show_open(device, &slots);
    }
}

/// Publishes which queue pairs the device must poll: up to the last that a stream has or that still
/// has calls in flight.
fn show_open(device: &Device, slots: &[QueueSlot]) {
    let last = slots.iter().rposition(|slot| match slot {
        QueueSlot::Fresh => false,
        QueueSlot::InUse => true,
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
