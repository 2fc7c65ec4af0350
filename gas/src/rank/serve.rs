//! Polling: requests of others, and replies to this rank's own.

use super::pieces::{self, Op};
use super::{Peer, Rank};
use crate::handlers::{Handlers, Run};
use crate::kinds::Kinds;
use crate::message::{Msg, Payload, Reply, ReplyChunk, SegRange, Token};
use crate::thread::pause;
use crate::{GasError, wire};
use hamr_comm::abi::slot::{INLINE_WORDS, RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{SlotAccess, Slots, Window};
use hamr_comm::abi::world::{ARGS_BYTES, AmWord, Category};
use hamr_comm::world::{RankId, WorldRef};

/// Requests of a rank in one round.
const BATCH: u32 = 16;
/// Polls without a message before the task suspends.
const SPINS: u32 = 256;
/// Polls between two turns of the serve loop, when messages come all the time.
const POLLS: u32 = 4096;
/// Vain polls of a program between two turns of the serve loop.
const VAIN: u32 = 64;
/// Microseconds of a wait. A rank that published something and went on to compute has no fence behind
/// it: this long a message of it can lie at a rank that went to sleep at that very moment.
const LONGEST_WAIT_US: u32 = 20_000;

impl<S> Rank<'_, S> {
    /// Runs the handlers of messages that are there (`gasnet_AMPoll`). Returns how many.
    ///
    /// # Errors
    /// A handler was missing, or a rank broke the rules: a later call has the same error. The call was
    /// cancelled.
    pub fn poll(&mut self) -> Result<u32, GasError> {
        let found = self.poll_once()?;
        if found == 0 {
            self.idle = self.idle.wrapping_add(1);
            if self.idle.is_multiple_of(VAIN) {
                self.turn()?;
            }
        }
        Ok(found)
    }

    /// Polls until `done` returns true (`GASNET_BLOCKUNTIL`). What it looks at, only handlers change.
    pub fn block_until(&mut self, mut done: impl FnMut(&mut S) -> bool) -> Result<(), GasError> {
        while !done(&mut self.state) {
            if self.poll_once()? == 0 {
                self.rest()?;
            }
        }
        Ok(())
    }

    /// One look at all ranks.
    pub(crate) fn poll_once(&mut self) -> Result<u32, GasError> {
        let table = self.attached()?;
        self.polls += 1;
        if self.polls >= POLLS {
            self.turn()?;
        }
        let found = if self.senders.is_some() {
            self.poll_senders(table)?
        } else {
            let mut found = 0;
            for rank in 0..self.peers.len() {
                found += self.poll_lanes(table, rank)?;
            }
            found
        };
        if found != 0 {
            self.idle = 0;
        } else if !self.owed.is_empty() {
            self.notify_owed();
        }
        Ok(found)
    }

    /// A look at one rank.
    #[inline(always)]
    fn poll_lanes(&mut self, table: &'static Handlers<S>, rank: usize) -> Result<u32, GasError> {
        let mut found = 0;
        if self.peers.get(rank).is_some_and(|peer| peer.responder.has_next()) {
            found += self.serve(table, rank)?;
        }
        while let Some((slot, hdr)) = self.peers.get(rank).and_then(Peer::reply) {
            found += 1;
            if !self.take_reply(table, rank, slot, hdr)? {
                break;
            }
        }
        Ok(found)
    }

    /// A look at the ranks that have announced something. A rank stays among them until its lanes were seen
    /// empty, also when its message was an error or its handler was abandoned.
    fn poll_senders(&mut self, table: &'static Handlers<S>) -> Result<u32, GasError> {
        if let Some(senders) = &mut self.senders {
            self.gas.collect(senders);
        }
        let (mut from, mut found) = (0, 0);
        while let Some(rank) = self.senders.as_ref().and_then(|senders| senders.next(from)) {
            let at = rank.0 as usize;
            found += self.poll_lanes(table, at)?;
            let has_more = self.peers.get(at).is_some_and(Peer::has_news);
            if let Some(senders) = self.senders.as_mut().filter(|_| !has_more) {
                senders.remove(rank);
            }
            from = rank.0 + 1;
        }
        Ok(found)
    }

    /// Is there something in a lane?
    fn has_news(&self) -> bool {
        match &self.senders {
            Some(senders) => !senders.is_empty() || self.gas.has_announced(),
            None => self.peers.iter().any(Peer::has_news),
        }
    }

    /// Nothing is to be done: a pause, or a wait for messages.
    pub(crate) fn rest(&mut self) -> Result<(), GasError> {
        self.rest_for(|_| false)
    }

    /// The same for something beside messages.
    pub(crate) fn rest_for(&mut self, has_more: impl Fn(&Self) -> bool) -> Result<(), GasError> {
        self.idle += 1;
        if self.idle < SPINS {
            core::hint::spin_loop();
            return Ok(());
        }
        if self.owner != 0 {
            return self.rest_shared();
        }
        // Still idle when it ends by its time.
        self.idle = SPINS;
        self.polls = 0;
        let this = &*self;
        let is_there = || has_more(this) || this.barrier.has_news(this) || this.has_news();
        self.task.wait_for_ranks(LONGEST_WAIT_US, is_there)?;
        Ok(())
    }

    /// The same while threads share the rank: others wait for it, so the task does not suspend for long.
    #[cold]
    fn rest_shared(&mut self) -> Result<(), GasError> {
        pause();
        if self.idle < SPINS + VAIN {
            return Ok(());
        }
        self.idle = SPINS;
        self.turn()
    }

    /// The serve loop has a turn: the launcher's calls, cancellations. It runs on the task's thread.
    #[cold]
    fn turn(&mut self) -> Result<(), GasError> {
        self.polls = 0;
        self.notify_owed();
        if self.is_owner() { Ok(self.task.yield_now()?) } else { Ok(()) }
    }

    /// Notifies ranks that sleep of what was published.
    #[cold]
    fn notify_owed(&mut self) {
        while let Some(rank) = self.owed.next(0) {
            self.owed.remove(rank);
            self.gas.notify(rank);
        }
    }

    /// Nothing works any more.
    #[cold]
    pub(crate) fn breaks(&mut self, why: GasError) -> GasError {
        self.broken = Some(why.clone());
        why
    }

    /// Serves requests of a rank.
    fn serve(&mut self, table: &'static Handlers<S>, from: usize) -> Result<u32, GasError> {
        let source = RankId(from as u32);
        let window = self.gas.window();
        let (world, medium) = (&self.world, self.medium);
        let (mut served, mut hot_first) = (0, true);
        let mut error = None;
        let Some(Peer { responder, from: chunks, .. }) = self.peers.get_mut(from) else { return Ok(0) };
        let chunks = *chunks;
        while served < BATCH
            && error.is_none()
            && let Some(found) = responder.next(hot_first)
        {
            hot_first = found.slot != 0;
            served += 1;
            let slot = responder.slot(found.slot);
            let hdr = ReqHdr(slot.req_hdr());
            let (request, half) = (chunks.request(found.slot), chunks.reply(found.slot));
            let (mut words, mut out) = ([0; INLINE_WORDS], [0; AmWord::MAX_ARGS]);
            slot.read_request(&mut words);
            if hdr.key().module() == 2 && hdr.is_plain() {
                let reply = pieces::serve(hdr, &mut words, world, window, (request, half), &mut self.scratch);
                slot.write_reply(words.get(..reply.len().div_ceil(8)).unwrap_or_default());
                slot.publish_reply(reply.0, found.seq);
                continue;
            }
            let mut reply = Reply::NONE;
            match wire::unpack(&words, &mut out, window, request, medium).filter(|_| hdr.is_plain()) {
                Some(message) => {
                    let token = Token {
                        to: source,
                        world,
                        info: &table.info,
                        medium,
                        chunk: ReplyChunk::Lane(window, half),
                        reply: &mut reply,
                    };
                    let at = hdr.key().0 ^ wire::MODULE;
                    let takes = u8::try_from(at).ok().filter(|at| takes(table, *at, message.category, false));
                    let payload = payload(&message, window, request, &mut self.scratch);
                    match takes {
                        Some(at) => {
                            let msg = Msg { source, world, args: message.args, payload };
                            run_request(table, at, &mut self.state, msg, token);
                        }
                        None => reply.hdr = RepHdr::inline(Status::NO_HANDLER, 0),
                    }
                }
                None => reply.hdr = RepHdr::inline(Status::BAD_REQUEST, 0),
            }
            error = reply.error;
            slot.write_reply(reply.words.get(..reply.hdr.len().div_ceil(8)).unwrap_or_default());
            slot.publish_reply(reply.hdr.0, found.seq);
        }
        self.published(source);
        match error {
            Some((at, why)) => Err(self.breaks(GasError::Reply { to: source.0, at, why })),
            None => Ok(served),
        }
    }

    /// Takes a reply of a rank: the first in the order of its slots. False: a call waits for it.
    #[inline]
    fn take_reply(
        &mut self,
        table: &'static Handlers<S>,
        from: usize,
        slot: u32,
        hdr: RepHdr,
    ) -> Result<bool, GasError> {
        let source = RankId(from as u32);
        let Some(peer) = self.peers.get(from) else { return Ok(false) };
        let result = match peer.ops.get(slot as usize).copied().unwrap_or(Op::Am) {
            Op::Am if hdr.has(RepHdr::AM_REPLY) => self.run_reply(table, from, slot, hdr),
            Op::Am if hdr.status() == Status::EXECUTED => Ok(()),
            Op::Am => Err(self.refused(source, slot, hdr)),
            Op::Held if hdr.status() == Status::OK => {
                self.held = Some(slot);
                return Ok(false);
            }
            op => self.piece_is_done(source, slot, op, hdr),
        };
        if let Some(peer) = self.peers.get_mut(from) {
            peer.release(slot);
        }
        match result {
            Ok(()) => Ok(true),
            Err(why) => Err(self.breaks(why)),
        }
    }

    #[inline]
    fn run_reply(&mut self, table: &'static Handlers<S>, from: usize, slot: u32, hdr: RepHdr) -> Result<(), GasError> {
        let (source, window) = (RankId(from as u32), self.gas.window());
        let Some(peer) = self.peers.get(from) else { return Ok(()) };
        let (mut words, mut out) = ([0; INLINE_WORDS], [0; AmWord::MAX_ARGS]);
        peer.read_reply(slot, &mut words);
        let chunk = peer.to.reply(slot);
        let message = wire::unpack(&words, &mut out, window, chunk, self.medium);
        if let Some(message) = message
            && let Ok(at) = u8::try_from(hdr.status().0)
            && takes(table, at, message.category, true)
            && let Some(Run::Reply(run)) = table.run.get(usize::from(at))
        {
            let payload = payload(&message, window, chunk, &mut self.scratch);
            run(&mut self.state, Msg { source, world: &self.world, args: message.args, payload });
            return Ok(());
        }
        Err(GasError::Corrupt(source.0))
    }

    #[cold]
    fn refused(&self, source: RankId, slot: u32, hdr: RepHdr) -> GasError {
        let at = self.peers.get(source.0 as usize).map_or(0, |peer| {
            let slots = peer.requester.slots();
            ReqHdr(slot.checked_sub(1).map_or_else(|| slots.hot().req_hdr(), |i| slots.ring(i).req_hdr())).key().0
        });
        GasError::Refused { rank: source.0, at: at as u8, status: hdr.status() }
    }
}

/// Has this index a handler for such a message?
fn takes<S>(table: &Handlers<S>, at: u8, category: Category, is_reply: bool) -> bool {
    table.info.get(usize::from(at)).is_some_and(|info| info.is_reply() == is_reply && Kinds(info.kinds).has(category))
}

#[inline(always)]
fn payload<'m>(message: &wire::Unpacked<'m>, window: &'m Window<()>, chunk: u64, scratch: &'m mut [u8]) -> Payload<'m> {
    match (message.category, message.data) {
        (Category::Medium, None) => {
            Payload::Chunk { window, at: chunk + u64::from(ARGS_BYTES), len: message.len, scratch }
        }
        (Category::Long, _) => Payload::Landed(SegRange { off: message.dest, len: message.len as u64 }),
        (Category::Medium, Some(data)) => Payload::Private(data),
        (Category::Short, _) => Payload::None,
    }
}

#[inline(always)]
pub(crate) fn run_request<S>(table: &Handlers<S>, at: u8, state: &mut S, msg: Msg<'_>, token: Token<'_>) {
    if let Some(Run::Request(run)) = table.run.get(usize::from(at)) {
        run(state, msg, token);
    }
}

/// Runs the handler of a rank's reply to itself, whose chunk is `scratch`.
pub(crate) fn own_reply<S>(
    table: &Handlers<S>,
    reply: &Reply,
    state: &mut S,
    world: &WorldRef<'_>,
    me: RankId,
    scratch: &[u8],
) -> Option<()> {
    let (front, behind) = scratch.split_at_checked(ARGS_BYTES as usize)?;
    let mut out = [0; AmWord::MAX_ARGS];
    let message = wire::unpack_own(&reply.words, &mut out, front)?;
    let payload = match (message.category, message.data) {
        (Category::Medium, None) => Payload::Private(behind.get(..message.len)?),
        (Category::Long, _) => Payload::Landed(SegRange { off: message.dest, len: message.len as u64 }),
        (Category::Medium, Some(data)) => Payload::Private(data),
        (Category::Short, _) => Payload::None,
    };
    let Some(Run::Reply(run)) = table.run.get(usize::from(reply.hdr.status().0)) else { return None };
    run(state, Msg { source: me, world, args: message.args, payload });
    Some(())
}
