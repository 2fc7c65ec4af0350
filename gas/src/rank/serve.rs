//! Polling: requests of others, and replies to this rank's own.

use super::pieces::{self, Op};
use super::{NO_RANK, Peer, Rank};
use crate::handlers::{Handlers, ReplyFn, RequestFn, Run};
use crate::kinds::Kinds;
use crate::message::{Asked, Msg, Payload, Replies, ReplyChunk, SegRange, Token, Unsent};
use crate::thread::pause;
use crate::{GasError, wire};
use core::hint::black_box;
use hamr_comm::abi::slot::{RepHdr, ReqHdr};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{SlotAccess, Slots, Window};
use hamr_comm::abi::world::{ARGS_BYTES, AmWord, Category};
use hamr_comm::am::{Found, patience};
use hamr_comm::world::{RankId, WorldRef};

/// Requests of a rank in one round.
const BATCH: u32 = 16;
/// Polls in a row that look at the rank of the last message first, and at others only if it has none.
const BUDGET: u32 = 64;
/// Vain polls before the fence behind what was published: an answer comes sooner than that, from a rank
/// that does not sleep.
const FENCE: u32 = 16;
/// Polls without a message, with a pause behind each, before others may want the processor.
const PAUSES: u32 = 16;
/// And before the task suspends.
const SPINS: u32 = 256;
/// Polls between two turns of the serve loop, when messages come all the time.
const POLLS: u32 = 4096;
/// Vain polls of a program between two turns of the serve loop.
const VAIN: u32 = 64;
/// Microseconds of a wait. A rank that published something and went on to compute has no fence behind
/// it: this long a message of it can lie at a rank that went to sleep at that very moment.
const LONGEST_WAIT_US: u32 = 20_000;

/// Was a reply taken?
enum Taken {
    Yes,
    /// A call waits for it, which takes it itself.
    Held,
    /// Nothing works any more.
    Not,
}

/// What of a rank handlers have, beside its peers, of which one is lent meanwhile: found once a message.
struct Parts<'r, S> {
    source: RankId,
    state: &'r mut S,
    world: &'r WorldRef<'r>,
    replies: &'r mut Replies,
    scratch: &'r mut [u8],
}

macro_rules! parts {
    ($rank:expr, $from:expr) => {
        Parts {
            source: RankId($from as u32),
            state: &mut $rank.state,
            world: &$rank.world,
            replies: &mut $rank.replies,
            scratch: &mut $rank.scratch,
        }
    };
}

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

    /// Of two ranks: there is nothing of the other one, and nothing else to do. For interfaces in other languages, whose polls
    /// in vain are short by it; behind true no [`Self::poll`] is needed.
    #[doc(hidden)]
    #[inline]
    pub fn is_quiet(&mut self) -> bool {
        let idle = self.idle.wrapping_add(1);
        let is_due = self.budget <= 1 || idle.is_multiple_of(VAIN) || self.last_owed != NO_RANK && idle > FENCE;
        if !self.is_pair || is_due || self.table.is_none() {
            return false;
        }
        let Some(peer) = self.peers.get(self.last).filter(|peer| !peer.has_news()) else { return false };
        if peer.reads_chunk {
            let _ = black_box(self.gas.window().load::<u32>(peer.from.request(0)));
        }
        self.budget -= 1;
        self.idle = idle;
        true
    }

    /// One look at all ranks.
    pub(crate) fn poll_once(&mut self) -> Result<u32, GasError> {
        let table = self.attached()?;
        let mut found = 0;
        let mut looked = usize::MAX;
        if self.budget != 0 {
            // Who sent the last message sends the next one soon.
            self.budget -= 1;
            looked = self.last;
            found = self.poll_lanes(table, looked)?;
        }
        if found == 0 {
            self.polls += 1 + BUDGET - self.budget;
            self.budget = BUDGET;
            if self.polls >= POLLS {
                self.turn()?;
            }
            // Of two ranks there is no other one.
            if !self.is_pair || looked == usize::MAX {
                found = self.poll_others(table, looked)?;
            }
        }
        if found != 0 {
            self.idle = 0;
        } else if self.last_owed != NO_RANK && self.idle >= FENCE {
            self.notify_owed();
        }
        Ok(found)
    }

    /// A look at all ranks but one.
    #[inline(never)]
    fn poll_others(&mut self, table: &'static Handlers<S>, looked: usize) -> Result<u32, GasError> {
        if self.senders.is_some() {
            return self.poll_senders(table);
        }
        let (me, mut found) = (self.me().0 as usize, 0);
        for rank in 0..self.peers.len() {
            // A rank's messages to itself are in no lane.
            if rank != looked && rank != me {
                found += self.poll_lanes(table, rank)?;
            }
        }
        Ok(found)
    }

    /// A look at one rank.
    #[inline(always)]
    fn poll_lanes(&mut self, table: &'static Handlers<S>, rank: usize) -> Result<u32, GasError> {
        let Some(mut peer) = self.peers.get_mut(rank) else { return Ok(0) };
        let mut found = 0;
        let mut next = peer.responder.next(true);
        if next.is_some() {
            self.last = rank;
            while let Some(message) = next.take() {
                match serve(table, peer, message, &mut found, &mut parts!(self, rank)) {
                    Served::All => {}
                    Served::Other(message, hdr) => {
                        self.serve_other(rank, message, hdr);
                        found += 1;
                        match self.peers.get_mut(rank) {
                            Some(again) => peer = again,
                            None => break,
                        }
                        if found < BATCH {
                            next = peer.responder.next(message.slot != 0);
                        }
                    }
                    Served::Unsent(at, why) => {
                        self.published(RankId(rank as u32));
                        return Err(self.breaks(GasError::Reply { to: rank as u32, at, why: why.text() }));
                    }
                }
            }
            self.published(RankId(rank as u32));
            match self.peers.get_mut(rank) {
                Some(again) => peer = again,
                None => return Ok(found),
            }
        }
        while let Some((slot, hdr)) = peer.reply() {
            found += 1;
            self.last = rank;
            let is_done = match peer.op(slot) {
                Some(Op::Am) if let Some(at) = wire::reply_handler(hdr) => {
                    run_reply(table, at, peer, slot, parts!(self, rank)).is_some()
                }
                Some(Op::Am) => hdr.status() == Status::EXECUTED,
                _ => false,
            };
            if !is_done {
                match self.take_other(rank, slot, hdr) {
                    Taken::Yes => {}
                    Taken::Held => break,
                    Taken::Not => return self.attached().map(|_| found),
                }
                match self.peers.get_mut(rank) {
                    Some(again) => peer = again,
                    None => break,
                }
            }
            peer.release(slot);
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
    // Apart from what sends, whose registers it would take.
    #[cold]
    #[inline(never)]
    pub(crate) fn rest(&mut self) -> Result<(), GasError> {
        self.rest_for(|_| false)
    }

    /// The same for something beside messages.
    pub(crate) fn rest_for(&mut self, has_more: impl Fn(&Self) -> bool) -> Result<(), GasError> {
        self.idle += 1;
        if self.idle < PAUSES {
            core::hint::spin_loop();
            return Ok(());
        }
        if self.idle < SPINS && !patience::must_sleep() {
            patience::rest();
            return Ok(());
        }
        if self.owner != 0 {
            return self.rest_shared();
        }
        // Still idle when it ends by its time.
        self.idle = SPINS;
        self.polls = 0;
        let this = &*self;
        let is_there = || has_more(this) || this.barrier.has_news() || this.has_news();
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
        self.last_owed = NO_RANK;
        while let Some(rank) = self.owed.next(0) {
            self.owed.remove(rank);
            self.gas.notify(rank);
        }
    }

    /// Nothing works any more.
    #[cold]
    pub(crate) fn breaks(&mut self, why: GasError) -> GasError {
        (self.broken, self.table) = (Some(why.clone()), None);
        why
    }

    /// Serves a request that is no active message: a piece of a transfer, or it breaks the rules.
    #[inline(never)]
    fn serve_other(&mut self, from: usize, found: Found, hdr: ReqHdr) {
        let Some(peer) = self.peers.get(from) else { return };
        let slot = peer.responder.slot(found.slot);
        let mut words = slot.request_words();
        let reply = if hdr.is_plain() && hdr.key().module() == 2 {
            let chunks = (peer.from.request(found.slot), peer.from.reply(found.slot));
            let reply = pieces::serve(hdr, &mut words, &self.world, self.gas.window(), chunks, &mut self.scratch);
            slot.write_reply(wire::used(&words, reply.len()));
            reply
        } else {
            RepHdr::inline(if hdr.is_plain() { Status::NO_HANDLER } else { Status::BAD_REQUEST }, 0)
        };
        slot.publish_reply(reply.0, found.seq);
    }

    /// Takes a reply of a rank that no handler runs for, or that breaks the rules.
    #[inline(never)]
    fn take_other(&mut self, from: usize, slot: u32, hdr: RepHdr) -> Taken {
        let Some(peer) = self.peers.get(from) else { return Taken::Not };
        let source = RankId(from as u32);
        let result = match peer.op(slot) {
            Some(Op::Am) if hdr.has(RepHdr::AM_REPLY) => Err(GasError::Corrupt(source.0)),
            Some(Op::Held) if hdr.status() == Status::OK => {
                self.held = Some(slot);
                return Taken::Held;
            }
            Some(Op::Am) | None => Err(self.refused(source, slot, hdr)),
            Some(op) => self.piece_is_done(source, slot, op, hdr),
        };
        match result {
            Ok(()) => Taken::Yes,
            Err(why) => {
                self.breaks(why);
                Taken::Not
            }
        }
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

/// How a run of requests ended.
enum Served {
    /// No more are there, or others have their turn.
    All,
    /// The next is no active message.
    Other(Found, ReqHdr),
    /// The last one's reply could not be made: its handler, and why.
    Unsent(u8, Unsent),
}

/// Serves active messages of a rank, from one that was found on, and counts them.
#[inline(always)]
fn serve<S>(
    table: &'static Handlers<S>,
    peer: &mut Peer,
    mut found: Found,
    count: &mut u32,
    parts: &mut Parts<'_, S>,
) -> Served {
    loop {
        let hdr = ReqHdr(peer.responder.slot(found.slot).req_hdr());
        let Some(at) = wire::handler(hdr) else { return Served::Other(found, hdr) };
        serve_message(table, at, peer, found, parts);
        *count += 1;
        if let Some((at, why)) = parts.replies.error {
            return Served::Unsent(at, why);
        }
        if *count == BATCH {
            return Served::All;
        }
        // Other work comes before the hot slot once more (rule 8).
        match peer.responder.next(found.slot != 0) {
            Some(next) => found = next,
            None => return Served::All,
        }
    }
}

/// Serves an active message.
#[inline(always)]
fn serve_message<S>(table: &'static Handlers<S>, at: u8, peer: &mut Peer, found: Found, parts: &mut Parts<'_, S>) {
    let Parts { source, world, .. } = *parts;
    let Peer { responder, from, reads_chunk, .. } = peer;
    let slot = responder.slot(found.slot);
    let words = slot.request_words();
    let (state, scratch, replies) = (&mut *parts.state, &mut *parts.scratch, &mut *parts.replies);
    replies.begin();
    let (window, medium, chunk) = (replies.window, replies.medium, ReplyChunk::Lane(from, found.slot));
    if let Some(args) = wire::short_args(&words) {
        match request_handler(table, at, Category::Short) {
            Some(run) => {
                let mut asked = Asked { to: source, world, chunk, replies };
                run(state, Msg { source, world, args, payload: Payload::None }, Token(&mut asked));
            }
            None => replies.hdr = RepHdr::inline(Status::NO_HANDLER, 0),
        }
    } else {
        let (mut out, request) = (None, from.request(found.slot));
        *reads_chunk |= found.slot == 0 && AmWord(words[0] as u32).args_are_out();
        match wire::unpack(&words, &mut out, window, request, medium) {
            Some(message) => match request_handler(table, at, message.category) {
                Some(run) => {
                    let payload = payload(&message, window, request, scratch);
                    let mut asked = Asked { to: source, world, chunk, replies };
                    run(state, Msg { source, world, args: message.args, payload }, Token(&mut asked));
                }
                None => replies.hdr = RepHdr::inline(Status::NO_HANDLER, 0),
            },
            None => replies.hdr = RepHdr::inline(Status::BAD_REQUEST, 0),
        }
    }
    let replies = &*parts.replies;
    match replies.hdr.len() {
        // Most: one store.
        ..=8 => slot.write_reply(&[replies.words[0]]),
        len => slot.write_reply(wire::used(&replies.words, len)),
    }
    slot.publish_reply(replies.hdr.0, found.seq);
}

/// Runs the handler of a reply. `None`: it breaks the rules.
#[inline(always)]
fn run_reply<S>(table: &'static Handlers<S>, at: u8, peer: &Peer, slot: u32, parts: Parts<'_, S>) -> Option<()> {
    let Parts { source, state, world, replies, scratch } = parts;
    let words = peer.reply_words(slot);
    if let Some(args) = wire::short_args(&words) {
        let run = reply_handler(table, at, Category::Short)?;
        run(state, Msg { source, world, args, payload: Payload::None });
        return Some(());
    }
    let (mut out, chunk) = (None, peer.to.reply(slot));
    let window = replies.window;
    let message = wire::unpack(&words, &mut out, window, chunk, replies.medium)?;
    let run = reply_handler(table, at, message.category)?;
    let payload = payload(&message, window, chunk, scratch);
    run(state, Msg { source, world, args: message.args, payload });
    Some(())
}

/// The handler of an index for such a request.
#[inline(always)]
fn request_handler<S>(table: &'static Handlers<S>, at: u8, category: Category) -> Option<RequestFn<S>> {
    match table.run.get(usize::from(at)) {
        Some(Run::Request(kinds, run)) if Kinds(*kinds).has(category) => Some(*run),
        _ => None,
    }
}

/// The handler of an index for such a reply.
#[inline(always)]
fn reply_handler<S>(table: &'static Handlers<S>, at: u8, category: Category) -> Option<ReplyFn<S>> {
    match table.run.get(usize::from(at)) {
        Some(Run::Reply(kinds, run)) if Kinds(*kinds).has(category) => Some(*run),
        _ => None,
    }
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

/// Runs the handler of a rank's reply to itself, whose chunk is `scratch`.
pub(crate) fn own_reply<S>(
    table: &Handlers<S>,
    reply: &Replies,
    state: &mut S,
    world: &WorldRef<'_>,
    me: RankId,
    scratch: &[u8],
) -> Option<()> {
    let (front, behind) = scratch.split_at_checked(ARGS_BYTES as usize)?;
    let mut out = None;
    let message = wire::unpack_own(&reply.words, &mut out, front)?;
    let payload = match (message.category, message.data) {
        (Category::Medium, None) => Payload::Private(behind.get(..message.len)?),
        (Category::Long, _) => Payload::Landed(SegRange { off: message.dest, len: message.len as u64 }),
        (Category::Medium, Some(data)) => Payload::Private(data),
        (Category::Short, _) => Payload::None,
    };
    let Some(Run::Reply(_, run)) = table.run.get(usize::from(reply.hdr.status().0)) else { return None };
    run(state, Msg { source: me, world, args: message.args, payload });
    Some(())
}
