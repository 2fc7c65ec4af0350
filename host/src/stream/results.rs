//! The second half of the submitter: where answers go, how they are read, and what happens when a device's epoch ends.

use super::epoch::{EpochEnd, SubmitterEpoch};
use super::message::{InlineUses, ReplyCopy, decode};
use super::submitter::{CONSUMED, ONE_WAY, Submitter, Ticket};
use super::table::{EntryState, Uses};
use super::wait::{SPINS, Stop, Wait};
use crate::CallError;
use crate::device::Device;
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::slot::{self, Descriptor, INLINE_BYTES, INLINE_WORDS, RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::sync::Coherent;
use hamr_comm::abi::window::Slot;
use hamr_comm::am::{SlotAccess, Slots};
use hamr_comm::migrate::{Decoder, Migratable};
use hamr_comm::{ErrorOf, Handler, ValueOf};
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

/// Answers moved to their entries when the ring is full: a few at a time, so that a reader in order still reads in place.
const MOVE_BATCH: u32 = 16;

impl Submitter {
    /// Gives answered slots back from the oldest on, moving results to their entries. True when there is room now.
    #[inline]
    pub(super) fn make_room(&mut self, device: &Device) -> bool {
        let mask = self.ring_entries.len() - 1;
        for _ in 0..MOVE_BATCH {
            let Some(x) = self.req.oldest() else { break };
            let entry = self.ring_entries.get(x as usize & mask).copied().unwrap_or(CONSUMED);
            if entry != CONSUMED {
                let Some(hdr) = self.req.ring_reply(x) else { break };
                if entry == ONE_WAY {
                    if self.is_wiped(device) {
                        break;
                    }
                    if hdr != RepHdr::inline(Status::EXECUTED, 0) {
                        self.one_way_failures += 1;
                    }
                } else if !self.move_to_entry(device, entry, x, hdr) {
                    break;
                }
            }
            self.req.release_oldest();
        }
        self.req.ring_has_room()
    }

    /// Gives every answered slot back up to the first that is not.
    fn empty_ring(&mut self, device: &Device) {
        while let Some(oldest) = self.req.oldest() {
            self.make_room(device);
            if self.req.oldest() == Some(oldest) {
                break;
            }
        }
    }

    /// Takes in every reply that is there, without waiting.
    pub(crate) fn poll(&mut self, device: &Device) {
        self.follow_epoch(device);
        self.poll_hot(device);
        self.empty_ring(device);
        self.poll_ticket_slots(device);
    }

    /// May what was just read of the slots have been wiped meanwhile, for an epoch that another stream began? Then it is not to be
    /// used: [`Self::follow_epoch`] knows where the replies are.
    #[inline(always)]
    pub(super) fn is_wiped(&self, device: &Device) -> bool {
        // Behind it: whoever wipes has ended the epoch before.
        fence(Ordering::Acquire);
        !self.epoch.is(device.epoch.load(Ordering::Relaxed)) && !self.at_the_end
    }

    /// Moves the reply in slot `x` to its entry, and marks the slot consumed. False when its epoch is over, and nothing was done.
    fn move_to_entry(&mut self, device: &Device, entry: u32, x: u64, hdr: RepHdr) -> bool {
        let line_index = x as u32 & (self.ring_entries.len() as u32 - 1);
        let uses = self.table.take_uses(entry);
        let reply = self.read(device, self.req.slots().ring(x as u32), 1 + line_index, hdr, &uses);
        if self.is_wiped(device) {
            self.table.restore_uses(entry, uses);
            return false;
        }
        if let Some(line) = self.ring_entries.get_mut(line_index as usize) {
            *line = CONSUMED;
        }
        let ticket = self.table.cold(entry).and_then(|cold| cold.ticket);
        if let Some(ticket) = ticket {
            if hdr == RepHdr::inline(Status::TAKEN, 0).with(RepHdr::TAKEN) {
                self.table.restore_uses(entry, uses);
                if let Some(kept) = self.table.get(entry) {
                    kept.set_state(EntryState::Ticket(ticket));
                }
                return true;
            }
            if hdr.has(RepHdr::TAKEN) {
                // Broken. Perhaps the device runs it, so that its word must not be expected again.
                self.free_ticket(ticket);
            } else {
                // Answered in its slot after all: refused, or the device's queue is full.
                self.free_unused_ticket(ticket);
            }
        }
        self.complete(device, entry, reply, uses);
        true
    }

    pub(super) fn free_ticket(&mut self, ticket: u32) {
        if let Some(t) = self.tickets.get_mut(ticket as usize) {
            t.taken = false;
        }
    }

    /// Of a call that the device did not take: nothing was or will be written into the ticket slot. The next use is counted as this one
    /// was, or the count could come round to the reply that lies there.
    pub(super) fn free_unused_ticket(&mut self, ticket: u32) {
        self.free_ticket(ticket);
        if let Some(t) = self.tickets.get_mut(ticket as usize) {
            t.uses = t.uses.wrapping_sub(1);
        }
    }

    /// Puts a reply into its entry, or throws it away when nobody wants it.
    fn complete(&mut self, device: &Device, entry: u32, reply: ReplyCopy, mut uses: Uses) {
        uses.release(&device.memory);
        if self.table.is_abandoned(entry) {
            let one_way = self.table.cold(entry).is_some_and(|cold| cold.one_way);
            if one_way && (reply.hdr.status() != Status::OK || reply.broken().is_some()) {
                self.one_way_failures += 1;
            }
            return self.table.put_back(entry);
        }
        if !reply.long.is_empty()
            && let Some(cold) = self.table.cold_or_new(entry)
        {
            cold.long = reply.long;
        }
        // A device that was asked to leave its epoch cancelled what it had not run: that is an end, and not a reply.
        let epoch = device.epoch.load(Ordering::Acquire);
        let state = match reply.hdr.status() {
            Status::CANCELLED if epoch == 0 => EntryState::EpochEnded(EpochEnd::Lost),
            Status::CANCELLED if !self.epoch.is(epoch) => EntryState::EpochEnded(EpochEnd::Reset),
            _ => EntryState::Completed,
        };
        if let Some(kept) = self.table.get(entry) {
            kept.set_state(state);
            kept.hdr = reply.hdr;
            kept.words = reply.words;
        }
    }

    pub(super) fn poll_ticket_slots(&mut self, device: &Device) {
        for t in 0..self.tickets.len() {
            if let Some(ticket) = self.tickets.get(t).copied()
                && ticket.taken
                && self.table.state(ticket.entry) == Some(EntryState::Ticket(t as u32))
            {
                self.try_complete(device, ticket.entry);
            }
        }
    }

    /// Brings the entry's answer in, when it is there. True when the entry has its outcome.
    pub(super) fn try_complete(&mut self, device: &Device, entry: u32) -> bool {
        let Some(state) = self.table.state(entry) else { return true };
        match state {
            EntryState::Ring(x) => match self.req.ring_reply(x) {
                Some(hdr) => {
                    if !self.move_to_entry(device, entry, x, hdr) {
                        // Gives every call its outcome.
                        self.follow_epoch(device);
                        return true;
                    }
                    self.release_consumed();
                    // A queued call goes on in its ticket slot.
                    hdr.has(RepHdr::TAKEN) && self.try_complete(device, entry) || !hdr.has(RepHdr::TAKEN)
                }
                None => false,
            },
            EntryState::Ticket(t) => {
                let expected = self.ticket_seq(t);
                let Some(line) = self.req.slots().ticket_slot(t) else { return true };
                if line.rep_seq() != expected {
                    return false;
                }
                let hdr = RepHdr(line.rep_hdr());
                let slot = 1 + self.ring_entries.len() as u32 + t;
                let uses = self.table.take_uses(entry);
                let Some(line) = self.req.slots().ticket_slot(t) else { return true };
                let reply = self.read(device, line, slot, hdr, &uses);
                if self.is_wiped(device) {
                    self.table.restore_uses(entry, uses);
                    self.follow_epoch(device);
                    return true;
                }
                self.free_ticket(t);
                self.complete(device, entry, reply, uses);
                true
            }
            EntryState::Completed | EntryState::EpochEnded(_) | EntryState::Free(_) => true,
        }
    }

    /// Gives back the slots at the front whose results were read in place.
    #[inline(always)]
    fn release_consumed(&mut self) {
        let mask = self.ring_entries.len() - 1;
        while let Some(x) = self.req.oldest()
            && self.ring_entries.get(x as usize & mask).is_some_and(|c| *c == CONSUMED)
        {
            self.req.release_oldest();
        }
    }

    /// Copies a reply out of its slot, whatever the device says it is.
    pub(super) fn read(
        &self,
        device: &Device,
        line: Slot<'_, Coherent>,
        slot: u32,
        hdr: RepHdr,
        uses: &Uses,
    ) -> ReplyCopy {
        let mut words = [0; INLINE_WORDS];
        if !hdr.is_empty() {
            line.read_reply(&mut words);
        }
        let at = Descriptor { off: words[0], len: words[1] };
        let mut long = Vec::new();
        let fits = |off: u64, limit: u64| hdr.len() == size_of::<Descriptor>() && at.off == off && at.len <= limit;
        let is_read = match hdr.place() {
            slot::Place::Chunk if fits(0, self.req.slots().rep_chunk_len() as u64) => {
                long.resize(at.len as usize, 0);
                self.req.slots().read_reply_chunk(slot, &mut long).is_some()
            }
            slot::Place::Buffer => match uses.reply_block() {
                Some(block) if fits(block.off, block.bytes) => {
                    long.resize(at.len as usize, 0);
                    let copied = device.link.window().read_bytes(device.memory.heap_off() + block.off, &mut long);
                    copied.is_ok() && !device.heap_is_released()
                }
                _ => false,
            },
            _ => false,
        };
        if !is_read {
            long.clear();
        }
        ReplyCopy { hdr, words, long }
    }

    // --- results ---

    /// The result of an entry's call, when it is there and short and in its ring slot: the common case, read in place.
    #[inline(always)]
    pub(super) fn take_in_place<H: Handler>(&mut self, device: &Device, entry: u32) -> Option<ValueOf<H>> {
        let len = match <ValueOf<H> as Migratable>::SIZE {
            Some(n) if n <= INLINE_BYTES => n,
            _ => return None,
        };
        let good = RepHdr::inline(Status::OK, len);
        let decode = |words: &[u64; INLINE_WORDS]| {
            let bytes: &[u8] = bytemuck::cast_slice(words);
            Migratable::decode(&mut Decoder::new(bytes.split_at(len).0)).ok()
        };
        let value = match self.table.state(entry)? {
            EntryState::Ring(x) => {
                if self.req.ring_reply(x)? != good {
                    return None;
                }
                let mut words = [0u64; INLINE_WORDS];
                self.req.slots().ring(x as u32).read_reply(words.split_at_mut(len.div_ceil(8)).0);
                if self.is_wiped(device) {
                    return None;
                }
                let value = decode(&words)?;
                if let Some(cold) = self.table.cold(entry) {
                    cold.uses.release(&device.memory);
                }
                let mask = self.ring_entries.len() - 1;
                if let Some(line) = self.ring_entries.get_mut(x as usize & mask) {
                    *line = CONSUMED;
                }
                self.release_consumed();
                value
            }
            // Moved to its entry when the ring was full.
            EntryState::Completed => {
                let kept = self.table.get(entry).filter(|kept| kept.hdr == good)?;
                decode(&kept.words)?
            }
            _ => return None,
        };
        self.table.put_back(entry);
        Some(value)
    }

    /// Does the entry have an outcome that is not read in place? Never waits.
    pub(super) fn has_outcome(&mut self, device: &Device, entry: u32) -> bool {
        match self.table.state(entry) {
            Some(EntryState::Ring(_)) => false,
            Some(EntryState::Ticket(_)) => self.try_complete(device, entry),
            _ => true,
        }
    }

    /// The outcome of an entry that has one; frees the entry.
    #[cold]
    pub(super) fn take<H: Handler>(
        &mut self,
        device: &Device,
        entry: u32,
    ) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let long = self.table.cold(entry).map(|cold| std::mem::take(&mut cold.long)).unwrap_or_default();
        let Some(kept) = self.table.get(entry) else {
            return Err(CallError::Corrupt(device.site::<H>("reading the reply"), "no cell".into()));
        };
        let outcome = match kept.state() {
            EntryState::EpochEnded(ended) => Err(ended_error(device, device.site::<H>("waiting for the reply"), ended)),
            _ => decode::<H>(device, &ReplyCopy { hdr: kept.hdr, words: kept.words, long }),
        };
        self.table.put_back(entry);
        outcome
    }

    /// Waits for an entry's outcome and takes it. On a deadline the call is abandoned.
    #[cold]
    pub(super) fn wait_for<H: Handler>(
        &mut self,
        device: &Device,
        entry: u32,
        until: Option<Instant>,
    ) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let mut wait = Wait::new(device, self.epoch, until);
        let mut spins = 0;
        while !self.try_complete(device, entry) {
            spins += 1;
            if spins <= SPINS {
                std::hint::spin_loop();
                continue;
            }
            match wait.step() {
                Ok(()) => {}
                // Whoever is woken late finds the reply beside the deadline.
                Err(Stop::Deadline) if self.try_complete(device, entry) => break,
                Err(Stop::Deadline) => {
                    self.abandon(device, entry);
                    return Err(CallError::Deadline(device.site::<H>("waiting for the reply")));
                }
                // A reply published just before the end still counts.
                Err(Stop::EpochEnded(_)) => self.follow_epoch(device),
            }
        }
        self.take::<H>(device, entry)
    }

    /// Nobody will read this entry: it is freed now, or when its reply comes (rule 16).
    pub(super) fn abandon(&mut self, device: &Device, entry: u32) {
        if matches!(self.table.state(entry), Some(EntryState::Completed | EntryState::EpochEnded(_))) {
            return self.table.put_back(entry);
        }
        if let Some(cold) = self.table.cold_or_new(entry) {
            cold.abandoned = true;
        }
        self.try_complete(device, entry);
    }

    /// Sets CANCEL in the call's own header (rule 17). Of an epoch that is over there is nothing to cancel: the slot may be another
    /// call's, or another host's.
    pub(super) fn cancel(&mut self, device: &Device, entry: u32) {
        if !self.epoch.is(device.epoch.load(Ordering::Acquire)) {
            return;
        }
        let ticket = self.table.cold(entry).and_then(|cold| cold.ticket);
        let slots = self.req.slots();
        // A queued call is looked up in its ticket slot, before and after its ring slot is answered TAKEN.
        let lines = match self.table.state(entry) {
            Some(EntryState::Ring(x)) => [Some(slots.ring(x as u32)), ticket.and_then(|t| slots.ticket_slot(t))],
            Some(EntryState::Ticket(t)) => [slots.ticket_slot(t), None],
            _ => [None, None],
        };
        for line in lines.into_iter().flatten() {
            line.set_req_hdr(line.req_hdr() | ReqHdr::CANCEL);
        }
    }

    /// Has every call that was submitted before the ring's position `before` run?
    pub(super) fn has_run(&mut self, device: &Device, before: u64) -> bool {
        self.poll_hot(device);
        self.empty_ring(device);
        self.poll_ticket_slots(device);
        // A started call counts as run when it is answered, read or not.
        let hot_runs = self.req.hot_is_busy() && self.req.hot_reply().is_none();
        let in_ring = self.req.oldest().is_some_and(|oldest| oldest < before);
        let queued = self.tickets.iter().any(|ticket| ticket.taken && ticket.at < before);
        !hot_runs && self.hot_abandoned.is_none() && !in_ring && !queued
    }

    /// When the device's epoch is over, gives every outstanding call its outcome, exactly once; when a new one began,
    /// starts over in it (rule 30).
    pub(super) fn follow_epoch(&mut self, device: &Device) {
        let epoch = device.epoch.load(Ordering::Acquire);
        if self.epoch == SubmitterEpoch::of(epoch) {
            return;
        }
        // What was answered before the end is still a reply.
        self.on_last_lines(device, |submitter| {
            submitter.empty_ring(device);
            submitter.poll_ticket_slots(device);
        });
        if self.req.hot_is_busy() && self.hot_abandoned.is_none() {
            let reply = self.last_hot_reply(device, &Uses::default());
            self.hot_kept.extend(reply.map(|reply| (self.req.hot_seq(), reply)));
            self.req.release_hot();
        }
        let ended = if epoch == 0 { EpochEnd::Lost } else { EpochEnd::Reset };
        let in_flight = |(_, state): &(u32, EntryState)| matches!(state, EntryState::Ring(_) | EntryState::Ticket(_));
        let outstanding: Vec<u32> = self.table.states().filter(in_flight).map(|(i, _)| i).collect();
        for entry in outstanding {
            self.table.take_uses(entry).release(&device.memory);
            if self.table.is_abandoned(entry) {
                self.table.put_back(entry);
            } else if let Some(kept) = self.table.get(entry) {
                kept.set_state(EntryState::EpochEnded(ended));
            }
        }
        // A started call that nobody has read yet lets go as well; it learns of its end when it is read.
        let uses = std::mem::replace(&mut self.hot_uses, InlineUses::NONE).into_uses(self.number);
        for mut uses in [Some(uses), self.hot_abandoned.take()].into_iter().flatten() {
            uses.release(&device.memory);
        }
        self.ring_entries.fill(CONSUMED);
        self.tickets.fill(Ticket::default());
        self.epoch = SubmitterEpoch::of(epoch);
        device.set_submitter_epoch(self.number, epoch);
        if epoch != 0 {
            self.req.enter(Epoch(epoch));
        }
    }

    /// Runs `what` on the slots as the submitter's epoch left them, whoever has wiped the window since.
    fn on_last_lines<R>(&mut self, device: &Device, what: impl FnOnce(&mut Self) -> R) -> R {
        device.with_snapshot(self.epoch.number(), |end| {
            let lines = end.and_then(|window| device.queue_in(window, self.number));
            self.at_the_end = true;
            let live = lines.map(|lines| self.req.replace_slots(lines));
            let outcome = what(self);
            live.map(|live| self.req.replace_slots(live));
            self.at_the_end = false;
            outcome
        })
    }

    /// The reply of the call in the hot slot, when it came before the submitter's epoch was over.
    pub(super) fn last_hot_reply(&mut self, device: &Device, uses: &Uses) -> Option<ReplyCopy> {
        self.on_last_lines(device, |submitter| {
            let hdr = submitter.req.hot_reply()?;
            Some(submitter.read(device, submitter.req.slots().hot(), 0, hdr, uses))
        })
    }
}

pub(super) fn ended_error<E>(device: &Device, site: Box<crate::Site>, ended: EpochEnd) -> CallError<E> {
    match ended {
        EpochEnd::Lost => CallError::DeviceLost(site, device.loss_reason().into()),
        EpochEnd::Reset => CallError::PeerReset(site),
    }
}
