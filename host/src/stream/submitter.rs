//! The submitter of one stream: which slot a call takes, where its reply is, when things are let go.
//!
//! Nothing here locks or allocates on the path of a short call. A core outlives its [`super::Stream`]: it stays with the
//! queue pair, because the pair's counts go on, and the next stream on it takes both over.

use super::CallOptions;
use super::message::{
    InlineUses, Message, ReplyCopy, decode, is_plain, is_queued, is_short, plain_len, plain_words, prepare,
};
use super::results::ended_error;
use super::submit::{self, Exclusive};
use super::table::{EntryState, EpochEnd, PendingTable, Uses};
use super::wait::{SPINS, Stop, Wait, in_time};
use crate::device::{Device, Fence};
use crate::{CallError, SubmitError};
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::slot::{self, INLINE_BYTES, INLINE_WORDS, RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{Queue, Shared};
use hamr_comm::am::Requester;
use hamr_comm::migrate::{Decoder, Migratable};
use hamr_comm::{Call, ErrorOf, Handler, ValueOf};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A ring slot whose call is done with.
pub(super) const CONSUMED: u32 = u32::MAX;
/// A ring slot whose call has no entry: one-way.
pub(super) const ONE_WAY: u32 = u32::MAX - 1;

/// The epoch that a submitter is in, or none while its device is gone. Wider than the epochs of the wire, so that "none" compares unequal
/// to each of them and to [`Device::epoch`] of a device that is gone: a call put into such a device's ring would never end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EngineEpoch(u64);

impl EngineEpoch {
    const NONE: Self = Self(1 << 32);

    /// Of a device whose [`Device::epoch`] is this.
    pub(super) fn of(epoch: u32) -> Self {
        if epoch == 0 { Self::NONE } else { Self(epoch.into()) }
    }

    /// Is it what the device serves, whose [`Device::epoch`] is this?
    #[inline(always)]
    pub(super) fn is(self, epoch: u32) -> bool {
        self.0 == u64::from(epoch)
    }

    pub(super) fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// 0 for none.
    pub(super) fn number(self) -> u32 {
        if self.is_none() { 0 } else { self.0 as u32 }
    }

    /// See [`Device::is_ending`].
    pub(super) fn is_ending(self, device: &Device) -> bool {
        !self.is_none() && device.is_ending(self.number())
    }
}

pub struct Submitter {
    /// Number of its queue pair.
    pub(super) number: u32,
    pub(super) req: Requester<Queue<Shared>>,
    pub(super) epoch: EngineEpoch,
    /// Cell of each ring slot, or CONSUMED or ONE_WAY.
    pub(super) ring_entries: Box<[u32]>,
    pub(super) table: PendingTable,
    pub(super) tickets: Box<[Ticket]>,
    /// The hot slot holds a call whose caller stopped waiting; its holds.
    pub(super) hot_abandoned: Option<Uses>,
    /// The answers of started calls whose lives are over, each with the word of its request.
    pub(super) hot_kept: Vec<(u32, ReplyCopy)>,
    /// The buffers of the call in the hot slot whose caller waits.
    pub(super) hot_uses: InlineUses,
    /// What is looked at is what an epoch left behind, which nobody wipes before the look is over.
    pub(super) at_the_end: bool,
    /// One-way calls that ended otherwise than executed.
    pub(super) one_way_failures: u64,
    pub(super) scratch: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Ticket {
    pub(super) uses: u32,
    /// The ring's position at which that call was submitted.
    pub(super) at: u64,
    /// The entry of the call that has it.
    pub(super) entry: u32,
    pub(super) taken: bool,
}

/// What a call that is not sent yet has of its stream, beside the next ring slot.
#[derive(Clone, Copy)]
struct Reserved {
    ticket: Option<u32>,
}

impl Submitter {
    pub(crate) fn new(number: u32, queue: Queue<Shared>, device: &Device) -> Self {
        let epoch = device.epoch.load(Ordering::Acquire);
        device.set_submitter_epoch(number, epoch);
        let ring_entries = vec![CONSUMED; queue.ring_len() as usize].into_boxed_slice();
        let tickets = vec![Ticket::default(); queue.ticket_slots() as usize].into_boxed_slice();
        Self {
            number,
            // In no epoch nothing is submitted before it enters one.
            req: Requester::new(queue, if epoch == 0 { Epoch::FIRST } else { Epoch(epoch) }),
            epoch: EngineEpoch::of(epoch),
            ring_entries,
            table: PendingTable::new(device.options.max_outstanding),
            tickets,
            hot_abandoned: None,
            hot_kept: Vec::new(),
            hot_uses: InlineUses::NONE,
            at_the_end: false,
            one_way_failures: 0,
            scratch: Vec::with_capacity(hamr_comm::migrate::MAX_MESSAGE),
        }
    }

    /// The epoch it submits in.
    pub(super) fn epoch(&self) -> EngineEpoch {
        self.epoch
    }

    /// Is anything in flight that the device must still look at?
    pub(crate) fn has_work(&self) -> bool {
        self.table.in_use() != 0 || self.req.hot_is_busy() || self.req.oldest().is_some()
    }

    /// One-way calls that ended in a fault or were refused.
    pub(crate) fn one_way_failures(&self) -> u64 {
        self.one_way_failures
    }

    /// Calls in flight or unread.
    pub(crate) fn outstanding(&self) -> usize {
        self.table.in_use()
    }

    // --- calls that wait ---

    /// Calls and waits.
    #[inline(always)]
    pub(crate) fn sync<H: Handler>(
        &mut self,
        device: &Device,
        call: Call<H>,
    ) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        if self.start(device, &call) {
            self.finish::<H>(device)
        } else {
            self.sync_slow(device, call, &CallOptions::default())
        }
    }

    /// Publishes a short call in the hot slot, when that is open to it; what it holds until [`Self::finish`].
    #[inline(always)]
    pub(super) fn start<H: Handler>(&mut self, device: &Device, call: &Call<H>) -> bool {
        if const { is_short::<H>() }
            && self.epoch.is(device.epoch.load(Ordering::Acquire))
            && self.req.hot_is_open()
            && let Some(key) = device.keys.key::<H>()
            && self.use_hot(device, call)
        {
            let len = const { plain_len::<H>() };
            let words = plain_words(call);
            self.req.submit_hot(ReqHdr::inline(key, len), words.split_at(len.div_ceil(8)).0);
            return true;
        }
        false
    }

    /// Holds the buffers that a call for the hot slot names; false when one is not usable.
    #[inline(always)]
    fn use_hot<H: Handler>(&mut self, device: &Device, call: &Call<H>) -> bool {
        if !H::Args::HAS_BUFFERS {
            return true;
        }
        match InlineUses::of::<H>(device, self.number, call) {
            Some(uses) => self.hot_uses = uses,
            None => return false,
        }
        true
    }

    #[inline(always)]
    fn release_hot_uses<H: Handler>(&mut self, device: &Device) {
        if H::Args::HAS_BUFFERS {
            std::mem::replace(&mut self.hot_uses, InlineUses::NONE).release::<H>(device, self.number);
        }
    }

    /// Waits for the call in the hot slot.
    #[inline(always)]
    pub(super) fn finish<H: Handler>(&mut self, device: &Device) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        for look in 0..SPINS {
            if let Some(hdr) = self.req.hot_reply() {
                let outcome = self.take_hot::<H>(device, hdr);
                self.release_hot_uses::<H>(device);
                return outcome;
            }
            // Rule 21: the first step of waiting rings. Not before the first look, because a call whose reply is there should
            // not pay for it.
            if look == 0 && device.wait_queue.device_is_waiting() {
                break;
            }
            // Not a tight loop: its looks run ahead of each other and fetch the slot back before the device has written its reply,
            // which doubles a round trip between neighbouring cores of some processors (docs/performance.md).
            std::hint::spin_loop();
        }
        let uses = std::mem::replace(&mut self.hot_uses, InlineUses::NONE).into_uses(self.number);
        self.sync_wait::<H>(device, None, uses)
    }

    /// Waits for a call that was started earlier, and whose device may have begun another epoch since.
    #[inline(always)]
    pub(super) fn finish_started<H: Handler>(
        &mut self,
        device: &Device,
        seq: u32,
    ) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        if self.req.hot_seq() != seq || !self.req.hot_is_busy() {
            return self.kept_hot_reply::<H>(device, seq);
        }
        self.finish::<H>(device)
    }

    #[cold]
    fn kept_hot_reply<H: Handler>(&mut self, device: &Device, seq: u32) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        if let Some(kept) = self.hot_kept.iter().position(|(of, _)| *of == seq) {
            let (_, reply) = self.hot_kept.swap_remove(kept);
            return decode::<H>(device, &reply);
        }
        Err(ended_error(device, device.site::<H>("waiting for the reply"), epoch_outcome(device)))
    }

    /// The stream is dropped: a call in the hot slot that is not abandoned by now was forgotten by its owner.
    pub(super) fn detach_hot(&mut self) {
        if self.req.hot_is_busy() {
            let uses = std::mem::replace(&mut self.hot_uses, InlineUses::NONE);
            self.hot_abandoned.get_or_insert_with(|| uses.into_uses(self.number));
        }
    }

    /// Nobody will read the reply of the call in the hot slot.
    pub(super) fn abandon_hot(&mut self, device: &Device, seq: u32) {
        if self.req.hot_seq() != seq || !self.req.hot_is_busy() {
            // Its device began another epoch, and the slot is free or another call's.
            self.hot_kept.retain(|(of, _)| *of != seq);
            return;
        }
        let uses = std::mem::replace(&mut self.hot_uses, InlineUses::NONE);
        self.hot_abandoned = Some(uses.into_uses(self.number));
        self.poll_hot(device);
    }

    /// Reads the hot slot's answer and frees the slot.
    #[inline(always)]
    fn take_hot<H: Handler>(&mut self, device: &Device, hdr: RepHdr) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        if let Some(len) = <ValueOf<H> as Migratable>::SIZE
            && len <= INLINE_BYTES
            && hdr == RepHdr::inline(Status::OK, len)
        {
            let mut words = [0u64; INLINE_WORDS];
            self.req.slots().hot().read_reply(words.split_at_mut(len.div_ceil(8)).0);
            if self.is_wiped(device) {
                return self.take_hot_from_snapshot::<H>(device);
            }
            self.req.release_hot();
            let bytes: &[u8] = bytemuck::cast_slice(&words);
            if let Ok(value) = Migratable::decode(&mut Decoder::new(bytes.split_at(len).0)) {
                return Ok(value);
            }
            return Err(CallError::Corrupt(
                device.site::<H>("reading the reply"),
                "a result that does not decode".into(),
            ));
        }
        self.take_hot_long::<H>(device, hdr)
    }

    #[cold]
    fn take_hot_long<H: Handler>(&mut self, device: &Device, hdr: RepHdr) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let reply = self.read(device, self.req.slots().hot(), 0, hdr, &Uses::default());
        if self.is_wiped(device) {
            return self.take_hot_from_snapshot::<H>(device);
        }
        self.req.release_hot();
        decode::<H>(device, &reply)
    }

    /// The reply was there, and its epoch ended while it was read.
    #[cold]
    #[inline(never)]
    fn take_hot_from_snapshot<H: Handler>(&mut self, device: &Device) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let seq = self.req.hot_seq();
        self.follow_epoch(device);
        self.kept_hot_reply::<H>(device, seq)
    }

    /// Waits for the hot slot beyond the first spin.
    #[cold]
    fn sync_wait<H: Handler>(
        &mut self,
        device: &Device,
        until: Option<Instant>,
        mut uses: Uses,
    ) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let mut wait = Wait::new(device, self.epoch, until);
        let stop = loop {
            if let Some(hdr) = self.req.hot_reply() {
                let reply = self.read(device, self.req.slots().hot(), 0, hdr, &uses);
                if self.is_wiped(device) {
                    break Stop::EpochEnded(epoch_outcome(device));
                }
                self.req.release_hot();
                uses.release(&device.memory);
                return decode::<H>(device, &reply);
            }
            if let Err(stop) = wait.step() {
                // A reply published just before the end still counts.
                if self.req.hot_reply().is_none() {
                    break stop;
                }
            }
        };
        let site = device.site::<H>("waiting for the reply");
        match stop {
            Stop::Deadline => {
                self.hot_abandoned = Some(uses);
                Err(CallError::Deadline(site))
            }
            Stop::EpochEnded(ended) => {
                // Another stream may have begun the next epoch before this one looked again.
                let reply = self.last_hot_reply(device, &uses);
                uses.release(&device.memory);
                self.req.release_hot();
                self.follow_epoch(device);
                reply.map_or_else(|| Err(ended_error(device, site, ended)), |reply| decode::<H>(device, &reply))
            }
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn sync_slow<H: Handler>(
        &mut self,
        device: &Device,
        call: Call<H>,
        options: &CallOptions,
    ) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let until = options.deadline.map(in_time);
        submit::enter::<H>(&Exclusive::new(self, device))?;
        if is_queued::<H>() || !self.req.hot_is_open() {
            let entry = submit::offload_slow(&Exclusive::new(self, device), &call, options, until)?;
            return self.wait_for::<H>(device, entry, until);
        }
        let limits = self.limits();
        let message = prepare(&mut self.scratch, limits, device, &call, options)?;
        self.fill_chunk(0, message.chunk);
        self.req.submit_hot(message.hdr, message.used());
        self.sync_wait::<H>(device, until, message.uses)
    }

    /// A call that nobody waited for may have been answered meanwhile.
    pub(super) fn poll_hot(&mut self, device: &Device) {
        if let Some(uses) = &mut self.hot_abandoned
            && self.req.hot_reply().is_some()
        {
            uses.release(&device.memory);
            self.hot_abandoned = None;
            self.req.release_hot();
        }
    }

    // --- calls that do not wait ---

    /// Puts a plain call into the ring, when that has room; its result comes to the entry returned.
    #[inline(always)]
    pub(super) fn offload<H: Handler>(&mut self, device: &Device, call: &Call<H>) -> Option<u32> {
        if const { is_plain::<H>() }
            && self.epoch.is(device.epoch.load(Ordering::Acquire))
            && self.req.ring_has_room()
            && let Some(key) = device.keys.key::<H>()
            && let Some(entry) = self.table.take(EntryState::Ring(self.req.next_position()))
        {
            let len = const { plain_len::<H>() };
            let words = plain_words(call);
            self.push(device, entry, ReqHdr::inline(key, len), words.split_at(len.div_ceil(8)).0);
            return Some(entry);
        }
        None
    }

    /// Sends a plain call that returns nothing, not even a word that it ran, when there is room. True when it is sent.
    #[inline(always)]
    pub(super) fn send<H: Handler>(&mut self, device: &Device, call: &Call<H>) -> bool {
        if const { is_plain::<H>() }
            && self.epoch.is(device.epoch.load(Ordering::Acquire))
            && (self.req.ring_has_room() || self.make_room(device))
            && let Some(key) = device.keys.key::<H>()
        {
            let len = const { plain_len::<H>() };
            let words = plain_words(call);
            let hdr = ReqHdr::inline(key, len).with(ReqHdr::ONE_WAY);
            self.push(device, ONE_WAY, hdr, words.split_at(len.div_ceil(8)).0);
            return true;
        }
        false
    }

    /// Puts any call into the ring. `None`: there is no free slot or ticket now.
    pub(super) fn try_offload<H: Handler>(
        &mut self,
        device: &Device,
        call: &Call<H>,
        options: &CallOptions,
    ) -> Result<Option<u32>, SubmitError> {
        let Some(reserved) = self.reserve::<H>(device)? else { return Ok(None) };
        let message = self.prepare(device, call, options, reserved)?;
        self.publish::<H>(device, message, reserved).map(Some)
    }

    /// Sends any call. `None`: there is no free slot or ticket now.
    pub(super) fn try_send<H: Handler>(&mut self, device: &Device, call: &Call<H>) -> Result<Option<()>, SubmitError> {
        let Some(reserved) = self.reserve::<H>(device)? else { return Ok(None) };
        let mut message = self.prepare(device, call, &CallOptions::default(), reserved)?;
        if is_queued::<H>() || H::Args::HAS_BUFFERS || message.uses.blocks[0].is_some() {
            // Something must be let go when it is answered: it needs an entry, which nobody reads.
            let entry = self.publish::<H>(device, message, reserved)?;
            if let Some(cold) = self.table.cold_or_new(entry) {
                cold.one_way = true;
            }
            self.abandon(device, entry);
            return Ok(Some(()));
        }
        message.hdr = message.hdr.with(ReqHdr::ONE_WAY);
        self.fill_chunk(1 + self.next_line(), message.chunk);
        self.push(device, ONE_WAY, message.hdr, message.used());
        Ok(Some(()))
    }

    /// Publishes in the next ring slot, which is free.
    #[inline(always)]
    fn push(&mut self, device: &Device, entry: u32, hdr: ReqHdr, words: &[u64]) {
        let x = self.req.submit_ring(hdr, words);
        let mask = self.ring_entries.len() - 1;
        if let Some(line) = self.ring_entries.get_mut(x as usize & mask) {
            *line = entry;
        }
        device.notify(Fence::of_message(x));
    }

    /// Index in the ring of the next message.
    fn next_line(&self) -> u32 {
        self.req.next_position() as u32 & (self.ring_entries.len() as u32 - 1)
    }

    fn fill_chunk(&self, slot: u32, len: usize) {
        if len != 0 {
            // Its length was checked against the chunk when the message was prepared.
            let _ = self.scratch.get(..len).and_then(|bytes| self.req.slots().write_request_chunk(slot, bytes));
        }
    }

    /// The next ring slot is free, and a ticket where the call needs one. `None`: not now.
    fn reserve<H: Handler>(&mut self, device: &Device) -> Result<Option<Reserved>, SubmitError> {
        if is_queued::<H>() && self.tickets.is_empty() {
            return Err(SubmitError::NoTickets { site: device.site::<H>("submitting") });
        }
        if !self.req.ring_has_room() && !self.make_room(device) {
            return Ok(None);
        }
        if !is_queued::<H>() {
            return Ok(Some(Reserved { ticket: None }));
        }
        Ok(self.take_ticket(device).map(|ticket| Reserved { ticket: Some(ticket) }))
    }

    fn take_ticket(&mut self, device: &Device) -> Option<u32> {
        let free = |tickets: &[Ticket]| tickets.iter().position(|ticket| !ticket.taken);
        let t = free(&self.tickets).or_else(|| {
            let epoch = self.epoch;
            // Ring slots of calls that were taken first: their replies come in ticket slots.
            self.make_room(device);
            self.poll_ticket_slots(device);
            // Where the epoch ended under that look, the tickets are another's, and perhaps no device's.
            free(&self.tickets).filter(|_| self.epoch == epoch)
        })?;
        let ticket = self.tickets.get_mut(t)?;
        ticket.taken = true;
        ticket.uses = ticket.uses.wrapping_add(1);
        ticket.at = self.req.next_position();
        Some(t as u32)
    }

    /// Nothing is sent.
    fn give_back(&mut self, reserved: Reserved) {
        reserved.ticket.into_iter().for_each(|ticket| self.free_unused_ticket(ticket));
    }

    fn prepare<H: Handler>(
        &mut self,
        device: &Device,
        call: &Call<H>,
        options: &CallOptions,
        reserved: Reserved,
    ) -> Result<Message, SubmitError> {
        let limits = self.limits();
        let message = prepare(&mut self.scratch, limits, device, call, options);
        message.inspect_err(|_| self.give_back(reserved))
    }

    /// Publishes in the slot that was reserved.
    fn publish<H: Handler>(
        &mut self,
        device: &Device,
        mut message: Message,
        reserved: Reserved,
    ) -> Result<u32, SubmitError> {
        let Reserved { ticket } = reserved;
        let Some(entry) = self.table.take(EntryState::Ring(self.req.next_position())) else {
            self.give_back(reserved);
            message.uses.release(&device.memory);
            let limit = device.options.max_outstanding;
            return Err(SubmitError::Full { site: device.site::<H>("submitting"), limit });
        };
        let ring_slot = 1 + self.next_line();
        match ticket {
            None => self.fill_chunk(ring_slot, message.chunk),
            Some(t) => {
                self.fill_chunk(1 + self.ring_entries.len() as u32 + t, message.chunk);
                let seq = self.ticket_seq(t);
                // EXT: deadslot and ticket_seq, ticket, chain, trace.
                message.words[0] |= u64::from(seq) << 32;
                message.words[1] = u64::from(t);
                if let Some(ticket_slot) = self.req.slots().ticket_slot(t) {
                    ticket_slot.set_req_hdr(message.hdr.0);
                }
            }
        }
        self.push(device, entry, message.hdr, message.used());
        if (ticket.is_some() || !message.uses.is_empty())
            && let Some(cold) = self.table.cold_or_new(entry)
        {
            cold.uses = std::mem::take(&mut message.uses);
            cold.ticket = ticket;
        }
        if let Some(taken) = ticket.and_then(|t| self.tickets.get_mut(t as usize)) {
            taken.entry = entry;
        }
        Ok(entry)
    }

    pub(super) fn ticket_seq(&self, ticket: u32) -> u32 {
        let uses = self.tickets.get(ticket as usize).map_or(0, |t| t.uses);
        slot::seq(self.req.tag(), uses, slot::COUNT_BITS)
    }

    #[cold]
    pub(super) fn cannot_submit<H: Handler>(&mut self, device: &Device, stop: Stop) -> SubmitError {
        let site = device.site::<H>("submitting");
        match stop {
            Stop::Deadline => SubmitError::Deadline { site },
            Stop::EpochEnded(EpochEnd::Lost) => SubmitError::DeviceLost { site, why: device.loss_reason() },
            Stop::EpochEnded(EpochEnd::Reset) => {
                self.follow_epoch(device);
                SubmitError::DeviceLost { site, why: "the device was restarted meanwhile; submit again".into() }
            }
        }
    }
}

/// Of an epoch that is over: has another one begun?
pub(super) fn epoch_outcome(device: &Device) -> EpochEnd {
    if device.epoch.load(Ordering::Acquire) == 0 { EpochEnd::Lost } else { EpochEnd::Reset }
}
