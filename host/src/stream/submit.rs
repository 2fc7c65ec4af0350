//! Waits of a stream that are not for one result: for a free slot or ticket, for the end of a
//! flush, for another epoch.
//!
//! The submitter is borrowed for each poll and never between two, so that the lock of a
//! [`super::SharedStream`] is free while one of its threads waits: the other threads are bounded by
//! their own deadlines only.

use super::CallOptions;
use super::arguments::Encoded;
use super::epoch::{EpochEnd, SubmitterEpoch};
use super::sealed::Access;
use super::submitter::{CallsSoFar, Submitter};
use super::table::Name;
use super::wait::{Stop, Wait, spins};
use crate::SubmitError;
use crate::device::Device;
use hamr_comm::Handler;
use std::cell::{RefCell, RefMut};
use std::time::Instant;

/// A submitter that its caller has alone.
pub(super) struct Exclusive<'a> {
    submitter: RefCell<&'a mut Submitter>,
    device: &'a Device,
}

impl<'a> Exclusive<'a> {
    pub(super) fn new(submitter: &'a mut Submitter, device: &'a Device) -> Self {
        Self { submitter: RefCell::new(submitter), device }
    }
}

impl Access for Exclusive<'_> {
    type Use<'u>
        = RefMut<'u, Submitter>
    where
        Self: 'u;
    fn enter(&self) -> RefMut<'_, Submitter> {
        RefMut::map(self.submitter.borrow_mut(), |submitter| &mut **submitter)
    }
    fn device(&self) -> &Device {
        self.device
    }
}

/// Puts a call into the ring, when there is room; its result is found by the name returned.
#[cold]
#[inline(never)]
pub(super) fn offload_slow<H: Handler>(
    stream: &impl Access,
    arguments: &Encoded<'_>,
    options: &CallOptions,
    until: Option<Instant>,
) -> Result<Name, SubmitError> {
    submit::<H, _>(stream, until, |submitter, device| submitter.try_offload::<H>(device, arguments, options))
}

/// Sends a call that returns nothing, when there is room.
#[cold]
#[inline(never)]
pub(super) fn send_slow<H: Handler>(stream: &impl Access, arguments: &Encoded<'_>) -> Result<(), SubmitError> {
    submit::<H, _>(stream, None, |submitter, device| submitter.try_send::<H>(device, arguments))
}

/// Tries until there is room or the wait ends.
fn submit<H: Handler, R>(
    stream: &impl Access,
    until: Option<Instant>,
    attempt: impl Fn(&mut Submitter, &Device) -> Result<Option<R>, SubmitError>,
) -> Result<R, SubmitError> {
    let epoch = enter::<H>(stream, until)?;
    let mut wait = Wait::new(stream.device(), epoch, until);
    let mut polls = 0;
    loop {
        let sent = stream.with(|submitter, device| {
            if submitter.epoch() != epoch {
                // Another thread of the stream saw the end of the epoch first.
                return Err(submitter.cannot_submit::<H>(device, Stop::EpochEnded(EpochEnd::of(device))));
            }
            attempt(submitter, device)
        })?;
        if let Some(sent) = sent {
            return Ok(sent);
        }
        polls += 1;
        if polls > spins()
            && let Err(stop) = wait.step()
        {
            return Err(stream.with(|submitter, device| submitter.cannot_submit::<H>(device, stop)));
        }
    }
}

/// The epoch to submit in; begins one when the device ended its last by a fault. Takes in the
/// replies that have come, so that calls without a waiter do not keep their buffers in use past the
/// next submission. The time in which the device starts again counts for the call.
pub(super) fn enter<H: Handler>(stream: &impl Access, until: Option<Instant>) -> Result<SubmitterEpoch, SubmitError> {
    let follow = || {
        stream.with(|submitter, device| {
            submitter.poll(device);
            submitter.epoch()
        })
    };
    let device = stream.device();
    let mut epoch = follow();
    if epoch.is_none() && device.restart_until(until) {
        epoch = follow();
    }
    if epoch.is_none() {
        if until.is_some_and(|until| Instant::now() >= until) {
            return Err(stream.with(|submitter, device| submitter.cannot_submit::<H>(device, Stop::Deadline)));
        }
        return Err(SubmitError::DeviceLost { site: device.site::<H>("submitting"), why: device.loss_reason() });
    }
    Ok(epoch)
}

/// Waits until every call that the stream has now has run.
pub(super) fn flush(stream: &impl Access, until: Option<Instant>) -> Result<(), Stop> {
    wait_for(stream, calls_so_far(stream), until)
}

/// The calls that the stream has now, and their epoch.
pub(super) fn calls_so_far(stream: &impl Access) -> (SubmitterEpoch, CallsSoFar) {
    stream.with(|submitter, _| (submitter.epoch(), submitter.calls_so_far()))
}

/// Waits until these calls have run.
pub(super) fn wait_for(
    stream: &impl Access,
    (epoch, calls): (SubmitterEpoch, CallsSoFar),
    until: Option<Instant>,
) -> Result<(), Stop> {
    let mut wait = Wait::new(stream.device(), epoch, until);
    loop {
        let has_run = stream.with(|submitter, device| match submitter.epoch() == epoch {
            // Where the epoch ended during that poll, its calls have an outcome, but may not have
            // run.
            true => Ok(submitter.have_run(device, calls) && submitter.epoch() == epoch),
            false => Err(Stop::EpochEnded(EpochEnd::of(device))),
        })?;
        if has_run {
            return Ok(());
        }
        if let Err(stop) = wait.step() {
            if let Stop::EpochEnded(_) = stop {
                stream.with(|submitter, device| submitter.follow_epoch(device));
            }
            return Err(stop);
        }
    }
}
