//! Submission into the ring: a slot, a ticket where the call is queued, an entry where its result
//! is read, then the message.

use super::CallOptions;
use super::completion::Calls;
use super::encode::{Limits, Message, fits_chunk, is_plain, is_task, plain_hdr, plain_words, prepare, used_words};
use super::queue_end::ONE_WAY;
use super::table::EntryState;
use crate::SubmitError;
use crate::device::Device;
use hamr_comm::abi::slot::{Ext, ReqHdr};
use hamr_comm::am::{SlotAccess, Slots};
use hamr_comm::migrate::Migratable;
use hamr_comm::{Call, Handler};
use std::sync::atomic::Ordering;

/// What a call that is not sent yet has reserved of its stream, beside the next ring slot.
#[derive(Clone, Copy)]
struct Reserved {
    ticket: Option<u32>,
}

/// Puts a plain call into the ring, when that has room and the key and an entry are found at once; its
/// result comes to the entry returned.
#[inline(always)]
pub(super) fn offload<H: Handler>(calls: &mut Calls, device: &Device, call: &Call<H>) -> Option<u32> {
    if const { is_plain::<H>() }
        && fits_chunk::<H>(|| calls.end.req.slots().rep_chunk_len())
        && calls.end.epoch().is(device.epoch.load(Ordering::Acquire))
        && calls.end.req.ring_has_room()
        && let Some(key) = calls.end.keys.first_key::<H>()
        && let Some(entry) = calls.table.take_again(EntryState::Ring(calls.end.req.next_position()))
    {
        let hdr = plain_hdr::<H>(key);
        calls.end.push(device, entry, hdr, used_words::<H>(&plain_words(call)));
        return Some(entry);
    }
    None
}

/// Sends a plain call that returns nothing, not even a word that it ran, when there is room and the key is
/// found at once. True when it is sent.
#[inline(always)]
pub(super) fn send<H: Handler>(calls: &mut Calls, device: &Device, call: &Call<H>) -> bool {
    if const { is_plain::<H>() }
        && calls.end.epoch().is(device.epoch.load(Ordering::Acquire))
        && (calls.end.req.ring_has_room() || calls.make_room(device))
        && let Some(key) = calls.end.keys.first_key::<H>()
    {
        let hdr = plain_hdr::<H>(key).with(ReqHdr::ONE_WAY);
        calls.end.push(device, ONE_WAY, hdr, used_words::<H>(&plain_words(call)));
        return true;
    }
    false
}

/// Puts any call into the ring. `None`: there is no free slot or ticket now.
pub(super) fn try_offload<H: Handler>(
    calls: &mut Calls,
    scratch: &mut Vec<u8>,
    device: &Device,
    call: &Call<H>,
    options: &CallOptions,
) -> Result<Option<u32>, SubmitError> {
    let Some(reserved) = reserve::<H>(calls, device)? else { return Ok(None) };
    let limits = limits(calls);
    let message = prepare_reserved(calls, scratch, device, call, options, reserved, limits)?;
    publish::<H>(calls, scratch, device, message, reserved).map(Some)
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
    scratch: &mut Vec<u8>,
    device: &Device,
    call: &Call<H>,
) -> Result<Option<Sent>, SubmitError> {
    let Some(reserved) = reserve::<H>(calls, device)? else { return Ok(None) };
    // Its result is discarded, however long it is.
    let limits = Limits { reply_chunk: usize::MAX, ..limits(calls) };
    let mut message = prepare_reserved(calls, scratch, device, call, &CallOptions::default(), reserved, limits)?;
    if is_task::<H>() || H::Args::HAS_BUFFERS || message.uses.blocks[0].is_some() {
        let entry = publish::<H>(calls, scratch, device, message, reserved)?;
        if let Some(cold) = calls.table.cold_or_new(entry) {
            cold.one_way = true;
        }
        return Ok(Some(Sent::WithEntry(entry)));
    }
    message.hdr = message.hdr.with(ReqHdr::ONE_WAY);
    calls.end.fill_chunk(calls.end.slot_number(calls.end.req.next_position()), scratch.get(..message.chunk));
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
        two_lines: false,
    }
}

/// Reserves the next ring slot, and a ticket where the call needs one. `None`: none is free now.
fn reserve<H: Handler>(calls: &mut Calls, device: &Device) -> Result<Option<Reserved>, SubmitError> {
    if is_task::<H>() && calls.tickets.is_empty() {
        return Err(SubmitError::NoTickets { site: device.site::<H>("submitting") });
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
    calls: &mut Calls,
    scratch: &mut Vec<u8>,
    device: &Device,
    call: &Call<H>,
    options: &CallOptions,
    reserved: Reserved,
    limits: Limits,
) -> Result<Message, SubmitError> {
    let message = prepare(scratch, &calls.end, limits, device, call, options);
    message.inspect_err(|_| give_back(calls, reserved))
}

/// Publishes in the slot that was reserved.
fn publish<H: Handler>(
    calls: &mut Calls,
    scratch: &[u8],
    device: &Device,
    mut message: Message,
    reserved: Reserved,
) -> Result<u32, SubmitError> {
    let Reserved { ticket } = reserved;
    let Some(entry) = calls.table.take(EntryState::Ring(calls.end.req.next_position())) else {
        give_back(calls, reserved);
        message.uses.release(&device.memory);
        let limit = calls.table.limit();
        return Err(SubmitError::Full { site: device.site::<H>("submitting"), limit });
    };
    let long = scratch.get(..message.chunk);
    match ticket {
        None => calls.end.fill_chunk(calls.end.slot_number(calls.end.req.next_position()), long),
        Some(t) => {
            calls.end.fill_chunk(calls.end.ticket_slot_number(t), long);
            let seq = calls.end.ticket_seq(calls.tickets.count(t));
            // EXT: deadline and ticket_seq, ticket, chain, trace.
            let chain = if calls.chained { Ext::CHAINED } else { 0 };
            message.words[0] |= u64::from(seq) << 32;
            message.words[1] = u64::from(t) | u64::from(chain) << 16;
            if let Some(ticket_slot) = calls.end.req.slots().ticket_slot(t) {
                ticket_slot.set_req_hdr(message.hdr.0);
            }
            calls.tickets.set_entry(t, entry);
            let x = calls.end.req.next_position();
            device.expect_in_ticket_slot((calls.end.number(), t), seq, (x, calls.end.req.ring_seq(x)));
        }
    }
    calls.end.push(device, entry, message.hdr, message.used());
    if (ticket.is_some() || !message.uses.is_empty())
        && let Some(cold) = calls.table.cold_or_new(entry)
    {
        cold.uses = std::mem::take(&mut message.uses);
        cold.ticket = ticket;
    }
    Ok(entry)
}
