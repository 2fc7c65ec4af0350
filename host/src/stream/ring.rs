//! Submission into the ring: a slot, a ticket where the call is queued, an entry where its result
//! is read, then the message.

use super::CallOptions;
use super::arguments::{Encoded, Short};
use super::completion::Calls;
use super::encode::{Limits, Message, prepare};
use super::queue_end::{ONE_WAY, PLAIN};
use super::shape::{
    fits_chunk, is_plain, is_short_task, is_task, plain_hdr, plain_len, short_result, task_flags, used_words,
};
use super::table::{EntryState, Name};
use crate::SubmitError;
use crate::device::Device;
use hamr_comm::Handler;
use hamr_comm::abi::slot::{Ext, INLINE_WORDS, RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::am::{SlotAccess, Slots};
use hamr_comm::migrate::Migratable;
use std::sync::atomic::Ordering;

/// What a call that is not sent yet has reserved of its stream, beside the next ring slot.
#[derive(Clone, Copy)]
struct Reserved {
    ticket: Option<u32>,
}

/// Puts a plain call into the ring, when that has room and the key is found at once.
#[inline(always)]
pub(super) fn offload<H: Handler>(calls: &mut Calls, device: &Device, call: &Short) -> Option<Name> {
    if const { is_plain::<H>() }
        && fits_chunk::<H>(|| calls.end.req.slots().rep_chunk_len())
        && calls.end.epoch().is(device.epoch.load(Ordering::Acquire))
        && (calls.end.req.ring_has_room() || calls.make_room(device))
        && calls.table.has_room()
        && let Some(key) = calls.end.keys.first_key::<H>()
    {
        return Some(push_plain(calls, device, plain_hdr::<H>(key), used_words::<H>(&call.words)));
    }
    None
}

/// Puts a call whose arguments go to the slot's chunk into the ring, when that has room and the key is found at once.
#[inline(always)]
pub(super) fn offload_in_chunk<H: Handler>(
    calls: &mut Calls,
    device: &Device,
    arguments: &Encoded<'_>,
) -> Option<Name> {
    let hdr = calls.end.chunk_hdr::<H>(device, arguments)?;
    if !calls.end.req.ring_has_room() && !calls.make_room(device) || !calls.table.has_room() {
        return None;
    }
    calls.end.fill_chunk(calls.end.slot_number(calls.end.req.next_position()), true, arguments);
    Some(push_plain(calls, device, hdr, &[0, arguments.len() as u64]))
}

/// Puts a call without an entry into the ring; its name.
#[inline(always)]
fn push_plain(calls: &mut Calls, device: &Device, hdr: ReqHdr, words: &[u64]) -> Name {
    let name = Name::of_number(calls.end.number_of(calls.end.req.next_position()));
    calls.table.count();
    calls.end.push(device, PLAIN, hdr, words);
    name
}

/// Sends a plain call that returns nothing, not even a word that it ran, when there is room and the key is
/// found at once. True when it is sent.
#[inline(always)]
pub(super) fn send<H: Handler>(calls: &mut Calls, device: &Device, call: &Short) -> bool {
    if const { is_plain::<H>() }
        && calls.end.epoch().is(device.epoch.load(Ordering::Acquire))
        && (calls.end.req.ring_has_room() || calls.make_room(device))
        && let Some(key) = calls.end.keys.first_key::<H>()
    {
        let hdr = plain_hdr::<H>(key).with(ReqHdr::ONE_WAY);
        calls.end.push(device, ONE_WAY, hdr, used_words::<H>(&call.words));
        return true;
    }
    false
}

/// The call of a short task that the ring has and its caller waits for.
#[derive(Clone, Copy)]
pub(super) struct SentTask {
    /// The ring's position.
    pub(super) at: u64,
    pub(super) entry: u32,
    ticket: u32,
}

/// Puts a short task's call into the ring of a stream that has no other call, when the key, a ticket and an
/// entry are found at once. [`take_task`] or [`keep_task`] goes on.
#[inline(always)]
pub(super) fn send_task<H: Handler>(calls: &mut Calls, device: &Device, call: &Short) -> Option<SentTask> {
    let at = calls.end.req.next_position();
    if !const { is_short_task::<H>() }
        || !fits_chunk::<H>(|| calls.end.req.slots().rep_chunk_len())
        || !calls.end.epoch().is(device.epoch.load(Ordering::Acquire))
        || calls.table.in_use() != 0
        || calls.end.req.oldest().is_some()
        || calls.end.req.hot_is_busy()
    {
        return None;
    }
    let key = calls.end.keys.first_key::<H>()?;
    let entry = calls.table.take(EntryState::Ring(at))?;
    let Some(ticket) = calls.tickets.take(at) else {
        calls.table.put_back(entry);
        return None;
    };
    let hdr = ReqHdr::inline(key, const { size_of::<Ext>() + plain_len::<H>() }).with(task_flags::<H>());
    let ext = name_ticket(calls, device, entry, ticket, hdr);
    let [first, second, third, fourth, ..] = call.words;
    let words = [ext[0], ext[1], first, second, third, fourth];
    calls.end.push(device, entry, hdr, words.split_at(const { 2 + plain_len::<H>().div_ceil(8) }).0);
    Some(SentTask { at, entry, ticket })
}

/// The words of the value of a task that ended without a wait: with a reply of this header, in its request's
/// slot. `None`: it is another reply.
#[inline(always)]
pub(super) fn take_task<H: Handler>(
    calls: &mut Calls,
    device: &Device,
    sent: SentTask,
    hdr: RepHdr,
) -> Option<[u64; INLINE_WORDS]> {
    let len = const { short_result::<H>() }?;
    if hdr != RepHdr::inline(Status::OK, len) {
        return None;
    }
    let mut words = [0u64; INLINE_WORDS];
    calls.end.req.slots().ring(sent.at as u32).read_reply(words.split_at_mut(len.div_ceil(8)).0);
    // A result without payload came with the word, and a slot that was wiped has another.
    if len != 0 && calls.end.is_wiped(device) {
        return None;
    }
    calls.end.consume(sent.at);
    calls.tickets.free_unused(sent.ticket);
    device.expect_none_in_ticket_slot(calls.end.number(), sent.ticket);
    calls.table.put_back(sent.entry);
    Some(words)
}

/// The call goes on as any other.
#[cold]
pub(super) fn keep_task(calls: &mut Calls, sent: SentTask) {
    if let Some(entry) = calls.table.get(sent.entry) {
        entry.ticket = Some(sent.ticket);
    }
}

/// Makes the call with this header that of the ticket; its two words of EXT, without a deadline.
#[inline(always)]
fn name_ticket(calls: &mut Calls, device: &Device, entry: u32, ticket: u32, hdr: ReqHdr) -> [u64; 2] {
    let seq = calls.end.ticket_seq(calls.tickets.count(ticket));
    // The device has read it, and keeps it unless it changes.
    if calls.tickets.set_header(ticket, hdr)
        && let Some(slot) = calls.end.req.slots().ticket_slot(ticket)
    {
        slot.set_req_hdr(hdr.0);
    }
    calls.tickets.set_entry(ticket, entry);
    let x = calls.end.req.next_position();
    device.expect_in_ticket_slot((calls.end.number(), ticket), seq, (x, calls.end.req.ring_seq(x)));
    let chain = if calls.chained { Ext::CHAINED } else { 0 };
    // EXT: deadline and ticket_seq, ticket, chain, trace.
    [u64::from(seq) << 32, u64::from(ticket) | u64::from(chain) << 16]
}

/// Puts any call into the ring. `None`: there is no free slot or ticket now.
pub(super) fn try_offload<H: Handler>(
    calls: &mut Calls,
    device: &Device,
    arguments: &Encoded<'_>,
    options: &CallOptions,
) -> Result<Option<Name>, SubmitError> {
    let Some(reserved) = reserve::<H>(calls, device)? else { return Ok(None) };
    let limits = limits(calls);
    let mut message = Message::of(limits.stream);
    prepare_reserved::<H>(&mut message, calls, device, arguments, options, reserved, limits)?;
    if message.uses.is_empty() && reserved.ticket.is_none() && calls.table.has_room() {
        calls.end.fill_chunk(calls.end.slot_number(calls.end.req.next_position()), message.in_chunk, arguments);
        return Ok(Some(push_plain(calls, device, message.hdr, message.used())));
    }
    let entry = publish::<H>(calls, device, arguments, &mut message, reserved)?;
    Ok(Some(Name::of_entry(entry)))
}

/// A one-way call that was sent.
pub(super) enum Sent {
    /// It has no entry.
    Plain,
    /// Its uses end when it is answered: it has this entry, which the caller abandons.
    WithEntry(u32),
}

/// Sends any call. `None`: there is no free slot or ticket now.
pub(super) fn try_send<H: Handler>(
    calls: &mut Calls,
    device: &Device,
    arguments: &Encoded<'_>,
) -> Result<Option<Sent>, SubmitError> {
    let Some(reserved) = reserve::<H>(calls, device)? else { return Ok(None) };
    // Its result is discarded, however long it is.
    let limits = Limits { reply_chunk: usize::MAX, ..limits(calls) };
    let options = CallOptions::default();
    let mut message = Message::of(limits.stream);
    prepare_reserved::<H>(&mut message, calls, device, arguments, &options, reserved, limits)?;
    if is_task::<H>() || H::Args::HAS_BUFFERS || message.uses.blocks[0].is_some() {
        let entry = publish::<H>(calls, device, arguments, &mut message, reserved)?;
        if let Some(entry) = calls.table.get(entry) {
            entry.one_way = true;
        }
        return Ok(Some(Sent::WithEntry(entry)));
    }
    message.hdr = message.hdr.with(ReqHdr::ONE_WAY);
    calls.end.fill_chunk(calls.end.slot_number(calls.end.req.next_position()), message.in_chunk, arguments);
    calls.end.push(device, ONE_WAY, message.hdr, message.used());
    Ok(Some(Sent::Plain))
}

/// What a message in the ring needs of its stream.
pub(super) fn limits(calls: &Calls) -> Limits {
    let slots = calls.end.req.slots();
    Limits {
        stream: calls.end.number(),
        request_chunk: slots.req_chunk_len(),
        reply_chunk: slots.rep_chunk_len(),
        message: calls.end.longest_message(),
        two_lines: false,
    }
}

/// Reserves the next ring slot, and a ticket where the call needs one. `None`: none is free now.
fn reserve<H: Handler>(calls: &mut Calls, device: &Device) -> Result<Option<Reserved>, SubmitError> {
    if is_task::<H>() && calls.tickets.is_empty() {
        let (site, needed, has) = (device.site::<H>("submitting"), calls.task_stack, calls.end.task_stack());
        let is_enough = needed <= has;
        return Err(if is_enough {
            SubmitError::NoTickets { site }
        } else {
            SubmitError::TaskStack { site, needed, has }
        });
    }
    if !calls.end.req.ring_has_room() && !calls.make_room(device) {
        return Ok(None);
    }
    if !is_task::<H>() {
        return Ok(Some(Reserved { ticket: None }));
    }
    Ok(take_ticket(calls, device).map(|ticket| Reserved { ticket: Some(ticket) }))
}

fn take_ticket(calls: &mut Calls, device: &Device) -> Option<u32> {
    let at = calls.end.req.next_position();
    calls.tickets.take(at).or_else(|| {
        // Ring slots of calls that were taken first: their replies come in ticket slots.
        calls.make_room(device);
        calls.poll_ticket_slots(device);
        calls.tickets.take(at)
    })
}

/// The call is not sent: returns what was reserved.
fn give_back(calls: &mut Calls, reserved: Reserved) {
    reserved.ticket.into_iter().for_each(|ticket| calls.tickets.free_unused(ticket));
}

fn prepare_reserved<H: Handler>(
    message: &mut Message,
    calls: &mut Calls,
    device: &Device,
    arguments: &Encoded<'_>,
    options: &CallOptions,
    reserved: Reserved,
    limits: Limits,
) -> Result<(), SubmitError> {
    let prepared = prepare::<H>(message, arguments, &calls.end, limits, device, options);
    prepared.inspect_err(|_| give_back(calls, reserved))
}

/// Publishes in the slot that was reserved.
fn publish<H: Handler>(
    calls: &mut Calls,
    device: &Device,
    arguments: &Encoded<'_>,
    message: &mut Message,
    reserved: Reserved,
) -> Result<u32, SubmitError> {
    let Reserved { ticket } = reserved;
    let Some(entry) = calls.table.take(EntryState::Ring(calls.end.req.next_position())) else {
        give_back(calls, reserved);
        message.uses.release(&device.memory);
        let limit = calls.table.limit();
        return Err(SubmitError::Full { site: device.site::<H>("submitting"), limit });
    };
    match ticket {
        None => calls.end.fill_chunk(calls.end.slot_number(calls.end.req.next_position()), message.in_chunk, arguments),
        Some(t) => {
            calls.end.fill_chunk(calls.end.ticket_slot_number(t), message.in_chunk, arguments);
            let [seq, place] = name_ticket(calls, device, entry, t, message.hdr);
            message.words[0] |= seq;
            message.words[1] = place;
        }
    }
    calls.end.push(device, entry, message.hdr, message.used());
    if let Some(entry) = calls.table.get(entry) {
        (entry.uses, entry.ticket) = (std::mem::take(&mut message.uses), ticket);
    }
    Ok(entry)
}
