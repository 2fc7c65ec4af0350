//! The end of an epoch, for one stream: each call in flight gets its outcome, exactly once.
//!
//! A reply counts when it was published before the end, also when the host reads it later and
//! another stream has begun the next epoch since, which wipes the window. So the last replies are
//! read from the snapshot that the device's `Device` took before the wipe, or from the window while
//! the snapshots are locked, so that no thread wipes it. Every other call ends without a reply.

use super::completion::Calls;
use super::epoch::{EpochEnd, SubmitterEpoch};
use super::hot::HotCall;
use crate::device::Device;
use std::sync::atomic::Ordering;

/// When the epoch of the stream is over, gives every call in flight its outcome; when a new one
/// began, the stream starts over in it (rule 30).
#[inline]
pub(super) fn follow(calls: &mut Calls, hot: &mut HotCall, device: &Device) {
    let epoch = device.epoch.load(Ordering::Acquire);
    if calls.end.epoch() != SubmitterEpoch::of(epoch) {
        end(calls, hot, device, epoch);
    }
}

/// The epoch is over, and the stream goes on in `epoch`; 0: in none.
#[cold]
#[inline(never)]
fn end(calls: &mut Calls, hot: &mut HotCall, device: &Device, epoch: u32) {
    let ended = EpochEnd::before(epoch);
    read_last_replies(calls, hot, device, ended);
    calls.table.end_epoch(ended, |uses| uses.release(&device.memory));
    if calls.end.req.hot_is_busy() {
        hot.release(&mut calls.end, &device.memory);
    }
    calls.end.enter(epoch);
    calls.end.use_accepted(device);
    calls.renew_tickets();
    device.set_submitter_epoch(calls.end.number(), epoch);
}

/// Takes in what was answered before the end.
fn read_last_replies(calls: &mut Calls, hot: &mut HotCall, device: &Device, ended: EpochEnd) {
    device.with_snapshot(calls.end.epoch().number(), |window| {
        let frozen = calls.end.freeze(window.and_then(|window| device.queue_in(window, calls.end.number())));
        calls.end_ring(device, ended);
        calls.poll_ticket_slots(device);
        if calls.end.req.hot_is_busy()
            && !hot.is_abandoned
            && let Some(hdr) = calls.end.req.hot_reply()
        {
            // It is kept until the caller reads it, perhaps after many epochs.
            hot.keep(calls.end.req.hot_seq(), calls.end.read_hot(device, hdr, &hot.uses));
        }
        calls.end.thaw(frozen);
    });
}
