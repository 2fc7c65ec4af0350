//! The second half of the engine: where answers go, how they are read, and what happens when a device's life ends.

use super::cells::{Ended, Holds, Place};
use super::core::{CONSUMED, Core, NOWHERE, ONE_WAY, Ticket};
use super::message::{Answer, Held, decode};
use super::wait::{SPINS, Stop};
use crate::node::Inner;
use crate::{CallError, SubmitError};
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::slot::{self, Descriptor, INLINE_BYTES, INLINE_WORDS, RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::sync::Coherent;
use hamr_comm::abi::window::Line;
use hamr_comm::migrate::{Decoder, Migratable};
use hamr_comm::{ErrorOf, Handler, ValueOf};
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

/// Answers moved to their cells when the ring is full: a few at a time, so that a reader in order still reads in place.
const MOVE_BATCH: u32 = 16;

impl Core {
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
                    if self.is_wiped(inner) {
                        break;
                    }
                    if hdr.status() != Status::EXECUTED {
                        self.one_way_failures += 1;
                    }
                } else if !self.harvest(inner, cell, x, hdr) {
                    break;
                }
            }
            self.req.release_oldest();
        }
        self.req.ring_has_room()
    }

    /// Gives every answered line back up to the first that is not.
    fn empty_ring(&mut self, inner: &Inner) {
        while let Some(oldest) = self.req.oldest() {
            self.make_room(inner);
            if self.req.oldest() == Some(oldest) {
                break;
            }
        }
    }

    /// Takes in every answer that is there, without waiting.
    pub(crate) fn reap(&mut self, inner: &Inner) {
        self.follow_life(inner);
        self.reap_hot(inner);
        self.empty_ring(inner);
        self.harvest_side_lines(inner);
    }

    /// May what was just read of the lines have been wiped meanwhile, for a life that another stream began? Then it is not to be
    /// used: [`Self::follow_life`] knows where the answers are.
    #[inline(always)]
    pub(super) fn is_wiped(&self, inner: &Inner) -> bool {
        // Behind it: whoever wipes has ended the life before.
        fence(Ordering::Acquire);
        inner.life.load(Ordering::Relaxed) != self.epoch && !self.at_the_end
    }

    /// Moves the answer in line `x` to its cell, and marks the line consumed. False when its life is over, and nothing was done.
    fn harvest(&mut self, inner: &Inner, cell: u32, x: u64, hdr: RepHdr) -> bool {
        let line_index = x as u32 & (self.lines.len() as u32 - 1);
        let holds = self.cells.take_holds(cell);
        let answer = self.read(inner, self.req.slots().ring(x as u32), 1 + line_index, hdr, &holds);
        if self.is_wiped(inner) {
            self.cells.give_holds(cell, holds);
            return false;
        }
        if let Some(line) = self.lines.get_mut(line_index as usize) {
            *line = CONSUMED;
        }
        let ticket = self.cells.extra(cell).and_then(|extra| extra.ticket);
        if let Some(ticket) = ticket {
            if hdr.has(RepHdr::TAKEN) {
                self.cells.give_holds(cell, holds);
                if let Some(kept) = self.cells.get(cell) {
                    kept.set_place(Place::Side(ticket));
                }
                return true;
            }
            // Answered in its line after all: refused, or the device's queue is full.
            self.free_ticket(ticket);
        }
        self.settle(inner, cell, answer, holds);
        true
    }

    pub(super) fn free_ticket(&mut self, ticket: u32) {
        if let Some(t) = self.tickets.get_mut(ticket as usize) {
            t.taken = false;
        }
    }

    /// Puts an answer into its cell, or throws it away when nobody wants it.
    fn settle(&mut self, inner: &Inner, cell: u32, answer: Answer, mut holds: Holds) {
        holds.release(&inner.memory);
        if self.cells.is_abandoned(cell) {
            let one_way = self.cells.extra(cell).is_some_and(|extra| extra.one_way);
            if one_way && answer.hdr.status() != Status::OK {
                self.one_way_failures += 1;
            }
            return self.cells.put_back(cell);
        }
        if !answer.long.is_empty()
            && let Some(extra) = self.cells.extra_or_new(cell)
        {
            extra.long = answer.long;
        }
        // A device that was asked to leave its epoch cancelled what it had not run: that is an end, and not an answer.
        let life = inner.life.load(Ordering::Acquire);
        let place = match answer.hdr.status() {
            Status::CANCELLED if life == 0 => Place::Gone(Ended::Lost),
            Status::CANCELLED if life != self.epoch => Place::Gone(Ended::Reset),
            _ => Place::Here,
        };
        if let Some(kept) = self.cells.get(cell) {
            kept.set_place(place);
            kept.hdr = answer.hdr;
            kept.words = answer.words;
        }
    }

    pub(super) fn harvest_side_lines(&mut self, inner: &Inner) {
        for t in 0..self.tickets.len() {
            if let Some(ticket) = self.tickets.get(t).copied()
                && ticket.taken
                && self.cells.place(ticket.cell) == Some(Place::Side(t as u32))
            {
                self.look(inner, ticket.cell);
            }
        }
    }

    /// Brings the cell's answer in, when it is there. True when the cell has its outcome.
    pub(super) fn look(&mut self, inner: &Inner, cell: u32) -> bool {
        let Some(place) = self.cells.place(cell) else { return true };
        match place {
            Place::Ring(x) => match self.req.ring_answer(x) {
                Some(hdr) => {
                    if !self.harvest(inner, cell, x, hdr) {
                        // Gives every call its outcome.
                        self.follow_life(inner);
                        return true;
                    }
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
                let holds = self.cells.take_holds(cell);
                let Some(line) = self.req.slots().side(t) else { return true };
                let answer = self.read(inner, line, slot, hdr, &holds);
                if self.is_wiped(inner) {
                    self.cells.give_holds(cell, holds);
                    self.follow_life(inner);
                    return true;
                }
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
    pub(super) fn read(
        &self,
        inner: &Inner,
        line: Line<'_, Coherent>,
        slot: u32,
        hdr: RepHdr,
        holds: &Holds,
    ) -> Answer {
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
        let len = match <ValueOf<H> as Migratable>::SIZE {
            Some(n) if n <= INLINE_BYTES => n,
            _ => return None,
        };
        let good = RepHdr::inline(Status::OK, len);
        let decode = |words: &[u64; INLINE_WORDS]| {
            let bytes: &[u8] = bytemuck::cast_slice(words);
            Migratable::decode(&mut Decoder::new(bytes.split_at(len).0)).ok()
        };
        let value = match self.cells.place(cell)? {
            Place::Ring(x) => {
                if self.req.ring_answer(x)? != good {
                    return None;
                }
                let mut words = [0u64; INLINE_WORDS];
                self.req.slots().ring(x as u32).read_reply(words.split_at_mut(len.div_ceil(8)).0);
                if self.is_wiped(inner) {
                    return None;
                }
                let value = decode(&words)?;
                if let Some(extra) = self.cells.extra(cell) {
                    extra.holds.release(&inner.memory);
                }
                let mask = self.lines.len() - 1;
                if let Some(line) = self.lines.get_mut(x as usize & mask) {
                    *line = CONSUMED;
                }
                self.release_consumed();
                value
            }
            // Moved to its cell when the ring was full.
            Place::Here => {
                let kept = self.cells.get(cell).filter(|kept| kept.hdr == good)?;
                decode(&kept.words)?
            }
            _ => return None,
        };
        self.cells.put_back(cell);
        Some(value)
    }

    /// Does the cell have an outcome that is not read in place? Never waits.
    pub(super) fn has_outcome(&mut self, inner: &Inner, cell: u32) -> bool {
        match self.cells.place(cell) {
            Some(Place::Ring(_)) => false,
            Some(Place::Side(_)) => self.look(inner, cell),
            _ => true,
        }
    }

    /// The outcome of a cell that has one; frees the cell.
    #[cold]
    pub(super) fn take<H: Handler>(&mut self, inner: &Inner, cell: u32) -> Result<ValueOf<H>, CallError<ErrorOf<H>>> {
        let long = self.cells.extra(cell).map(|extra| std::mem::take(&mut extra.long)).unwrap_or_default();
        let Some(kept) = self.cells.get(cell) else {
            return Err(CallError::Corrupt(inner.site::<H>("reading the answer"), "no cell".into()));
        };
        let outcome = match kept.place() {
            Place::Gone(ended) => Err(ended_error(inner, inner.site::<H>("waiting for the answer"), ended)),
            _ => decode::<H>(inner, &Answer { hdr: kept.hdr, words: kept.words, long }),
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
            match wait.step() {
                Ok(()) => {}
                // Whoever is woken late finds the answer beside the deadline.
                Err(Stop::Deadline) if self.look(inner, cell) => break,
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
        if matches!(self.cells.place(cell), Some(Place::Here | Place::Gone(_))) {
            return self.cells.put_back(cell);
        }
        if let Some(extra) = self.cells.extra_or_new(cell) {
            extra.abandoned = true;
        }
        self.look(inner, cell);
    }

    /// Sets CANCEL in the call's own header (rule 17).
    pub(super) fn cancel(&mut self, cell: u32) {
        let ticket = self.cells.extra(cell).and_then(|extra| extra.ticket);
        let slots = self.req.slots();
        // A queued call is looked up in its side line, before and after its ring line is answered TAKEN.
        let lines = match self.cells.place(cell) {
            Some(Place::Ring(x)) => [Some(slots.ring(x as u32)), ticket.and_then(|t| slots.side(t))],
            Some(Place::Side(t)) => [slots.side(t), None],
            _ => [None, None],
        };
        for line in lines.into_iter().flatten() {
            line.set_req_hdr(line.req_hdr() | ReqHdr::CANCEL);
        }
    }

    /// Waits until every call of the stream has its outcome.
    pub(super) fn flush(&mut self, inner: &Inner, until: Option<Instant>) -> Result<(), Stop> {
        let mut wait = self.wait(inner, until);
        loop {
            self.reap_hot(inner);
            self.harvest_side_lines(inner);
            let side_busy = self.tickets.iter().any(|t| t.taken);
            self.empty_ring(inner);
            // A started call counts as run when it is answered, read or not.
            let hot_runs = self.req.hot_is_busy() && self.req.hot_answer().is_none();
            if !hot_runs && self.hot_abandoned.is_none() && self.req.oldest().is_none() && !side_busy {
                return Ok(());
            }
            if let Err(stop) = wait.step() {
                if let Stop::Ended(_) = stop {
                    self.follow_life(inner);
                }
                return Err(stop);
            }
        }
    }

    /// Before a submission off the fast path: dead, reset, or go.
    /// Takes in what is answered, so that calls nobody waits for do not hold their buffers longer than this one's preparation.
    pub(super) fn enter<H: Handler>(&mut self, inner: &Inner) -> Result<(), SubmitError> {
        self.reap(inner);
        if inner.life.load(Ordering::Acquire) == 0 && inner.revive() {
            self.follow_life(inner);
        }
        if inner.life.load(Ordering::Acquire) == 0 {
            return Err(SubmitError::DeviceLost { site: inner.site::<H>("submitting"), why: inner.why_dead() });
        }
        Ok(())
    }

    /// When the device's life is over, gives every outstanding call its outcome, exactly once; when a new one began,
    /// starts over in it (rule 30).
    pub(super) fn follow_life(&mut self, inner: &Inner) {
        let life = inner.life.load(Ordering::Acquire);
        if life == self.epoch || (life == 0 && self.epoch == NOWHERE) {
            return;
        }
        // What was answered before the end is still an answer.
        self.on_last_lines(inner, |core| {
            core.empty_ring(inner);
            core.harvest_side_lines(inner);
        });
        if self.req.hot_is_busy() && self.hot_abandoned.is_none() {
            let answer = self.last_hot_answer(inner, &Holds::default());
            self.hot_kept.extend(answer.map(|answer| (self.req.hot_seq(), answer)));
            self.req.release_hot();
        }
        let ended = if life == 0 { Ended::Lost } else { Ended::Reset };
        let in_flight = |(_, place): &(u32, Place)| matches!(place, Place::Ring(_) | Place::Side(_));
        let outstanding: Vec<u32> = self.cells.places().filter(in_flight).map(|(i, _)| i).collect();
        for cell in outstanding {
            self.cells.take_holds(cell).release(&inner.memory);
            if self.cells.is_abandoned(cell) {
                self.cells.put_back(cell);
            } else if let Some(kept) = self.cells.get(cell) {
                kept.set_place(Place::Gone(ended));
            }
        }
        // A started call that nobody has read yet lets go as well; it learns of its end when it is read.
        let held = std::mem::replace(&mut self.hot_held, Held::NONE).into_holds(self.number);
        for mut holds in [Some(held), self.hot_abandoned.take()].into_iter().flatten() {
            holds.release(&inner.memory);
        }
        self.lines.fill(CONSUMED);
        self.tickets.fill(Ticket::default());
        self.epoch = NOWHERE;
        inner.engine_is_in(self.number, life);
        if life != 0 {
            self.epoch = life;
            self.req.enter(Epoch(life));
        }
    }

    /// Runs `what` on the lines as the engine's life left them, whoever has wiped the window since.
    fn on_last_lines<R>(&mut self, inner: &Inner, what: impl FnOnce(&mut Self) -> R) -> R {
        inner.at_the_end_of(self.epoch, |end| {
            let lines = end.and_then(|window| inner.queue_in(window, self.number));
            self.at_the_end = true;
            let live = lines.map(|lines| self.req.replace_slots(lines));
            let outcome = what(self);
            live.map(|live| self.req.replace_slots(live));
            self.at_the_end = false;
            outcome
        })
    }

    /// The answer of the call in the hot line, when it came before the engine's life was over.
    pub(super) fn last_hot_answer(&mut self, inner: &Inner, holds: &Holds) -> Option<Answer> {
        self.on_last_lines(inner, |core| {
            let hdr = core.req.hot_answer()?;
            Some(core.read(inner, core.req.slots().hot(), 0, hdr, holds))
        })
    }
}

pub(super) fn ended_error<E>(inner: &Inner, site: Box<crate::Site>, ended: Ended) -> CallError<E> {
    match ended {
        Ended::Lost => CallError::DeviceLost(site, inner.why_dead().into()),
        Ended::Reset => CallError::PeerReset(site),
    }
}
