//! Waits of a stream that are not for one result: for a free slot or ticket, for the end of a flush, for another epoch.
//!
//! The submitter is borrowed for each look and for nothing in between, so that the lock of a [`super::SharedStream`] is free while one of
//! its threads waits: what others of its threads do is bounded by their own deadslots.

use super::sealed::Access;
use super::submitter::{EngineEpoch, epoch_outcome};
use super::wait::{SPINS, Stop, Wait};
use super::{CallOptions, Submitter};
use crate::SubmitError;
use crate::node::Inner;
use hamr_comm::{Call, Handler};
use std::cell::RefCell;
use std::time::Instant;

/// An submitter that its caller has alone.
pub(super) struct Exclusive<'a> {
    submitter: RefCell<&'a mut Submitter>,
    inner: &'a Inner,
}

impl<'a> Exclusive<'a> {
    pub(super) fn new(submitter: &'a mut Submitter, inner: &'a Inner) -> Self {
        Self { submitter: RefCell::new(submitter), inner }
    }
}

impl Access for Exclusive<'_> {
    fn with<R>(&self, f: impl FnOnce(&mut Submitter, &Inner) -> R) -> R {
        f(&mut self.submitter.borrow_mut(), self.inner)
    }
    fn inner(&self) -> &Inner {
        self.inner
    }
}

/// Puts a call into the ring; its result comes to the entry returned.
#[inline(always)]
pub(super) fn offload<H: Handler>(stream: &impl Access, call: &Call<H>) -> Result<u32, SubmitError> {
    match stream.with(|submitter, inner| submitter.offload(inner, call)) {
        Some(entry) => Ok(entry),
        None => offload_slow(stream, call, &CallOptions::default(), None),
    }
}

#[cold]
#[inline(never)]
pub(super) fn offload_slow<H: Handler>(
    stream: &impl Access,
    call: &Call<H>,
    options: &CallOptions,
    until: Option<Instant>,
) -> Result<u32, SubmitError> {
    submit::<H, _>(stream, until, |submitter, inner| submitter.try_offload(inner, call, options))
}

/// Sends a call that returns nothing.
#[inline(always)]
pub(super) fn send<H: Handler>(stream: &impl Access, call: &Call<H>) -> Result<(), SubmitError> {
    if stream.with(|submitter, inner| submitter.send(inner, call)) {
        return Ok(());
    }
    send_slow(stream, call)
}

#[cold]
#[inline(never)]
fn send_slow<H: Handler>(stream: &impl Access, call: &Call<H>) -> Result<(), SubmitError> {
    submit::<H, _>(stream, None, |submitter, inner| submitter.try_send(inner, call))
}

/// Tries until there is room, or no longer.
fn submit<H: Handler, R>(
    stream: &impl Access,
    until: Option<Instant>,
    attempt: impl Fn(&mut Submitter, &Inner) -> Result<Option<R>, SubmitError>,
) -> Result<R, SubmitError> {
    let epoch = enter::<H>(stream)?;
    let mut wait = Wait::new(stream.inner(), epoch, until);
    let mut spins = 0;
    loop {
        let sent = stream.with(|submitter, inner| {
            if submitter.epoch() != epoch {
                // Another thread of the stream saw the end of the epoch first.
                return Err(submitter.cannot_submit::<H>(inner, Stop::EpochEnded(epoch_outcome(inner))));
            }
            attempt(submitter, inner)
        })?;
        if let Some(sent) = sent {
            return Ok(sent);
        }
        spins += 1;
        if spins > SPINS
            && let Err(stop) = wait.step()
        {
            return Err(stream.with(|submitter, inner| submitter.cannot_submit::<H>(inner, stop)));
        }
    }
}

/// The epoch to submit in; begins one when the device ended its last by a fault. Takes in what is answered, so that calls nobody
/// waits for do not hold their buffers longer than the next submission's preparation.
pub(super) fn enter<H: Handler>(stream: &impl Access) -> Result<EngineEpoch, SubmitError> {
    let follow = || {
        stream.with(|submitter, inner| {
            submitter.poll(inner);
            submitter.epoch()
        })
    };
    let inner = stream.inner();
    let mut epoch = follow();
    if epoch.is_none() && inner.restart() {
        epoch = follow();
    }
    if epoch.is_none() {
        return Err(SubmitError::DeviceLost { site: inner.site::<H>("submitting"), why: inner.loss_reason() });
    }
    Ok(epoch)
}

/// Waits until every call that the stream has now has run.
pub(super) fn flush(stream: &impl Access) -> Result<(), Stop> {
    let (epoch, before) = stream.with(|submitter, _| (submitter.epoch(), submitter.req.next_position()));
    let mut wait = Wait::new(stream.inner(), epoch, None);
    loop {
        let has_run = stream.with(|submitter, inner| match submitter.epoch() == epoch {
            // Where the epoch ended under that look, its calls have an outcome, and perhaps have not run.
            true => Ok(submitter.has_run(inner, before) && submitter.epoch() == epoch),
            false => Err(Stop::EpochEnded(epoch_outcome(inner))),
        })?;
        if has_run {
            return Ok(());
        }
        if let Err(stop) = wait.step() {
            if let Stop::EpochEnded(_) = stop {
                stream.with(|submitter, inner| submitter.follow_epoch(inner));
            }
            return Err(stop);
        }
    }
}
