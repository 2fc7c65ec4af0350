//! Waits of a stream that are not for one result: for a free line or ticket, for the end of a flush, for another epoch.
//!
//! The engine is borrowed for each look and for nothing in between, so that the lock of a [`super::SharedStream`] is free while one of
//! its threads waits: what others of its threads do is bounded by their own deadlines.

use super::core::{EngineEpoch, how_it_ended};
use super::sealed::Access;
use super::wait::{SPINS, Stop, Wait};
use super::{CallOptions, Core};
use crate::SubmitError;
use crate::node::Inner;
use hamr_comm::{Call, Handler};
use std::cell::RefCell;
use std::time::Instant;

/// An engine that its caller has alone.
pub(super) struct Exclusive<'a> {
    core: RefCell<&'a mut Core>,
    inner: &'a Inner,
}

impl<'a> Exclusive<'a> {
    pub(super) fn new(core: &'a mut Core, inner: &'a Inner) -> Self {
        Self { core: RefCell::new(core), inner }
    }
}

impl Access for Exclusive<'_> {
    fn with<R>(&self, f: impl FnOnce(&mut Core, &Inner) -> R) -> R {
        f(&mut self.core.borrow_mut(), self.inner)
    }
    fn inner(&self) -> &Inner {
        self.inner
    }
}

/// Puts a call into the ring; its result comes to the cell returned.
#[inline(always)]
pub(super) fn offload<H: Handler>(stream: &impl Access, call: &Call<H>) -> Result<u32, SubmitError> {
    match stream.with(|core, inner| core.offload(inner, call)) {
        Some(cell) => Ok(cell),
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
    submit::<H, _>(stream, until, |core, inner| core.try_offload(inner, call, options))
}

/// Sends a call that returns nothing.
#[inline(always)]
pub(super) fn send<H: Handler>(stream: &impl Access, call: &Call<H>) -> Result<(), SubmitError> {
    if stream.with(|core, inner| core.send(inner, call)) {
        return Ok(());
    }
    send_slow(stream, call)
}

#[cold]
#[inline(never)]
fn send_slow<H: Handler>(stream: &impl Access, call: &Call<H>) -> Result<(), SubmitError> {
    submit::<H, _>(stream, None, |core, inner| core.try_send(inner, call))
}

/// Tries until there is room, or no longer.
fn submit<H: Handler, R>(
    stream: &impl Access,
    until: Option<Instant>,
    attempt: impl Fn(&mut Core, &Inner) -> Result<Option<R>, SubmitError>,
) -> Result<R, SubmitError> {
    let epoch = enter::<H>(stream)?;
    let mut wait = Wait::new(stream.inner(), epoch, until);
    let mut spins = 0;
    loop {
        let sent = stream.with(|core, inner| {
            if core.epoch() != epoch {
                // Another thread of the stream saw the end of the epoch first.
                return Err(core.cannot_submit::<H>(inner, Stop::Ended(how_it_ended(inner))));
            }
            attempt(core, inner)
        })?;
        if let Some(sent) = sent {
            return Ok(sent);
        }
        spins += 1;
        if spins > SPINS
            && let Err(stop) = wait.step()
        {
            return Err(stream.with(|core, inner| core.cannot_submit::<H>(inner, stop)));
        }
    }
}

/// The epoch to submit in; begins one when the device ended its last by a fault.
pub(super) fn enter<H: Handler>(stream: &impl Access) -> Result<EngineEpoch, SubmitError> {
    let follow = || {
        stream.with(|core, inner| {
            core.follow_life(inner);
            core.epoch()
        })
    };
    let inner = stream.inner();
    let mut epoch = follow();
    if epoch.is_none() && inner.revive() {
        epoch = follow();
    }
    if epoch.is_none() {
        return Err(SubmitError::DeviceLost { site: inner.site::<H>("submitting"), why: inner.why_dead() });
    }
    Ok(epoch)
}

/// Waits until every call that the stream has now has run.
pub(super) fn flush(stream: &impl Access) -> Result<(), Stop> {
    let (epoch, before) = stream.with(|core, _| (core.epoch(), core.req.next_position()));
    let mut wait = Wait::new(stream.inner(), epoch, None);
    loop {
        let has_run = stream.with(|core, inner| match core.epoch() == epoch {
            // Where the epoch ended under that look, its calls have an outcome, and perhaps have not run.
            true => Ok(core.has_run(inner, before) && core.epoch() == epoch),
            false => Err(Stop::Ended(how_it_ended(inner))),
        })?;
        if has_run {
            return Ok(());
        }
        if let Err(stop) = wait.step() {
            if let Stop::Ended(_) = stop {
                stream.with(|core, inner| core.follow_life(inner));
            }
            return Err(stop);
        }
    }
}
