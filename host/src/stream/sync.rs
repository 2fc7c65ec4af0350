//! Calls that wait for their result.

use super::CallOptions;
use super::encode::is_queued;
use super::submit::{self, Exclusive};
use super::submitter::Submitter;
use super::wait::{SPINS, Stop, Wait, in_time};
use crate::CallError;
use crate::device::Device;
use hamr_comm::{Call, ErrorOf, Handler, ValueOf};
use std::time::Instant;

/// Calls and waits.
#[inline(always)]
pub(crate) fn sync<H: Handler>(
    submitter: &mut Submitter,
    device: &Device,
    call: Call<H>,
) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    if submitter.start(device, &call) {
        submitter.finish::<H>(device)
    } else {
        sync_slow(submitter, device, call, &CallOptions::default())
    }
}

/// [`sync`] for every call: of any length, queued, with options.
#[cold]
#[inline(never)]
pub(super) fn sync_slow<H: Handler>(
    submitter: &mut Submitter,
    device: &Device,
    call: Call<H>,
    options: &CallOptions,
) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    let until = options.deadline.map(in_time);
    submit::enter::<H>(&Exclusive::new(submitter, device))?;
    if is_queued::<H>() || !submitter.hot_is_open() {
        let entry = submit::offload_slow(&Exclusive::new(submitter, device), &call, options, until)?;
        return wait_for::<H>(submitter, device, entry, until);
    }
    submitter.start_slow(device, &call, options)?;
    submitter.wait_hot::<H>(device, until)
}

/// Waits for an entry's outcome and takes it. After the deadline the call is abandoned.
#[cold]
fn wait_for<H: Handler>(
    submitter: &mut Submitter,
    device: &Device,
    entry: u32,
    until: Option<Instant>,
) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    let mut wait = Wait::new(device, submitter.epoch(), until);
    let mut spins = 0;
    while !submitter.try_complete(device, entry) {
        spins += 1;
        if spins <= SPINS {
            std::hint::spin_loop();
            continue;
        }
        match wait.step() {
            Ok(()) => {}
            // A thread that is woken late finds the reply after the deadline.
            Err(Stop::Deadline) if submitter.try_complete(device, entry) => break,
            Err(Stop::Deadline) => {
                submitter.abandon(device, entry);
                return Err(CallError::Deadline(device.site::<H>("waiting for the reply")));
            }
            // A reply published just before the end still counts.
            Err(Stop::EpochEnded(_)) => submitter.follow_epoch(device),
        }
    }
    submitter.take::<H>(device, entry)
}
