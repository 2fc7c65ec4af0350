//! Makes of the reply in a slot the outcome of its call: the calls in flight of one stream.

use super::epoch::EpochEnd;
use super::queue_end::{CONSUMED, ONE_WAY, QueueEnd};
use super::reply::{Answer, Outcome, ReplyCopy, ended_error};
use super::shape::short_result;
use super::table::{EntryState, PendingTable};
use super::tickets::Tickets;
use super::uses::Uses;
use crate::CallError;
use crate::device::{Device, Fence};
use hamr_comm::Handler;
use hamr_comm::abi::slot::{INLINE_WORDS, RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::am::{SlotAccess, Slots};
use std::sync::atomic::Ordering;

/// Replies moved to their entries when the ring is full: a few at a time, so that a caller that
/// reads in order still reads in place.
const MOVE_BATCH: u32 = 16;

/// The state of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(super) enum Progress {
    /// No outcome.
    NotYet,
    /// The outcome is in the entry, or the call was abandoned and its entry is free.
    Completed,
    /// No outcome, and the epoch is over: the end of the epoch gives the call one.
    EpochEnded,
}

/// Calls of one stream that have an entry, and those that are one-way.
pub(super) struct Calls {
    pub(super) end: QueueEnd,
    pub(super) table: PendingTable,
    pub(super) tickets: Tickets,
    /// One-way calls that ended otherwise than executed.
    pub(super) one_way_failures: u64,
    /// They are calls of bodies, for which tasks wait: CHAINED.
    pub(super) chained: bool,
    /// Bytes of stack that their tasks need.
    pub(super) task_stack: u32,
}

impl Calls {
    /// All tickets are free, and their counts start over: another epoch. There are none where tasks of the
    /// image have too little stack for this stream's.
    pub(super) fn renew_tickets(&mut self) {
        let is_enough = self.task_stack <= self.end.task_stack();
        self.tickets = Tickets::new(if is_enough { self.end.req.slots().ticket_slots() } else { 0 });
    }

    /// Releases answered slots from the oldest on, moving results to their entries. True when there
    /// is room now.
    #[inline(never)]
    pub(super) fn make_room(&mut self, device: &Device) -> bool {
        for _ in 0..MOVE_BATCH {
            self.one_way_failures += self.end.release_one_way(MOVE_BATCH);
            let Some(x) = self.end.req.oldest() else { break };
            match self.end.owner(x) {
                CONSUMED => {}
                ONE_WAY => break,
                entry => {
                    let Some(hdr) = self.end.req.ring_reply(x) else { break };
                    if self.move_to_entry(device, entry, x, hdr) == Progress::EpochEnded {
                        break;
                    }
                }
            }
            self.end.req.release_oldest();
        }
        self.end.req.ring_has_room()
    }

    /// Releases every answered slot up to the first that is not.
    pub(super) fn empty_ring(&mut self, device: &Device) {
        while let Some(oldest) = self.end.req.oldest() {
            self.make_room(device);
            if self.end.req.oldest() == Some(oldest) {
                break;
            }
        }
    }

    /// Takes in the replies of queued calls.
    pub(super) fn poll_ticket_slots(&mut self, device: &Device) {
        // A queued call has an entry.
        if self.table.in_use() == 0 {
            return;
        }
        for ticket in 0..self.tickets.len() {
            if let Some(entry) = self.tickets.entry(ticket)
                && self.table.state(entry) == Some(EntryState::Ticket(ticket))
                && self.complete_in_ticket_slot(device, entry, ticket) == Progress::EpochEnded
            {
                break;
            }
        }
    }

    /// Have all calls that were submitted before the ring's position `before` run?
    pub(super) fn have_run(&self, before: u64) -> bool {
        self.end.req.oldest().is_none_or(|oldest| oldest >= before) && !self.tickets.any_before(before)
    }

    /// Brings the entry's reply in, when it is there.
    pub(super) fn try_complete(&mut self, device: &Device, entry: u32) -> Progress {
        if let Some(EntryState::Ring(x)) = self.table.state(entry) {
            let Some(hdr) = self.end.req.ring_reply(x) else { return Progress::NotYet };
            if self.move_to_entry(device, entry, x, hdr) == Progress::EpochEnded {
                return Progress::EpochEnded;
            }
            self.end.release_consumed();
        }
        // A queued call that the device has just taken continues here.
        match self.table.state(entry) {
            Some(EntryState::Ticket(ticket)) => self.complete_in_ticket_slot(device, entry, ticket),
            _ => Progress::Completed,
        }
    }

    /// Moves the reply in the ring slot of `x` to its entry and marks the slot consumed. `NotYet`:
    /// the reply only reports that the call was queued, and its result comes in a ticket slot.
    fn move_to_entry(&mut self, device: &Device, entry: u32, x: u64, hdr: RepHdr) -> Progress {
        let uses = self.table.take_uses(entry);
        let reply = self.end.read(device, self.end.req.slots().ring(x as u32), self.end.slot_number(x), hdr, &uses);
        if self.end.is_wiped(device) {
            self.table.restore_uses(entry, uses);
            return Progress::EpochEnded;
        }
        self.end.set_owner(x, CONSUMED);
        if let Some(cold) = self.table.cold(entry)
            && let Some(ticket) = cold.ticket.take()
        {
            if hdr == RepHdr::taken(4) || hdr == RepHdr::taken(0) {
                self.table.restore_uses(entry, uses);
                let place = (hdr == RepHdr::taken(4)).then_some(reply.words[0] as u32);
                if let Some(cold) = self.table.cold(entry) {
                    cold.place = place.filter(|place| *place != RepHdr::NO_PLACE);
                }
                self.table.go_on_in_ticket_slot(entry, ticket);
                return Progress::NotYet;
            }
            if hdr.has(RepHdr::TAKEN) {
                // Broken. The device may run the call, so its word must not be expected again.
                self.tickets.free(ticket);
            } else {
                // The call was refused, or its task ended without a wait.
                self.tickets.free_unused(ticket);
                device.expect_none_in_ticket_slot(self.end.number(), ticket);
            }
        }
        self.complete(device, entry, reply, uses);
        Progress::Completed
    }

    fn complete_in_ticket_slot(&mut self, device: &Device, entry: u32, ticket: u32) -> Progress {
        let expected = self.end.ticket_seq(self.tickets.count(ticket));
        let Some(slot) = self.end.req.slots().ticket_slot(ticket).filter(|slot| slot.rep_seq() == expected) else {
            return Progress::NotYet;
        };
        let uses = self.table.take_uses(entry);
        let number = self.end.ticket_slot_number(ticket);
        let reply = self.end.read(device, slot, number, RepHdr(slot.rep_hdr()), &uses);
        if self.end.is_wiped(device) {
            self.table.restore_uses(entry, uses);
            return Progress::EpochEnded;
        }
        self.tickets.free(ticket);
        self.complete(device, entry, reply, uses);
        Progress::Completed
    }

    /// Puts a reply into its entry, or discards it when the call was abandoned.
    fn complete(&mut self, device: &Device, entry: u32, reply: ReplyCopy, mut uses: Uses) {
        uses.release(&device.memory);
        let one_way = self.table.cold(entry).is_some_and(|cold| cold.one_way);
        if one_way && (reply.hdr.status() != Status::OK || reply.broken().is_some()) {
            self.one_way_failures += 1;
        }
        // A device that was asked to leave its epoch cancelled what it had not run. That is the end
        // of the epoch, and not a reply.
        let epoch = device.epoch.load(Ordering::Acquire);
        let outcome = match reply.hdr.status() {
            Status::CANCELLED if !self.end.epoch().is(epoch) => EntryState::EpochEnded(EpochEnd::before(epoch)),
            _ => EntryState::Completed,
        };
        let Some(kept) = self.table.complete(entry, outcome) else { return };
        (kept.hdr, kept.words) = (reply.hdr, reply.words);
        if !reply.long.is_empty()
            && let Some(cold) = self.table.cold_or_new(entry)
        {
            cold.long = reply.long;
        }
    }

    /// Where the device keeps the task of an entry's call, once it has said so.
    pub(super) fn place(&mut self, entry: u32) -> Option<u32> {
        self.table.cold(entry)?.place
    }

    // --- results ---

    /// The words of the result of an entry's call ([`Answer::Short`]), when it is there and short: the
    /// common case, read in its ring slot. Frees the entry.
    #[inline(always)]
    pub(super) fn take_in_place<H: Handler>(&mut self, device: &Device, entry: u32) -> Option<[u64; INLINE_WORDS]> {
        let len = const { short_result::<H>() }?;
        let good = RepHdr::inline(Status::OK, len);
        let kept = self.table.get(entry)?;
        let words = match kept.state() {
            EntryState::Ring(x) => {
                if self.end.req.ring_reply(x)? != good {
                    return None;
                }
                self.end.req.prefetch_behind(x);
                let mut words = [0u64; INLINE_WORDS];
                self.end.req.slots().ring(x as u32).read_reply(words.split_at_mut(len.div_ceil(8)).0);
                // A result without payload came with the word, and a slot that was wiped has another.
                if len != 0 && self.end.is_wiped(device) {
                    return None;
                }
                self.end.consume(x);
                words
            }
            // Moved to its entry when the ring was full.
            EntryState::Completed if kept.hdr == good => kept.words,
            _ => return None,
        };
        self.table.put_back_used(entry, |mut cold| {
            cold.uses.release(&device.memory);
            if let Some(ticket) = cold.ticket {
                self.tickets.free_unused(ticket);
                device.expect_none_in_ticket_slot(self.end.number(), ticket);
            }
        });
        Some(words)
    }

    /// The outcome of an entry that has one; frees the entry.
    #[cold]
    pub(super) fn take<H: Handler>(&mut self, device: &Device, entry: u32) -> Outcome<H> {
        let (long, place) = match self.table.cold(entry) {
            Some(cold) => (std::mem::take(&mut cold.long), cold.place),
            None => (Vec::new(), None),
        };
        let Some(kept) = self.table.get(entry) else {
            return Err(CallError::Corrupt(device.site::<H>("reading the reply"), "no entry".into()));
        };
        let (hdr, words, state) = (kept.hdr, kept.words, kept.state());
        self.table.put_back(entry);
        match state {
            EntryState::EpochEnded(ended) => Err(ended_error(device, device.site::<H>("waiting for the reply"), ended)),
            _ => Ok(Answer::Reply(ReplyCopy { hdr, words, long, place })),
        }
    }

    /// The caller gives up the result: the entry is freed now, or when its reply comes (rule 16).
    pub(super) fn abandon(&mut self, device: &Device, entry: u32) -> Progress {
        if self.table.abandon(entry) { self.try_complete(device, entry) } else { Progress::Completed }
    }

    /// Sets CANCEL in the call's own header (rule 17). Of an epoch that is over there is nothing to
    /// cancel: the slot may be another call's, or another host's.
    pub(super) fn cancel(&mut self, device: &Device, entry: u32) {
        if !self.end.epoch().is(device.epoch.load(Ordering::Acquire)) {
            return;
        }
        let ticket = self.table.cold(entry).and_then(|cold| cold.ticket);
        let slots = self.end.req.slots();
        // The device reads the header of a queued call in its ticket slot, before and after the
        // ring slot is answered TAKEN.
        let headers = match self.table.state(entry) {
            Some(EntryState::Ring(x)) => [Some(slots.ring(x as u32)), ticket.and_then(|t| slots.ticket_slot(t))],
            Some(EntryState::Ticket(t)) => [slots.ticket_slot(t), None],
            _ => [None, None],
        };
        for slot in headers.into_iter().flatten() {
            slot.set_req_hdr(slot.req_hdr() | ReqHdr::CANCEL);
        }
        // A device whose tasks all wait sleeps, and looks when it is notified.
        device.notify(Fence::Full);
    }
}
