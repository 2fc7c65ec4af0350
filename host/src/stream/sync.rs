//! Calls that wait for their result.

use super::CallOptions;
use super::arguments::{Encoded, Short};
use super::put_data::PutData;
use super::reply::{Answer, Outcome, decoded, short_value};
use super::retry::Retry;
use super::ring;
use super::sealed::Access;
use super::shape::{is_fixed_task_or_hot, is_short_task, is_task, short_result, used_words};
use super::submit::{self, Exclusive};
use super::submitter::Submitter;
use super::table::Name;
use super::uses::InlineUses;
use super::wait::{Stop, Wait, in_time, spins};
use crate::CallError;
use crate::device::Device;
use hamr_comm::abi::slot::{INLINE_WORDS, RepHdr, pair_seq};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::sync::Coherent;
use hamr_comm::abi::window::Slot;
use hamr_comm::am::{InHot, SlotAccess, Slots};
use hamr_comm::{Call, ErrorOf, Handler, ValueOf};
use std::time::Instant;

/// Calls and waits. The path of a short call whose reply comes soon is in its caller, where it needs
/// no frame and its result no memory; every other one is behind [`Hot`], out of line.
#[inline(always)]
pub(super) fn sync<H: Handler>(stream: &impl Access, call: Call<H>) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    if const { !is_fixed_task_or_hot::<H>() } {
        return sync_long(stream, &call);
    }
    let arguments = Short::of(&call);
    let hot = call_hot::<H>(&mut stream.enter(), stream.device(), &arguments, None);
    match hot {
        Hot::Done(words) => short_value::<H>(stream.device(), &words),
        Hot::Sent => wait_long::<H>(stream),
        // A short call has no memory before this, and a long one is not moved.
        Hot::Unsent => sync_otherwise::<H>(stream, call),
    }
}

/// Puts data with a call in one message, and waits. `None`: nothing was sent, because the hot slot
/// is not open to them.
#[inline(always)]
pub(super) fn put_sync<H: Handler>(
    stream: &impl Access,
    put: PutData<'_>,
    call: &Call<H>,
) -> Option<Result<ValueOf<H>, CallError<ErrorOf<H>>>> {
    let arguments = Short::of(call);
    let hot = call_hot::<H>(&mut stream.enter(), stream.device(), &arguments, Some(put));
    match hot {
        Hot::Done(words) => Some(short_value::<H>(stream.device(), &words)),
        Hot::Sent => Some(wait_long::<H>(stream)),
        Hot::Unsent => None,
    }
}

/// [`sync`] of a submitter.
pub(crate) fn sync_with<H: Handler>(
    submitter: &mut Submitter,
    device: &Device,
    call: Call<H>,
) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    sync(&Exclusive::new(submitter, device), call)
}

/// What became of a call for the hot slot.
pub(super) enum Hot {
    /// The words of its result ([`Answer::Short`]).
    Done([u64; INLINE_WORDS]),
    /// It was not sent, because the slot is not open to it.
    Unsent,
    /// It is in the slot, and its reply was not read.
    Sent,
}

/// Calls in the hot slot, when that is open, and polls for about a microsecond. `put` is for calls
/// of which [`super::shape::takes_put`] is true.
#[inline(always)]
pub(super) fn call_hot<H: Handler>(
    submitter: &mut Submitter,
    device: &Device,
    call: &Short,
    put: Option<PutData<'_>>,
) -> Hot {
    if const { short_result::<H>().is_none() } {
        return Hot::Unsent;
    }
    let Some((hdr, uses)) = submitter.open_hot::<H>(device, call, put) else { return Hot::Unsent };
    let end = &mut submitter.calls.end;
    let called = match put {
        None => {
            let used = used_words::<H>(&call.words);
            let (first, second) = used.split_at(used.len().min(INLINE_WORDS));
            end.req.call_hot(hdr, first, bytemuck::cast_slice(second))
        }
        Some(put) => end.req.call_hot(hdr, &put.first(&call.words), put.second()),
    };
    take_called::<H>(submitter, device, called, uses)
}

/// [`call_hot`] of a call whose arguments go to the slot's chunk.
#[inline(always)]
fn call_in_chunk<H: Handler>(submitter: &mut Submitter, device: &Device, arguments: &Encoded<'_>) -> Hot {
    let end = &mut submitter.calls.end;
    if const { short_result::<H>().is_none() } || !end.req.hot_is_known_open() {
        return Hot::Unsent;
    }
    let Some(hdr) = end.chunk_hdr::<H>(device, arguments) else { return Hot::Unsent };
    end.fill_chunk(0, true, arguments);
    let called = end.req.call_hot(hdr, &[0, arguments.len() as u64], &[]);
    take_called::<H>(submitter, device, called, InlineUses::NONE)
}

/// Polls for the reply to a call that was just sent, and takes the result if it is short.
#[inline(always)]
fn take_called<H: Handler>(submitter: &mut Submitter, device: &Device, called: InHot, uses: InlineUses<'_>) -> Hot {
    let end = &mut submitter.calls.end;
    let len = const { short_result::<H>() }.unwrap_or_default();
    let slot = end.req.slots().hot();
    let mut words = [0u64; INLINE_WORDS];
    let is_answered = is_answered(slot, called.reply_pair(RepHdr::inline(Status::OK, len)), device);
    if is_answered {
        slot.read_reply(words.split_at_mut(len.div_ceil(8)).0);
    }
    // A result without payload came with the word, and a slot that was wiped has another word.
    if !is_answered || len != 0 && end.is_wiped(device) {
        end.req.leave_in_hot(called);
        uses.keep_in::<H>(&device.memory, &mut submitter.hot.uses, submitter.calls.end.number());
        return Hot::Sent;
    }
    uses.release::<H>(end.number());
    Hot::Done(words)
}

/// Polls for the reply `good` for about a microsecond. False when it has not come, or is another
/// one.
#[inline(always)]
fn is_answered(slot: Slot<'_, Coherent>, good: u64, device: &Device) -> bool {
    if slot.rep_pair() == good {
        return true;
    }
    // Rule 21: the first step of waiting notifies. Not before the first poll, because a call whose
    // reply is there should not pay for it.
    if device.wait_queue.device_is_waiting() {
        return false;
    }
    for _ in 1..spins() {
        // Not a tight loop: its polls run ahead of each other and fetch the slot back before the
        // device has written its reply, which doubles a round trip between neighbouring cores of
        // some processors (docs/performance.md).
        std::hint::spin_loop();
        let pair = slot.rep_pair();
        if pair == good {
            return true;
        }
        if pair_seq(pair) == pair_seq(good) {
            return false;
        }
    }
    false
}

/// [`sync`] and [`put_sync`] on a stream that other threads use as well. `None`: nothing was sent,
/// because the hot slot is not open to the call.
#[inline(always)]
pub(super) fn sync_shared<H: Handler>(
    stream: &impl Access,
    call: &Call<H>,
    put: Option<PutData<'_>>,
) -> Option<Result<ValueOf<H>, CallError<ErrorOf<H>>>> {
    let arguments = Short::of(call);
    let mut submitter = stream.enter();
    match call_hot::<H>(&mut submitter, stream.device(), &arguments, put) {
        Hot::Done(words) => {
            drop(submitter);
            Some(short_value::<H>(stream.device(), &words))
        }
        Hot::Sent => Some(wait_shared::<H, _>(stream, submitter)),
        Hot::Unsent => None,
    }
}

/// Waits for the call that [`call_hot`] has sent, without the stream between two polls.
#[cold]
#[inline(never)]
fn wait_shared<H: Handler, A: Access>(stream: &A, submitter: A::Use<'_>) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    let (seq, epoch) = (submitter.hot_seq(), submitter.epoch());
    drop(submitter);
    let poll = |submitter: &mut Submitter, device: &Device| submitter.try_finish_hot::<H>(device, seq);
    let mut wait = Wait::new(stream.device(), epoch, None);
    loop {
        if let Some(outcome) = stream.with(poll) {
            return decoded::<H>(stream.device(), outcome);
        }
        match wait.step() {
            Ok(()) => {}
            // A thread that is woken late finds the reply after the deadline.
            Err(Stop::Deadline) => {
                let outcome = stream.with(|submitter, device| {
                    poll(submitter, device).unwrap_or_else(|| {
                        submitter.abandon_hot(device, seq);
                        Err(CallError::Deadline(device.site::<H>("waiting for the reply")))
                    })
                });
                return decoded::<H>(stream.device(), outcome);
            }
            // The next poll finds the reply, when one was published just before, or the end.
            Err(Stop::EpochEnded(_)) => stream.with(Submitter::follow_epoch),
        }
    }
}

/// Waits for a call that [`call_hot`] has sent.
#[cold]
#[inline(never)]
fn wait_long<H: Handler>(stream: &impl Access) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    let outcome = stream.with(|submitter, device| submitter.wait_hot::<H>(device, None));
    decoded::<H>(stream.device(), outcome)
}

/// [`sync`] of a call that [`call_hot`] has not sent.
#[cold]
#[inline(never)]
fn sync_otherwise<H: Handler>(stream: &impl Access, call: Call<H>) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    if const { is_short_task::<H>() } {
        return sync_task(stream, &call);
    }
    let arguments = Short::of(&call);
    let outcome = stream.with(|submitter, device| {
        submitter.start_otherwise::<H>(device, &arguments).map(|_| submitter.finish::<H>(device))
    });
    match outcome {
        Some(outcome) => decoded::<H>(stream.device(), outcome),
        None => sync_slow(stream, &call, &CallOptions::default()),
    }
}

/// [`sync`] of a short task.
// Not inlined: other calls may have values that are too long for a second copy on the stack.
#[inline(never)]
fn sync_task<H: Handler>(stream: &impl Access, call: &Call<H>) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    let arguments = Short::of(call);
    let outcome = stream.with(|submitter, device| {
        let sent = ring::send_task::<H>(&mut submitter.calls, device, &arguments)?;
        // Rule 21: as in `is_answered`.
        let polls = if device.wait_queue.device_is_waiting() { 0 } else { spins() };
        for _ in 0..polls {
            if let Some(hdr) = submitter.calls.end.req.ring_reply(sent.at) {
                if let Some(words) = ring::take_task::<H>(&mut submitter.calls, device, sent, hdr) {
                    return Some(Ok(Answer::Short(words)));
                }
                break;
            }
            std::hint::spin_loop();
        }
        ring::keep_task(&mut submitter.calls, sent);
        let outcome = wait_for::<H>(submitter, device, Name::of_entry(sent.entry), None);
        // One of a body is tried again.
        (!is_full(&outcome) || !submitter.is_chained()).then_some(outcome)
    });
    match outcome {
        Some(outcome) => decoded::<H>(stream.device(), outcome),
        None => sync_slow(stream, call, &CallOptions::default()),
    }
}

/// Was there no place for the task?
fn is_full<E>(outcome: &Result<Answer, CallError<E>>) -> bool {
    matches!(outcome, Ok(Answer::Reply(reply)) if reply.hdr == RepHdr::inline(Status::QUEUE_FULL, 0))
}

/// [`sync`] of a call whose arguments are in no line of a slot, or have no fixed length.
#[inline(never)]
fn sync_long<H: Handler>(stream: &impl Access, call: &Call<H>) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    let arguments = Encoded::of(stream.device(), call);
    let hot = call_in_chunk::<H>(&mut stream.enter(), stream.device(), &arguments);
    match hot {
        Hot::Done(words) => short_value::<H>(stream.device(), &words),
        Hot::Sent => wait_long::<H>(stream),
        Hot::Unsent => sync_encoded::<H>(stream, &arguments, &CallOptions::default()),
    }
}

/// [`sync`] for every call: of any length, queued, with options.
#[cold]
#[inline(never)]
pub(super) fn sync_slow<H: Handler>(
    stream: &impl Access,
    call: &Call<H>,
    options: &CallOptions,
) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    sync_encoded::<H>(stream, &Encoded::of(stream.device(), call), options)
}

#[cold]
#[inline(never)]
fn sync_encoded<H: Handler>(
    stream: &impl Access,
    arguments: &Encoded<'_>,
    options: &CallOptions,
) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
    let outcome = stream.with(|submitter, device| answer::<H>(submitter, device, arguments, options));
    decoded::<H>(stream.device(), outcome)
}

/// Sends a call of [`sync_slow`] and waits.
fn answer<H: Handler>(
    submitter: &mut Submitter,
    device: &Device,
    arguments: &Encoded<'_>,
    options: &CallOptions,
) -> Outcome<H> {
    let until = options.deadline.map(in_time);
    if !is_task::<H>() {
        submit::enter::<H>(&Exclusive::new(submitter, device), until)?;
    }
    if is_task::<H>() || !submitter.hot_is_open() {
        let mut retry = Retry::new(submitter.is_chained(), until);
        return loop {
            let name = submit::offload_slow::<H>(&Exclusive::new(submitter, device), arguments, options, until)?;
            let outcome = wait_for::<H>(submitter, device, name, until);
            if !is_full(&outcome) || !retry.again() {
                break outcome;
            }
        };
    }
    submitter.start_slow::<H>(device, arguments, options)?;
    // Rule 21: as in `is_answered`.
    let polls = if device.wait_queue.device_is_waiting() { 0 } else { spins() };
    for _ in 0..polls {
        if submitter.calls.end.req.hot_reply().is_some() {
            break;
        }
        std::hint::spin_loop();
    }
    submitter.wait_hot::<H>(device, until)
}

/// Waits for a call's outcome and takes it. After the deadline the call is abandoned.
#[cold]
fn wait_for<H: Handler>(submitter: &mut Submitter, device: &Device, name: Name, until: Option<Instant>) -> Outcome<H> {
    let mut wait = Wait::new(device, submitter.epoch(), until);
    let mut polls = 0_u32;
    // What nobody carries does not come by itself.
    let spins = if device.wait_queue.is_carried() { 0 } else { spins() };
    loop {
        polls = polls.saturating_add(1);
        if submitter.try_complete(device, name) {
            break;
        }
        let step = if polls > spins {
            wait.step()
        } else {
            std::hint::spin_loop();
            Ok(())
        };
        match step {
            Ok(()) => {}
            // A thread that is woken late finds the reply after the deadline.
            Err(Stop::Deadline) if submitter.try_complete(device, name) => break,
            Err(Stop::Deadline) => {
                let late = device.late_site::<H>(submitter.place(name));
                submitter.abandon(device, name);
                return Err(CallError::Deadline(late));
            }
            // A reply published just before the end still counts.
            Err(Stop::EpochEnded(_)) => submitter.follow_epoch(device),
        }
        let place = submitter.place(name);
        wait.serve(place, || submitter.try_complete(device, name));
    }
    submitter.take::<H>(device, name)
}
