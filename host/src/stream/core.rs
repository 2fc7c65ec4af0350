//! The engine of one stream: which slot a call takes, where its answer is, when things are let go.
//!
//! Nothing here locks or allocates on the path of a short call. A core outlives its [`super::Stream`]: it stays with the
//! queue pair, because the pair's counts go on, and the next stream on it takes both over.

use super::CallOptions;
use super::cells::{Cells, Ended, Holds, Place};
use super::message::{Answer, Held, Message, decode, is_plain, is_short, plain_len, plain_words, prepare};
use super::wait::{SPINS, Stop, Wait};
use crate::node::Inner;
use crate::{CallError, SubmitError};
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::slot::{self, Descriptor, INLINE_BYTES, INLINE_WORDS, RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{Line, Queue, Shared};
use hamr_comm::am::Requester;
use hamr_comm::migrate::{Decoder, Migratable};
use hamr_comm::{Call, ErrorOf, Handler, ValueOf};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A ring line whose call is done with.
const CONSUMED: u32 = u32::MAX;
/// A ring line whose call has no cell: one-way.
const ONE_WAY: u32 = u32::MAX - 1;
/// Answers moved to their cells when the ring is full: a few at a time, so that a reader in order still reads in place.
const MOVE_BATCH: u32 = 16;

type Coherent = hamr_comm::abi::sync::Coherent;

pub struct Core {
    pub(super) req: Requester<Queue<Shared>>,
    epoch: u32,
    /// Cell of each ring line, or CONSUMED or ONE_WAY.
    lines: Box<[u32]>,
    pub(super) cells: Cells,
    tickets: Box<[Ticket]>,
    /// The hot line holds a call whose caller stopped waiting; its holds.
    hot_abandoned: Option<Holds>,
    /// One-way calls that ended otherwise than executed.
    one_way_failures: u64,
    pub(super) scratch: Vec<u8>,
}

#[derive(Clone, Copy, Default)]
struct Ticket {
    uses: u32,
    taken: bool,
}

impl Core {
    pub(crate) fn new(queue: Queue<Shared>, inner: &Inner) -> Self {
        let epoch = inner.life.load(Ordering::Acquire);
        let lines = vec![CONSUMED; queue.ring_len() as usize].into_boxed_slice();
        let tickets = vec![Ticket::default(); queue.side_len() as usize].into_boxed_slice();
        Self {
            req: Requester::new(queue, Epoch(epoch)),
            epoch,
            lines,
            cells: Cells::new(inner.options.max_outstanding),
            tickets,
            hot_abandoned: None,
            one_way_failures: 0,
            scratch: Vec::with_capacity(hamr_comm::migrate::MAX_MESSAGE),
        }
    }

    /// The epoch it submits in.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Does the device still live the life this core is in?
    pub(super) fn is_current(&self, inner: &Inner) -> bool {
        inner.life.load(Ordering::Acquire) == self.epoch
    }

    /// Is anything in flight that the device must still look at?
    pub(crate) fn has_work(&self) -> bool {
        self.cells.in_use() != 0 || self.hot_abandoned.is_some() || self.req.oldest().is_some()
    }

    /// One-way calls that ended in a fault or were refused.
    pub(crate) fn one_way_failures(&self) -> u64 {
        self.one_way_failures
    }

    /// Calls in flight or unread.
    pub(crate) fn outstanding(&self) -> usize {
        self.cells.in_use()
    }

    fn wait(&self, inner: &Inner, until: Option<Instant>) -> Wait {
        Wait::new(self.epoch, until, inner.options.deadline)
    }

    // --- calls that wait ---

    /// Calls and waits.
    #[inline(always)]
    pub(super) fn sync<H: Handler>(
        &mut self,
        inner: &Inner,
        call: Call<H>,
    ) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        if const { is_short::<H>() }
            && inner.life.load(Ordering::Acquire) == self.epoch
            && self.req.hot_is_open()
            && let Some(key) = inner.keys.key::<H>()
            && let Some(held) = Held::of::<H>(inner, &call)
        {
            let len = const { plain_len::<H>() };
            let words = plain_words(&call);
            self.req.submit_hot(ReqHdr::inline(key, len), words.split_at(len.div_ceil(8)).0);
            for _ in 0..SPINS {
                if let Some(hdr) = self.req.hot_answer() {
                    let outcome = self.take_hot::<H>(inner, hdr);
                    held.release(inner);
                    return outcome;
                }
            }
            return self.sync_wait::<H>(inner, None, held.into_holds());
        }
        self.sync_slow(inner, call, &CallOptions::default())
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
        self.req.release_hot();
        decode::<H>(inner, &answer)
    }

    /// Waits for the hot line beyond the first spin.
    #[cold]
    fn sync_wait<H: Handler>(
        &mut self,
        inner: &Inner,
        until: Option<Instant>,
        mut holds: Holds,
    ) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let mut wait = self.wait(inner, until);
        let stop = loop {
            if let Some(hdr) = self.req.hot_answer() {
                let answer = self.read(inner, self.req.slots().hot(), 0, hdr, &holds);
                self.req.release_hot();
                holds.release(&inner.memory);
                return decode::<H>(inner, &answer);
            }
            if let Err(stop) = wait.step(inner) {
                break stop;
            }
        };
        self.hot_abandoned = Some(holds);
        let site = inner.site::<H>("waiting for the answer");
        match stop {
            Stop::Deadline => Err(CallError::Deadline(site)),
            Stop::Ended(ended) => {
                self.follow_life(inner);
                Err(ended_error(inner, site, ended))
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
        let until = options.deadline.map(|d| Instant::now() + d);
        self.enter::<H>(inner)?;
        self.reap_hot(inner);
        let chunks = self.chunk_lens();
        let message = prepare(&mut self.scratch, chunks, inner, &call, options)?;
        if message.queued || !self.req.hot_is_open() {
            let cell = self.submit::<H>(inner, message, until)?;
            return self.collect::<H>(inner, cell, until);
        }
        self.fill_chunk(0, message.chunk);
        self.req.submit_hot(message.hdr, message.used());
        self.sync_wait::<H>(inner, until, message.holds)
    }

    /// A call that nobody waited for may have been answered meanwhile.
    fn reap_hot(&mut self, inner: &Inner) {
        if let Some(holds) = &mut self.hot_abandoned
            && self.req.hot_answer().is_some()
        {
            holds.release(&inner.memory);
            self.hot_abandoned = None;
            self.req.release_hot();
        }
    }

    // --- calls that do not wait ---

    /// Puts a call into the ring; its result comes to the cell returned.
    #[inline(always)]
    pub(super) fn offload<H: Handler>(
        &mut self,
        inner: &Inner,
        call: Call<H>,
        options: Option<&CallOptions>,
        until: Option<Instant>,
    ) -> Result<u32, SubmitError> {
        if const { is_plain::<H>() }
            && options.is_none()
            && inner.life.load(Ordering::Acquire) == self.epoch
            && self.req.ring_has_room()
            && let Some(key) = inner.keys.key::<H>()
            && let Some(cell) = self.cells.take(Place::Ring(self.req.next_position()))
        {
            let len = const { plain_len::<H>() };
            let words = plain_words(&call);
            self.push(cell, ReqHdr::inline(key, len), words.split_at(len.div_ceil(8)).0);
            return Ok(cell);
        }
        self.offload_slow(inner, call, options, until)
    }

    #[cold]
    #[inline(never)]
    fn offload_slow<H: Handler>(
        &mut self,
        inner: &Inner,
        call: Call<H>,
        options: Option<&CallOptions>,
        until: Option<Instant>,
    ) -> Result<u32, SubmitError> {
        self.enter::<H>(inner)?;
        let plain = CallOptions::default();
        let chunks = self.chunk_lens();
        let message = prepare(&mut self.scratch, chunks, inner, &call, options.unwrap_or(&plain))?;
        self.submit::<H>(inner, message, until)
    }

    /// Sends a call that returns nothing, not even a word that it ran.
    #[inline(always)]
    pub(super) fn send<H: Handler>(&mut self, inner: &Inner, call: Call<H>) -> Result<(), SubmitError> {
        if const { is_plain::<H>() }
            && inner.life.load(Ordering::Acquire) == self.epoch
            && (self.req.ring_has_room() || self.make_room(inner))
            && let Some(key) = inner.keys.key::<H>()
        {
            let len = const { plain_len::<H>() };
            let words = plain_words(&call);
            let hdr = ReqHdr::inline(key, len).with(ReqHdr::ONE_WAY);
            self.push(ONE_WAY, hdr, words.split_at(len.div_ceil(8)).0);
            return Ok(());
        }
        self.send_slow(inner, call)
    }

    #[cold]
    #[inline(never)]
    fn send_slow<H: Handler>(&mut self, inner: &Inner, call: Call<H>) -> Result<(), SubmitError> {
        self.enter::<H>(inner)?;
        let plain = CallOptions::default();
        let chunks = self.chunk_lens();
        let mut message = prepare(&mut self.scratch, chunks, inner, &call, &plain)?;
        if message.queued || H::Args::HAS_BUFFERS || message.holds.blocks[0].is_some() {
            // Something must be let go when it is answered: it needs a cell, which nobody reads.
            let cell = self.submit::<H>(inner, message, None)?;
            self.abandon(inner, cell);
            return Ok(());
        }
        message.hdr = message.hdr.with(ReqHdr::ONE_WAY);
        self.wait_for_room::<H>(inner, None)?;
        self.fill_chunk(1 + self.next_line(), message.chunk);
        self.push(ONE_WAY, message.hdr, message.used());
        Ok(())
    }

    /// Publishes in the next ring line, which is free.
    #[inline(always)]
    fn push(&mut self, cell: u32, hdr: ReqHdr, words: &[u64]) {
        let x = self.req.submit_ring(hdr, words);
        let mask = self.lines.len() - 1;
        if let Some(line) = self.lines.get_mut(x as usize & mask) {
            *line = cell;
        }
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

    /// Waits for a free line (and ticket), then publishes.
    fn submit<H: Handler>(
        &mut self,
        inner: &Inner,
        mut message: Message,
        until: Option<Instant>,
    ) -> Result<u32, SubmitError> {
        let outcome = self.try_submit::<H>(inner, &mut message, until);
        outcome.inspect_err(|_| message.holds.release(&inner.memory))
    }

    fn try_submit<H: Handler>(
        &mut self,
        inner: &Inner,
        message: &mut Message,
        until: Option<Instant>,
    ) -> Result<u32, SubmitError> {
        self.wait_for_room::<H>(inner, until)?;
        let ticket = if message.queued { Some(self.wait_for_ticket::<H>(inner, until)?) } else { None };
        let full = || SubmitError::Full { site: inner.site::<H>("submitting"), limit: inner.options.max_outstanding };
        let cell = self.cells.take(Place::Ring(self.req.next_position())).ok_or_else(full)?;
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
        self.push(cell, message.hdr, message.used());
        if let Some(kept) = self.cells.get(cell) {
            kept.holds = std::mem::take(&mut message.holds);
            // Remembered until the line is answered TAKEN; an u32 ticket fits the words nobody uses yet.
            kept.words[0] = ticket.map_or(u64::MAX, u64::from);
        }
        Ok(cell)
    }

    fn ticket_seq(&self, ticket: u32) -> u32 {
        let uses = self.tickets.get(ticket as usize).map_or(0, |t| t.uses);
        slot::seq(self.req.tag(), uses, slot::COUNT_BITS)
    }

    fn wait_for_ticket<H: Handler>(&mut self, inner: &Inner, until: Option<Instant>) -> Result<u32, SubmitError> {
        let mut wait = self.wait(inner, until);
        loop {
            if let Some((t, ticket)) = self.tickets.iter_mut().enumerate().find(|(_, t)| !t.taken) {
                ticket.taken = true;
                ticket.uses = ticket.uses.wrapping_add(1);
                return Ok(t as u32);
            }
            self.harvest_side_lines(inner);
            if self.tickets.iter().all(|t| t.taken) {
                wait.step(inner).map_err(|stop| self.cannot_submit::<H>(inner, stop))?;
                self.make_room(inner);
            }
        }
    }

    fn wait_for_room<H: Handler>(&mut self, inner: &Inner, until: Option<Instant>) -> Result<(), SubmitError> {
        let mut wait = self.wait(inner, until);
        let mut spins = 0;
        while !self.req.ring_has_room() && !self.make_room(inner) {
            spins += 1;
            if spins > SPINS {
                wait.step(inner).map_err(|stop| self.cannot_submit::<H>(inner, stop))?;
            }
        }
        Ok(())
    }

    #[cold]
    fn cannot_submit<H: Handler>(&mut self, inner: &Inner, stop: Stop) -> SubmitError {
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

    /// Gives answered lines back from the oldest on, moving results to their cells. True when there is room now.
    #[inline]
    pub(super) fn make_room(&mut self, inner: &Inner) -> bool {
        let mask = self.lines.len() - 1;
        for _ in 0..MOVE_BATCH {
            let Some(x) = self.req.oldest() else { break };
            let cell = self.lines.get(x as usize & mask).copied().unwrap_or(CONSUMED);
            if cell != CONSUMED {
                let Some(hdr) = self.req.ring_answer(x) else { break };
                if cell == ONE_WAY {
                    if hdr.status() != Status::EXECUTED {
                        self.one_way_failures += 1;
                    }
                } else {
                    self.harvest(inner, cell, x, hdr);
                }
            }
            self.req.release_oldest();
        }
        self.req.ring_has_room()
    }

    /// Moves the answer in line `x` to its cell, and marks the line consumed.
    fn harvest(&mut self, inner: &Inner, cell: u32, x: u64, hdr: RepHdr) {
        let line_index = x as u32 & (self.lines.len() as u32 - 1);
        if let Some(line) = self.lines.get_mut(line_index as usize) {
            *line = CONSUMED;
        }
        let Some(kept) = self.cells.get(cell) else { return };
        let ticket = kept.words[0];
        if hdr.has(RepHdr::TAKEN) && ticket < self.tickets.len() as u64 {
            kept.place = Place::Side(ticket as u32);
            return;
        }
        let holds = std::mem::take(&mut kept.holds);
        let answer = self.read(inner, self.req.slots().ring(x as u32), 1 + line_index, hdr, &holds);
        self.settle(inner, cell, answer, holds);
        if self.is_queued_ticket(ticket, hdr) {
            self.free_ticket(ticket as u32);
        }
    }

    /// A queued call whose line was answered otherwise than TAKEN (queue full, refused) gives its ticket back.
    fn is_queued_ticket(&self, ticket: u64, hdr: RepHdr) -> bool {
        ticket < self.tickets.len() as u64 && !hdr.has(RepHdr::TAKEN)
    }

    fn free_ticket(&mut self, ticket: u32) {
        if let Some(t) = self.tickets.get_mut(ticket as usize) {
            t.taken = false;
        }
    }

    /// Puts an answer into its cell, or throws it away when nobody wants it.
    fn settle(&mut self, inner: &Inner, cell: u32, answer: Answer, mut holds: Holds) {
        holds.release(&inner.memory);
        let Some(kept) = self.cells.get(cell) else { return };
        if kept.abandoned {
            return self.cells.put_back(cell);
        }
        kept.place = Place::Here;
        kept.hdr = answer.hdr;
        kept.words = answer.words;
        kept.long = answer.long;
        if let Some(waker) = kept.waker.take() {
            waker.wake();
        }
    }

    fn harvest_side_lines(&mut self, inner: &Inner) {
        let waiting: Vec<u32> =
            self.cells.iter_mut().filter(|(_, c)| matches!(c.place, Place::Side(_))).map(|(i, _)| i).collect();
        for cell in waiting {
            self.look(inner, cell);
        }
    }

    /// Brings the cell's answer in, when it is there. True when the cell has its outcome.
    pub(super) fn look(&mut self, inner: &Inner, cell: u32) -> bool {
        let Some(kept) = self.cells.get(cell) else { return true };
        match kept.place {
            Place::Ring(x) => match self.req.ring_answer(x) {
                Some(hdr) => {
                    self.harvest(inner, cell, x, hdr);
                    self.release_consumed();
                    // A queued call goes on in its side line.
                    hdr.has(RepHdr::TAKEN) && self.look(inner, cell) || !hdr.has(RepHdr::TAKEN)
                }
                None => false,
            },
            Place::Side(t) => {
                let expected = self.ticket_seq(t);
                let Some(line) = self.req.slots().side(t) else { return true };
                if line.rep_seq() != expected {
                    return false;
                }
                let hdr = RepHdr(line.rep_hdr());
                let slot = 1 + self.lines.len() as u32 + t;
                let holds = self.cells.get(cell).map(|c| std::mem::take(&mut c.holds)).unwrap_or_default();
                let Some(line) = self.req.slots().side(t) else { return true };
                let answer = self.read(inner, line, slot, hdr, &holds);
                self.free_ticket(t);
                self.settle(inner, cell, answer, holds);
                true
            }
            Place::Here | Place::Gone(_) | Place::Free(_) => true,
        }
    }

    /// Gives back the lines at the front whose results were read in place.
    #[inline(always)]
    fn release_consumed(&mut self) {
        let mask = self.lines.len() - 1;
        while let Some(x) = self.req.oldest()
            && self.lines.get(x as usize & mask).is_some_and(|c| *c == CONSUMED)
        {
            self.req.release_oldest();
        }
    }

    /// Copies an answer out of its slot, whatever the device says it is.
    fn read(&self, inner: &Inner, line: Line<'_, Coherent>, slot: u32, hdr: RepHdr, holds: &Holds) -> Answer {
        let mut words = [0; INLINE_WORDS];
        if !hdr.is_empty() {
            line.read_reply(&mut words);
        }
        let at = Descriptor { off: words[0], len: words[1] };
        let mut long = Vec::new();
        let fits = |limit: u64| at.len <= limit && hdr.len() >= 16;
        match hdr.place() {
            slot::Place::Chunk if fits(self.req.slots().rep_chunk_len() as u64) => {
                long.resize(at.len as usize, 0);
                let _ = self.req.slots().read_reply_chunk(slot, &mut long);
            }
            slot::Place::Buffer => {
                if let Some(block) = holds.reply_block()
                    && fits(block.bytes)
                    && at.off == block.off
                {
                    long.resize(at.len as usize, 0);
                    let _ = inner.link.window().read_bytes(inner.memory.heap_off() + block.off, &mut long);
                }
            }
            _ => {}
        }
        Answer { hdr, words, long }
    }

    // --- results ---

    /// The result of a cell's call, when it is there and short and in its ring line: the common case, read in place.
    #[inline(always)]
    pub(super) fn take_in_place<H: Handler>(&mut self, inner: &Inner, cell: u32) -> Option<ValueOf<H>> {
        let kept = self.cells.get(cell)?;
        let Place::Ring(x) = kept.place else { return None };
        let len = match <ValueOf<H> as Migratable>::SIZE {
            Some(n) if n <= INLINE_BYTES => n,
            _ => return None,
        };
        let hdr = self.req.ring_answer(x)?;
        if hdr != RepHdr::inline(Status::OK, len) {
            return None;
        }
        kept.holds.release(&inner.memory);
        let mut words = [0u64; INLINE_WORDS];
        self.req.slots().ring(x as u32).read_reply(words.split_at_mut(len.div_ceil(8)).0);
        let bytes: &[u8] = bytemuck::cast_slice(&words);
        let value = Migratable::decode(&mut Decoder::new(bytes.split_at(len).0)).ok()?;
        let mask = self.lines.len() - 1;
        if let Some(line) = self.lines.get_mut(x as usize & mask) {
            *line = CONSUMED;
        }
        self.release_consumed();
        self.cells.put_back(cell);
        Some(value)
    }

    /// The outcome of a cell that has one; frees the cell.
    #[cold]
    pub(super) fn take<H: Handler>(&mut self, inner: &Inner, cell: u32) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let Some(kept) = self.cells.get(cell) else {
            return Err(CallError::Corrupt(inner.site::<H>("reading the answer"), "no cell".into()));
        };
        let outcome = match kept.place {
            Place::Gone(ended) => Err(ended_error(inner, inner.site::<H>("waiting for the answer"), ended)),
            _ => {
                let answer = Answer { hdr: kept.hdr, words: kept.words, long: std::mem::take(&mut kept.long) };
                decode::<H>(inner, &answer)
            }
        };
        self.cells.put_back(cell);
        outcome
    }

    /// Waits for a cell's outcome and takes it. On a deadline the call is abandoned.
    #[cold]
    pub(super) fn collect<H: Handler>(
        &mut self,
        inner: &Inner,
        cell: u32,
        until: Option<Instant>,
    ) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let mut wait = self.wait(inner, until);
        let mut spins = 0;
        while !self.look(inner, cell) {
            spins += 1;
            if spins <= SPINS {
                continue;
            }
            match wait.step(inner) {
                Ok(()) => {}
                Err(Stop::Deadline) => {
                    self.abandon(inner, cell);
                    return Err(CallError::Deadline(inner.site::<H>("waiting for the answer")));
                }
                // An answer published just before the end still counts.
                Err(Stop::Ended(_)) => self.follow_life(inner),
            }
        }
        self.take::<H>(inner, cell)
    }

    /// Nobody will read this cell: it is freed now, or when its answer comes (rule 16).
    pub(super) fn abandon(&mut self, inner: &Inner, cell: u32) {
        if let Some(kept) = self.cells.get(cell) {
            kept.abandoned = true;
            if matches!(kept.place, Place::Here | Place::Gone(_)) {
                return self.cells.put_back(cell);
            }
        }
        self.look(inner, cell);
    }

    /// Sets CANCEL in the call's own header (rule 17).
    pub(super) fn cancel(&mut self, cell: u32) {
        let Some(kept) = self.cells.get(cell) else { return };
        let line = match kept.place {
            Place::Ring(x) => Some(self.req.slots().ring(x as u32)),
            Place::Side(t) => self.req.slots().side(t),
            _ => None,
        };
        let queued = kept.words[0];
        if let Some(line) = line {
            line.set_req_hdr(line.req_hdr() | ReqHdr::CANCEL);
        }
        // A queued call not yet taken is looked up in its side line later.
        if let Some(side) = u32::try_from(queued).ok().and_then(|t| self.req.slots().side(t))
            && matches!(self.cells.get(cell).map(|c| c.place), Some(Place::Ring(_)))
        {
            side.set_req_hdr(side.req_hdr() | ReqHdr::CANCEL);
        }
    }

    /// Waits until every call of the stream has its outcome.
    pub(super) fn flush(&mut self, inner: &Inner, until: Option<Instant>) -> Result<(), Stop> {
        let mut wait = self.wait(inner, until);
        loop {
            self.reap_hot(inner);
            self.harvest_side_lines(inner);
            let side_busy = self.tickets.iter().any(|t| t.taken);
            self.make_room(inner);
            if self.hot_abandoned.is_none() && self.req.is_quiet() && !side_busy {
                return Ok(());
            }
            if let Err(stop) = wait.step(inner) {
                if let Stop::Ended(_) = stop {
                    self.follow_life(inner);
                }
                return Err(stop);
            }
        }
    }

    // --- epochs ---

    /// Before a submission off the fast path: dead, reset, or go.
    fn enter<H: Handler>(&mut self, inner: &Inner) -> Result<(), SubmitError> {
        self.follow_life(inner);
        if inner.life.load(Ordering::Acquire) == 0 {
            return Err(SubmitError::DeviceLost { site: inner.site::<H>("submitting"), why: inner.why_dead() });
        }
        Ok(())
    }

    /// When the device's life is over, gives every outstanding call its outcome, exactly once; when a new one began,
    /// starts over in it (rule 30).
    pub(super) fn follow_life(&mut self, inner: &Inner) {
        let life = inner.life.load(Ordering::Acquire);
        if life == self.epoch {
            return;
        }
        // What was answered before the end is still an answer.
        while self.req.oldest().is_some() {
            let before = self.req.oldest();
            self.make_room(inner);
            if self.req.oldest() == before {
                break;
            }
        }
        self.harvest_side_lines(inner);
        let ended = if life == 0 { Ended::Lost } else { Ended::Reset };
        let mut orphans = Vec::new();
        for (index, cell) in self.cells.iter_mut() {
            if matches!(cell.place, Place::Ring(_) | Place::Side(_)) {
                cell.place = Place::Gone(ended);
                cell.holds.release(&inner.memory);
                if let Some(waker) = cell.waker.take() {
                    waker.wake();
                }
                if cell.abandoned {
                    orphans.push(index);
                }
            }
        }
        for index in orphans {
            self.cells.put_back(index);
        }
        if let Some(mut holds) = self.hot_abandoned.take() {
            holds.release(&inner.memory);
        }
        self.lines.fill(CONSUMED);
        self.tickets.fill(Ticket::default());
        self.epoch = life;
        if life != 0 {
            self.req.enter(Epoch(life));
        }
    }
}

fn ended_error<E>(inner: &Inner, site: crate::Site, ended: Ended) -> CallError<E> {
    match ended {
        Ended::Lost => CallError::DeviceLost(site, inner.why_dead()),
        Ended::Reset => CallError::PeerReset(site),
    }
}
