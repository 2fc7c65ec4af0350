//! Makes of the reply in a slot the outcome of its call: the calls in flight of one stream.

use super::epoch::EpochEnd;
use super::moved::{Kept, MovedResults};
use super::queue_end::{ABANDONED, CONSUMED, ONE_WAY, PLAIN, QueueEnd};
use super::reply::{Answer, Outcome, ReplyCopy, ended_error};
use super::shape::short_result;
use super::table::{Entry, EntryState, Name, PendingTable};
use super::tickets::Tickets;
use crate::device::{Device, Fence};
use hamr_comm::Handler;
use hamr_comm::abi::slot::{INLINE_WORDS, RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::am::{SlotAccess, Slots};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Replies moved out of the ring when it is full: a few at a time, so that a caller that
/// reads in order still reads in place.
const MOVE_BATCH: u32 = 16;

/// The state of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(super) enum Progress {
    /// No outcome.
    NotYet,
    /// There is an outcome, or the call was abandoned and has ended.
    Completed,
    /// No outcome, and the epoch is over: the end of the epoch gives the call one.
    EpochEnded,
}

/// The calls of one stream, but for that in the hot slot.
pub(super) struct Calls {
    pub(super) end: QueueEnd,
    pub(super) table: PendingTable,
    pub(super) moved: MovedResults,
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

    /// Releases answered slots from the oldest on, moving results out of the ring. True when there is room now.
    #[inline(never)]
    pub(super) fn make_room(&mut self, device: &Device) -> bool {
        for _ in 0..MOVE_BATCH {
            self.one_way_failures += self.end.release_done(MOVE_BATCH);
            let Some(x) = self.end.req.oldest() else { break };
            let Some(hdr) = self.end.req.ring_reply(x).filter(|_| self.end.owner(x) != ONE_WAY) else { break };
            if self.move_out(device, x, hdr) == Progress::EpochEnded {
                break;
            }
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

    /// The epoch is over: moves what is in the ring out of it.
    pub(super) fn end_ring(&mut self, device: &Device, ended: EpochEnd) {
        self.empty_ring(device);
        let (next, oldest) = (self.end.req.next_position(), self.end.req.oldest());
        for x in oldest.unwrap_or(next)..next {
            // A late reply may have let the ring go on.
            if self.end.req.oldest().is_none_or(|oldest| x < oldest) {
                continue;
            }
            match (self.end.owner(x), self.end.req.ring_reply(x)) {
                (CONSUMED | ONE_WAY, _) => {}
                (_, Some(hdr)) => _ = self.move_out(device, x, hdr),
                (PLAIN, None) => self.moved.push(self.end.number_of(x), Kept::Ended(ended)),
                (ABANDONED, None) => self.table.discount(),
                // With its entry.
                (_, None) => {}
            }
        }
    }

    /// Takes in the replies of queued calls.
    pub(super) fn poll_ticket_slots(&mut self, device: &Device) {
        if !self.tickets.any() {
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

    /// Has the call an outcome? Brings its entry's in, when it has one.
    pub(super) fn try_complete(&mut self, device: &Device, name: Name) -> Progress {
        let Some(entry) = name.entry() else {
            let is_there = self.end.position(name).is_none_or(|x| self.end.req.ring_reply(x).is_some());
            return if is_there { Progress::Completed } else { Progress::NotYet };
        };
        if let Some(EntryState::Ring(x)) = self.table.state(entry) {
            let Some(hdr) = self.end.req.ring_reply(x) else { return Progress::NotYet };
            if self.move_to_entry(device, entry, x, hdr) == Progress::EpochEnded {
                return Progress::EpochEnded;
            }
        }
        // A queued call that the device has just taken continues here.
        match self.table.state(entry) {
            Some(EntryState::Ticket(ticket)) => self.complete_in_ticket_slot(device, entry, ticket),
            _ => Progress::Completed,
        }
    }

    /// Moves the reply at `x`, of a call that is not one-way, out of the ring.
    fn move_out(&mut self, device: &Device, x: u64, hdr: RepHdr) -> Progress {
        let owner = self.end.owner(x);
        if owner != PLAIN && owner != ABANDONED {
            return self.move_to_entry(device, owner, x, hdr);
        }
        let reply = self.end.read_ring(device, x, hdr, None);
        if self.end.is_wiped(device) {
            return Progress::EpochEnded;
        }
        if owner == PLAIN {
            let kept = match self.end_of(device, hdr.status()) {
                Some(ended) => Kept::Ended(ended),
                None if reply.long.is_empty() => Kept::Short(hdr, reply.words),
                None => Kept::Long(Box::new(reply)),
            };
            self.moved.push(self.end.number_of(x), kept);
        } else {
            self.table.discount();
        }
        self.end.consume(x);
        Progress::Completed
    }

    /// Moves the reply in the ring slot of `x` to its entry and marks the slot consumed. `NotYet`:
    /// the reply only reports that the call was queued, and its result comes in a ticket slot.
    fn move_to_entry(&mut self, device: &Device, index: u32, x: u64, hdr: RepHdr) -> Progress {
        let Some(entry) = self.table.get(index) else { return Progress::Completed };
        let reply = self.end.read_ring(device, x, hdr, entry.uses.reply_block());
        if self.end.is_wiped(device) {
            return Progress::EpochEnded;
        }
        self.end.consume(x);
        if let Some(ticket) = entry.ticket.take() {
            if hdr == RepHdr::taken(4) || hdr == RepHdr::taken(0) {
                let place = (hdr == RepHdr::taken(4)).then_some(reply.words[0] as u32);
                entry.reply.place = place.filter(|place| *place != RepHdr::NO_PLACE);
                entry.state = EntryState::Ticket(ticket);
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
        self.complete(device, index, reply);
        Progress::Completed
    }

    fn complete_in_ticket_slot(&mut self, device: &Device, index: u32, ticket: u32) -> Progress {
        let expected = self.end.ticket_seq(self.tickets.count(ticket));
        let Some(slot) = self.end.req.slots().ticket_slot(ticket).filter(|slot| slot.rep_seq() == expected) else {
            return Progress::NotYet;
        };
        let Some(entry) = self.table.get(index) else { return Progress::Completed };
        let number = self.end.ticket_slot_number(ticket);
        let reply = self.end.read(device, slot, number, RepHdr(slot.rep_hdr()), entry.uses.reply_block());
        if self.end.is_wiped(device) {
            return Progress::EpochEnded;
        }
        self.tickets.free(ticket);
        self.complete(device, index, reply);
        Progress::Completed
    }

    /// Puts a reply into its entry, or discards it when the call was abandoned.
    fn complete(&mut self, device: &Device, index: u32, reply: ReplyCopy) {
        let ended = self.end_of(device, reply.hdr.status());
        let Some(entry) = self.table.get(index) else { return };
        entry.uses.release(&device.memory);
        if entry.one_way && (reply.hdr.status() != Status::OK || reply.broken().is_some()) {
            self.one_way_failures += 1;
        }
        entry.reply = ReplyCopy { place: entry.reply.place, ..reply };
        self.table.complete(index, ended.map_or(EntryState::Completed, EntryState::EpochEnded));
    }

    /// Is a reply with this status the end of its epoch, and none? A device that was asked to leave its epoch
    /// cancelled what it had not run.
    fn end_of(&self, device: &Device, status: Status) -> Option<EpochEnd> {
        let epoch = device.epoch.load(Ordering::Acquire);
        (status == Status::CANCELLED && !self.end.epoch().is(epoch)).then(|| EpochEnd::before(epoch))
    }

    /// Where the device keeps the task of a call, once it has said so.
    pub(super) fn place(&mut self, name: Name) -> Option<u32> {
        self.table.get(name.entry()?)?.reply.place
    }

    /// When the caller of a call stops waiting.
    pub(super) fn until(&mut self, name: Name) -> Option<Instant> {
        self.table.get(name.entry()?)?.until
    }

    /// Sets that time. The call may have another name from now on.
    pub(super) fn set_until(&mut self, name: Name, until: Instant) -> Name {
        let index = match (name.entry(), self.end.position(name)) {
            (Some(index), _) => index,
            (None, Some(x)) => {
                let index = self.table.give(EntryState::Ring(x));
                self.end.set_owner(x, index);
                index
            }
            // Its result is there.
            (None, None) => return name,
        };
        if let Some(entry) = self.table.get(index) {
            entry.until = Some(until);
        }
        Name::of_entry(index)
    }

    // --- results ---

    /// The words of the result of a call ([`Answer::Short`]), when it is there and short: the common case,
    /// read in its ring slot. Its name is no longer used.
    #[inline(always)]
    pub(super) fn take_short<H: Handler>(&mut self, device: &Device, name: Name) -> Option<[u64; INLINE_WORDS]> {
        let len = const { short_result::<H>() }?;
        let good = RepHdr::inline(Status::OK, len);
        if let Some(index) = name.entry() {
            return self.take_short_of_entry(device, index, good);
        }
        let x = self.end.position(name)?;
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
        self.table.discount();
        Some(words)
    }

    #[inline(never)]
    fn take_short_of_entry(&mut self, device: &Device, index: u32, good: RepHdr) -> Option<[u64; INLINE_WORDS]> {
        if self.try_complete(device, Name::of_entry(index)) != Progress::Completed {
            return None;
        }
        let entry = self.table.get(index).filter(|entry| entry.state == EntryState::Completed)?;
        let words = (entry.reply.hdr == good).then_some(entry.reply.words)?;
        self.table.put_back(index);
        Some(words)
    }

    /// The outcome of a call that has one, whose name is no longer used. `None`: the end of its epoch is its
    /// outcome, or gives it one.
    #[cold]
    pub(super) fn take<H: Handler>(&mut self, device: &Device, name: Name) -> Option<Outcome<H>> {
        let ended = |ended| Err(ended_error(device, device.site::<H>("waiting for the reply"), ended));
        if let Some(index) = name.entry() {
            let entry = self.table.get(index)?;
            let outcome = match entry.state {
                EntryState::EpochEnded(end) => ended(end),
                _ => Ok(Answer::Reply(ReplyCopy { long: std::mem::take(&mut entry.reply.long), ..entry.reply })),
            };
            self.table.put_back(index);
            return Some(outcome);
        }
        let outcome = match self.end.position(name) {
            Some(x) => {
                let reply = self.end.read_ring(device, x, self.end.req.ring_reply(x)?, None);
                if self.end.is_wiped(device) {
                    return None;
                }
                self.end.consume(x);
                Ok(Answer::Reply(reply))
            }
            None => match self.moved.take(self.end.number_of_name(name))? {
                Kept::Short(hdr, words) => Ok(Answer::Reply(ReplyCopy { hdr, words, long: Vec::new(), place: None })),
                Kept::Long(reply) => Ok(Answer::Reply(*reply)),
                Kept::Ended(end) => ended(end),
                Kept::Read => return None,
            },
        };
        self.table.discount();
        Some(outcome)
    }

    /// The caller gives up the result: the entry is freed now, or when its reply comes (rule 16).
    pub(super) fn abandon(&mut self, device: &Device, name: Name) -> Progress {
        if let Some(index) = name.entry() {
            return if self.table.abandon(index) { self.try_complete(device, name) } else { Progress::Completed };
        }
        let Some(x) = self.end.position(name) else {
            if self.moved.take(self.end.number_of_name(name)).is_some() {
                self.table.discount();
            }
            return Progress::Completed;
        };
        self.end.set_owner(x, ABANDONED);
        self.end.req.ring_reply(x).map_or(Progress::NotYet, |hdr| self.move_out(device, x, hdr))
    }

    /// Sets CANCEL in the call's own header (rule 17). Of an epoch that is over there is nothing to
    /// cancel: the slot may be another call's, or another host's.
    pub(super) fn cancel(&mut self, device: &Device, name: Name) {
        if !self.end.epoch().is(device.epoch.load(Ordering::Acquire)) {
            return;
        }
        let slots = self.end.req.slots();
        let in_ring = |x: u64| {
            let slot = slots.ring(x as u32);
            Some((slot, slot.req_hdr() | ReqHdr::CANCEL))
        };
        let tickets = &mut self.tickets;
        let mut in_ticket_slot = |ticket| Some((slots.ticket_slot(ticket)?, tickets.cancel(ticket)));
        // The device reads the header of a queued call in its ticket slot, before and after the
        // ring slot is answered TAKEN.
        let headers = match name.entry().map(|index| self.table.get(index)) {
            None => [self.end.position(name).and_then(in_ring), None],
            Some(Some(Entry { state: EntryState::Ring(x), ticket, .. })) => {
                [in_ring(*x), ticket.and_then(in_ticket_slot)]
            }
            Some(Some(Entry { state: EntryState::Ticket(ticket), .. })) => [in_ticket_slot(*ticket), None],
            Some(_) => [None, None],
        };
        for (slot, hdr) in headers.into_iter().flatten() {
            slot.set_req_hdr(hdr);
        }
        // A device whose tasks all wait sleeps, and looks when it is notified.
        device.notify(Fence::Full);
    }
}
