//! The engine of one stream: which slot a call takes, where its answer is, when things are let go.
//!
//! Nothing here locks or allocates on the path of a short call. A core outlives its [`super::Stream`]: it stays with the
//! queue pair, because the pair's counts go on, and the next stream on it takes both over.

use super::CallOptions;
use super::cells::{Cells, Ended, Holds, Place};
use super::message::{Answer, Held, Message, decode, is_plain, is_queued, is_short, plain_len, plain_words, prepare};
use super::results::ended_error;
use super::submit::{self, Exclusive};
use super::wait::{SPINS, Stop, Wait, in_time};
use crate::node::Inner;
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

/// A ring line whose call is done with.
pub(super) const CONSUMED: u32 = u32::MAX;
/// A ring line whose call has no cell: one-way.
pub(super) const ONE_WAY: u32 = u32::MAX - 1;

/// The epoch that an engine is in, or none while its device is gone. Wider than the epochs of the wire, so that "none" compares unequal
/// to each of them and to [`Inner::life`] of a device that is gone: a call put into such a device's ring would never end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EngineEpoch(u64);

impl EngineEpoch {
    const NONE: Self = Self(1 << 32);

    /// Of a device whose [`Inner::life`] is this.
    pub(super) fn of(life: u32) -> Self {
        if life == 0 { Self::NONE } else { Self(life.into()) }
    }

    /// Is it what the device serves, whose [`Inner::life`] is this?
    #[inline(always)]
    pub(super) fn is(self, life: u32) -> bool {
        self.0 == u64::from(life)
    }

    pub(super) fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// 0 for none.
    pub(super) fn number(self) -> u32 {
        if self.is_none() { 0 } else { self.0 as u32 }
    }

    /// See [`Inner::is_ending`].
    pub(super) fn is_ending(self, inner: &Inner) -> bool {
        !self.is_none() && inner.is_ending(self.number())
    }
}

pub struct Core {
    /// Number of its queue pair.
    pub(super) number: u32,
    pub(super) req: Requester<Queue<Shared>>,
    pub(super) epoch: EngineEpoch,
    /// Cell of each ring line, or CONSUMED or ONE_WAY.
    pub(super) lines: Box<[u32]>,
    pub(super) cells: Cells,
    pub(super) tickets: Box<[Ticket]>,
    /// The hot line holds a call whose caller stopped waiting; its holds.
    pub(super) hot_abandoned: Option<Holds>,
    /// The answers of started calls whose lives are over, each with the word of its request.
    pub(super) hot_kept: Vec<(u32, Answer)>,
    /// The buffers of the call in the hot line whose caller waits.
    pub(super) hot_held: Held,
    /// What is looked at is what a life left behind, which nobody wipes before the look is over.
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
    /// The cell of the call that has it.
    pub(super) cell: u32,
    pub(super) taken: bool,
}

/// What a call that is not sent yet has of its stream, beside the next ring line.
#[derive(Clone, Copy)]
struct Reserved {
    ticket: Option<u32>,
}

impl Core {
    pub(crate) fn new(number: u32, queue: Queue<Shared>, inner: &Inner) -> Self {
        let life = inner.life.load(Ordering::Acquire);
        inner.engine_is_in(number, life);
        let lines = vec![CONSUMED; queue.ring_len() as usize].into_boxed_slice();
        let tickets = vec![Ticket::default(); queue.side_len() as usize].into_boxed_slice();
        Self {
            number,
            // In no epoch nothing is submitted before it enters one.
            req: Requester::new(queue, if life == 0 { Epoch::FIRST } else { Epoch(life) }),
            epoch: EngineEpoch::of(life),
            lines,
            cells: Cells::new(inner.options.max_outstanding),
            tickets,
            hot_abandoned: None,
            hot_kept: Vec::new(),
            hot_held: Held::NONE,
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
        self.cells.in_use() != 0 || self.req.hot_is_busy() || self.req.oldest().is_some()
    }

    /// One-way calls that ended in a fault or were refused.
    pub(crate) fn one_way_failures(&self) -> u64 {
        self.one_way_failures
    }

    /// Calls in flight or unread.
    pub(crate) fn outstanding(&self) -> usize {
        self.cells.in_use()
    }

    // --- calls that wait ---

    /// Calls and waits.
    #[inline(always)]
    pub(crate) fn sync<H: Handler>(
        &mut self,
        inner: &Inner,
        call: Call<H>,
    ) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        if self.start(inner, &call) {
            self.finish::<H>(inner)
        } else {
            self.sync_slow(inner, call, &CallOptions::default())
        }
    }

    /// Publishes a short call in the hot line, when that is open to it; what it holds until [`Self::finish`].
    #[inline(always)]
    pub(super) fn start<H: Handler>(&mut self, inner: &Inner, call: &Call<H>) -> bool {
        if const { is_short::<H>() }
            && self.epoch.is(inner.life.load(Ordering::Acquire))
            && self.req.hot_is_open()
            && let Some(key) = inner.keys.key::<H>()
            && self.hold_hot(inner, call)
        {
            let len = const { plain_len::<H>() };
            let words = plain_words(call);
            self.req.submit_hot(ReqHdr::inline(key, len), words.split_at(len.div_ceil(8)).0);
            return true;
        }
        false
    }

    /// Holds the buffers that a call for the hot line names; false when one is not usable.
    #[inline(always)]
    fn hold_hot<H: Handler>(&mut self, inner: &Inner, call: &Call<H>) -> bool {
        if !H::Args::HAS_BUFFERS {
            return true;
        }
        match Held::of::<H>(inner, self.number, call) {
            Some(held) => self.hot_held = held,
            None => return false,
        }
        true
    }

    #[inline(always)]
    fn release_hot_held<H: Handler>(&mut self, inner: &Inner) {
        if H::Args::HAS_BUFFERS {
            std::mem::replace(&mut self.hot_held, Held::NONE).release::<H>(inner, self.number);
        }
    }

    /// Waits for the call in the hot line.
    #[inline(always)]
    pub(super) fn finish<H: Handler>(&mut self, inner: &Inner) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        for look in 0..SPINS {
            if let Some(hdr) = self.req.hot_answer() {
                let outcome = self.take_hot::<H>(inner, hdr);
                self.release_hot_held::<H>(inner);
                return outcome;
            }
            // Rule 21: the first step of waiting rings. Not before the first look, because a call whose answer is there should
            // not pay for it.
            if look == 0 && inner.sleepers.device_is_down() {
                break;
            }
        }
        let holds = std::mem::replace(&mut self.hot_held, Held::NONE).into_holds(self.number);
        self.sync_wait::<H>(inner, None, holds)
    }

    /// Waits for a call that was started earlier, and whose device may have begun another life since.
    #[inline(always)]
    pub(super) fn finish_started<H: Handler>(
        &mut self,
        inner: &Inner,
        seq: u32,
    ) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        if self.req.hot_seq() != seq || !self.req.hot_is_busy() {
            return self.ended_meanwhile::<H>(inner, seq);
        }
        self.finish::<H>(inner)
    }

    #[cold]
    fn ended_meanwhile<H: Handler>(&mut self, inner: &Inner, seq: u32) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        if let Some(kept) = self.hot_kept.iter().position(|(of, _)| *of == seq) {
            let (_, answer) = self.hot_kept.swap_remove(kept);
            return decode::<H>(inner, &answer);
        }
        Err(ended_error(inner, inner.site::<H>("waiting for the answer"), how_it_ended(inner)))
    }

    /// The stream is dropped: a call in the hot line that is not abandoned by now was forgotten by its owner.
    pub(super) fn let_go_of_hot(&mut self) {
        if self.req.hot_is_busy() {
            let held = std::mem::replace(&mut self.hot_held, Held::NONE);
            self.hot_abandoned.get_or_insert_with(|| held.into_holds(self.number));
        }
    }

    /// Nobody will read the answer of the call in the hot line.
    pub(super) fn abandon_hot(&mut self, inner: &Inner, seq: u32) {
        if self.req.hot_seq() != seq || !self.req.hot_is_busy() {
            // Its device began another life, and the line is free or another call's.
            self.hot_kept.retain(|(of, _)| *of != seq);
            return;
        }
        let held = std::mem::replace(&mut self.hot_held, Held::NONE);
        self.hot_abandoned = Some(held.into_holds(self.number));
        self.reap_hot(inner);
    }

    /// Reads the hot line's answer and frees the line.
    #[inline(always)]
    fn take_hot<H: Handler>(&mut self, inner: &Inner, hdr: RepHdr) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        if let Some(len) = <ValueOf<H> as Migratable>::SIZE
            && len <= INLINE_BYTES
            && hdr == RepHdr::inline(Status::OK, len)
        {
            let mut words = [0u64; INLINE_WORDS];
            self.req.slots().hot().read_reply(words.split_at_mut(len.div_ceil(8)).0);
            if self.is_wiped(inner) {
                return self.take_hot_of_the_past::<H>(inner);
            }
            self.req.release_hot();
            let bytes: &[u8] = bytemuck::cast_slice(&words);
            if let Ok(value) = Migratable::decode(&mut Decoder::new(bytes.split_at(len).0)) {
                return Ok(value);
            }
            return Err(CallError::Corrupt(
                inner.site::<H>("reading the answer"),
                "a result that does not decode".into(),
            ));
        }
        self.take_hot_long::<H>(inner, hdr)
    }

    #[cold]
    fn take_hot_long<H: Handler>(&mut self, inner: &Inner, hdr: RepHdr) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let answer = self.read(inner, self.req.slots().hot(), 0, hdr, &Holds::default());
        if self.is_wiped(inner) {
            return self.take_hot_of_the_past::<H>(inner);
        }
        self.req.release_hot();
        decode::<H>(inner, &answer)
    }

    /// The answer was there, and its life ended while it was read.
    #[cold]
    #[inline(never)]
    fn take_hot_of_the_past<H: Handler>(&mut self, inner: &Inner) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let seq = self.req.hot_seq();
        self.follow_life(inner);
        self.ended_meanwhile::<H>(inner, seq)
    }

    /// Waits for the hot line beyond the first spin.
    #[cold]
    fn sync_wait<H: Handler>(
        &mut self,
        inner: &Inner,
        until: Option<Instant>,
        mut holds: Holds,
    ) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let mut wait = Wait::new(inner, self.epoch, until);
        let stop = loop {
            if let Some(hdr) = self.req.hot_answer() {
                let answer = self.read(inner, self.req.slots().hot(), 0, hdr, &holds);
                if self.is_wiped(inner) {
                    break Stop::Ended(how_it_ended(inner));
                }
                self.req.release_hot();
                holds.release(&inner.memory);
                return decode::<H>(inner, &answer);
            }
            if let Err(stop) = wait.step() {
                // An answer published just before the end still counts.
                if self.req.hot_answer().is_none() {
                    break stop;
                }
            }
        };
        let site = inner.site::<H>("waiting for the answer");
        match stop {
            Stop::Deadline => {
                self.hot_abandoned = Some(holds);
                Err(CallError::Deadline(site))
            }
            Stop::Ended(ended) => {
                // Another stream may have begun the next life before this one looked again.
                let answer = self.last_hot_answer(inner, &holds);
                holds.release(&inner.memory);
                self.req.release_hot();
                self.follow_life(inner);
                answer.map_or_else(|| Err(ended_error(inner, site, ended)), |answer| decode::<H>(inner, &answer))
            }
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn sync_slow<H: Handler>(
        &mut self,
        inner: &Inner,
        call: Call<H>,
        options: &CallOptions,
    ) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let until = options.deadline.map(in_time);
        submit::enter::<H>(&Exclusive::new(self, inner))?;
        self.reap_hot(inner);
        if is_queued::<H>() || !self.req.hot_is_open() {
            let cell = submit::offload_slow(&Exclusive::new(self, inner), &call, options, until)?;
            return self.collect::<H>(inner, cell, until);
        }
        let limits = self.limits();
        let message = prepare(&mut self.scratch, limits, inner, &call, options)?;
        self.fill_chunk(0, message.chunk);
        self.req.submit_hot(message.hdr, message.used());
        self.sync_wait::<H>(inner, until, message.holds)
    }

    /// A call that nobody waited for may have been answered meanwhile.
    pub(super) fn reap_hot(&mut self, inner: &Inner) {
        if let Some(holds) = &mut self.hot_abandoned
            && self.req.hot_answer().is_some()
        {
            holds.release(&inner.memory);
            self.hot_abandoned = None;
            self.req.release_hot();
        }
    }

    // --- calls that do not wait ---

    /// Puts a plain call into the ring, when that has room; its result comes to the cell returned.
    #[inline(always)]
    pub(super) fn offload<H: Handler>(&mut self, inner: &Inner, call: &Call<H>) -> Option<u32> {
        if const { is_plain::<H>() }
            && self.epoch.is(inner.life.load(Ordering::Acquire))
            && self.req.ring_has_room()
            && let Some(key) = inner.keys.key::<H>()
            && let Some(cell) = self.cells.take(Place::Ring(self.req.next_position()))
        {
            let len = const { plain_len::<H>() };
            let words = plain_words(call);
            self.push(inner, cell, ReqHdr::inline(key, len), words.split_at(len.div_ceil(8)).0);
            return Some(cell);
        }
        None
    }

    /// Sends a plain call that returns nothing, not even a word that it ran, when there is room. True when it is sent.
    #[inline(always)]
    pub(super) fn send<H: Handler>(&mut self, inner: &Inner, call: &Call<H>) -> bool {
        if const { is_plain::<H>() }
            && self.epoch.is(inner.life.load(Ordering::Acquire))
            && (self.req.ring_has_room() || self.make_room(inner))
            && let Some(key) = inner.keys.key::<H>()
        {
            let len = const { plain_len::<H>() };
            let words = plain_words(call);
            let hdr = ReqHdr::inline(key, len).with(ReqHdr::ONE_WAY);
            self.push(inner, ONE_WAY, hdr, words.split_at(len.div_ceil(8)).0);
            return true;
        }
        false
    }

    /// Puts any call into the ring. `None`: there is no free line or ticket now.
    pub(super) fn try_offload<H: Handler>(
        &mut self,
        inner: &Inner,
        call: &Call<H>,
        options: &CallOptions,
    ) -> Result<Option<u32>, SubmitError> {
        let Some(reserved) = self.reserve::<H>(inner)? else { return Ok(None) };
        let message = self.prepare(inner, call, options, reserved)?;
        self.publish::<H>(inner, message, reserved).map(Some)
    }

    /// Sends any call. `None`: there is no free line or ticket now.
    pub(super) fn try_send<H: Handler>(&mut self, inner: &Inner, call: &Call<H>) -> Result<Option<()>, SubmitError> {
        let Some(reserved) = self.reserve::<H>(inner)? else { return Ok(None) };
        let mut message = self.prepare(inner, call, &CallOptions::default(), reserved)?;
        if is_queued::<H>() || H::Args::HAS_BUFFERS || message.holds.blocks[0].is_some() {
            // Something must be let go when it is answered: it needs a cell, which nobody reads.
            let cell = self.publish::<H>(inner, message, reserved)?;
            if let Some(extra) = self.cells.extra_or_new(cell) {
                extra.one_way = true;
            }
            self.abandon(inner, cell);
            return Ok(Some(()));
        }
        message.hdr = message.hdr.with(ReqHdr::ONE_WAY);
        self.fill_chunk(1 + self.next_line(), message.chunk);
        self.push(inner, ONE_WAY, message.hdr, message.used());
        Ok(Some(()))
    }

    /// Publishes in the next ring line, which is free.
    #[inline(always)]
    fn push(&mut self, inner: &Inner, cell: u32, hdr: ReqHdr, words: &[u64]) {
        let x = self.req.submit_ring(hdr, words);
        let mask = self.lines.len() - 1;
        if let Some(line) = self.lines.get_mut(x as usize & mask) {
            *line = cell;
        }
        inner.tell_of(x);
    }

    /// Index in the ring of the next message.
    fn next_line(&self) -> u32 {
        self.req.next_position() as u32 & (self.lines.len() as u32 - 1)
    }

    fn fill_chunk(&self, slot: u32, len: usize) {
        if len != 0 {
            // Its length was checked against the chunk when the message was prepared.
            let _ = self.scratch.get(..len).and_then(|bytes| self.req.slots().write_request_chunk(slot, bytes));
        }
    }

    /// The next ring line is free, and a ticket where the call needs one. `None`: not now.
    fn reserve<H: Handler>(&mut self, inner: &Inner) -> Result<Option<Reserved>, SubmitError> {
        if is_queued::<H>() && self.tickets.is_empty() {
            return Err(SubmitError::NoTickets { site: inner.site::<H>("submitting") });
        }
        if !self.req.ring_has_room() && !self.make_room(inner) {
            return Ok(None);
        }
        if !is_queued::<H>() {
            return Ok(Some(Reserved { ticket: None }));
        }
        Ok(self.take_ticket(inner).map(|ticket| Reserved { ticket: Some(ticket) }))
    }

    fn take_ticket(&mut self, inner: &Inner) -> Option<u32> {
        let free = |tickets: &[Ticket]| tickets.iter().position(|ticket| !ticket.taken);
        let t = free(&self.tickets).or_else(|| {
            let epoch = self.epoch;
            // Ring lines of calls that were taken first: their answers come in side lines.
            self.make_room(inner);
            self.harvest_side_lines(inner);
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
        inner: &Inner,
        call: &Call<H>,
        options: &CallOptions,
        reserved: Reserved,
    ) -> Result<Message, SubmitError> {
        let limits = self.limits();
        let message = prepare(&mut self.scratch, limits, inner, call, options);
        message.inspect_err(|_| self.give_back(reserved))
    }

    /// Publishes in the line that was reserved.
    fn publish<H: Handler>(
        &mut self,
        inner: &Inner,
        mut message: Message,
        reserved: Reserved,
    ) -> Result<u32, SubmitError> {
        let Reserved { ticket } = reserved;
        let Some(cell) = self.cells.take(Place::Ring(self.req.next_position())) else {
            self.give_back(reserved);
            message.holds.release(&inner.memory);
            let limit = inner.options.max_outstanding;
            return Err(SubmitError::Full { site: inner.site::<H>("submitting"), limit });
        };
        let ring_slot = 1 + self.next_line();
        match ticket {
            None => self.fill_chunk(ring_slot, message.chunk),
            Some(t) => {
                self.fill_chunk(1 + self.lines.len() as u32 + t, message.chunk);
                let seq = self.ticket_seq(t);
                // EXT: deadline and ticket_seq, ticket, chain, trace.
                message.words[0] |= u64::from(seq) << 32;
                message.words[1] = u64::from(t);
                if let Some(side) = self.req.slots().side(t) {
                    side.set_req_hdr(message.hdr.0);
                }
            }
        }
        self.push(inner, cell, message.hdr, message.used());
        if (ticket.is_some() || !message.holds.is_empty())
            && let Some(extra) = self.cells.extra_or_new(cell)
        {
            extra.holds = std::mem::take(&mut message.holds);
            extra.ticket = ticket;
        }
        if let Some(taken) = ticket.and_then(|t| self.tickets.get_mut(t as usize)) {
            taken.cell = cell;
        }
        Ok(cell)
    }

    pub(super) fn ticket_seq(&self, ticket: u32) -> u32 {
        let uses = self.tickets.get(ticket as usize).map_or(0, |t| t.uses);
        slot::seq(self.req.tag(), uses, slot::COUNT_BITS)
    }

    #[cold]
    pub(super) fn cannot_submit<H: Handler>(&mut self, inner: &Inner, stop: Stop) -> SubmitError {
        let site = inner.site::<H>("submitting");
        match stop {
            Stop::Deadline => SubmitError::Deadline { site },
            Stop::Ended(Ended::Lost) => SubmitError::DeviceLost { site, why: inner.why_dead() },
            Stop::Ended(Ended::Reset) => {
                self.follow_life(inner);
                SubmitError::DeviceLost { site, why: "the device was restarted meanwhile; submit again".into() }
            }
        }
    }
}

/// Of a life that is over: has another one begun?
pub(super) fn how_it_ended(inner: &Inner) -> Ended {
    if inner.life.load(Ordering::Acquire) == 0 { Ended::Lost } else { Ended::Reset }
}
