//! A rank as its program has it.

mod am;
mod attach;
mod barrier;
mod event;
mod lists;
mod pieces;
mod prepared;
mod rma;
mod serve;

pub use barrier::BarrierName;
pub use event::{Event, Leaf, Which};
pub use lists::Pieces;
pub use prepared::{Prepared, PreparedReply};

use crate::GasError;
use crate::handlers::Handlers;
use crate::message::Replies;
use crate::thread::this_thread;
use crate::wire::Chunks;
use barrier::Barrier;
use event::Events;
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::slot::{INLINE_WORDS, RepHdr, ReqHdr};
use hamr_comm::abi::window::{Queue, Slots};
use hamr_comm::abi::world::{ARGS_BYTES, GasLayout};
use hamr_comm::am::{Requester, Responder};
use hamr_comm::world::{GasWorld, MOST_RANKS, RankId, RankSet, WorldRef};
use hamr_comm::{Fault, Program, Task};
use pieces::Op;

/// Ranks that a program can reach. Images are small.
pub(crate) const MAX_RANKS: usize = if cfg!(hamr_bare) { 8 } else { MOST_RANKS };
/// A list in the order of the ranks.
#[cfg(hamr_bare)]
type Peers = heapless::Vec<Peer, MAX_RANKS>;
#[cfg(not(hamr_bare))]
type Peers = alloc::vec::Vec<Peer>;
/// The longest payload of a medium message that a rank takes, for which it has room on its stack.
pub(crate) const MAX_MEDIUM: usize = (if cfg!(hamr_bare) { 4 << 10 } else { 16 << 10 }) - ARGS_BYTES as usize;

/// Not a rank.
pub(crate) const NO_RANK: RankId = RankId(u32::MAX);

/// Requests in the ring of a lane at a time, at most. Images are small.
const WINDOW: u32 = if cfg!(hamr_bare) { 16 } else { GasLayout::MAX_RING };

/// What a rank has of another, and of itself.
pub(crate) struct Peer {
    pub(crate) requester: Requester<Queue<()>>,
    pub(crate) responder: Responder<Queue<()>>,
    /// A request in its hot slot had arguments in the chunk: a look for the next one also loads the chunk's first line, which then
    /// comes in the time of the slot's.
    pub(crate) reads_chunk: bool,
    /// What the request in each slot is: [`Self::op`].
    ops: [Op; 1 + WINDOW as usize],
    /// Where the chunks of requests to it begin, and of those from it.
    pub(crate) to: Chunks,
    pub(crate) from: Chunks,
}

impl Peer {
    /// The ends between this rank and another.
    pub(crate) fn open(gas: GasWorld, other: RankId) -> Option<Self> {
        let requester = Requester::new(gas.lane(other, gas.me())?, Epoch(1));
        let responder = Responder::new(gas.lane(gas.me(), other)?, Epoch(1));
        let to = Chunks::new(gas.layout(), other, gas.me())?;
        let from = Chunks::new(gas.layout(), gas.me(), other)?;
        Some(Self { requester, responder, reads_chunk: false, ops: [Op::Am; 1 + WINDOW as usize], to, from })
    }

    /// The slot of the next request. A lone one goes where the last one was, whose line both sides have;
    /// others go into the ring.
    #[inline(always)]
    pub(crate) fn room(&mut self) -> Option<u32> {
        if self.requester.oldest().is_none() && self.requester.hot_is_open() {
            return Some(0);
        }
        let mask = self.requester.slots().ring_len() - 1;
        let has_room = self.requester.ring_has_room();
        let has_op = WINDOW == GasLayout::MAX_RING || self.requester.in_ring() < u64::from(WINDOW);
        (has_room && has_op).then(|| 1 + (self.requester.next_position() as u32 & mask))
    }

    /// What the request in a slot is.
    #[inline(always)]
    pub(crate) fn op(&self, slot: u32) -> Option<Op> {
        self.ops.get(Self::op_at(slot)).copied()
    }

    #[inline(always)]
    const fn op_at(slot: u32) -> usize {
        if WINDOW == GasLayout::MAX_RING || slot == 0 { slot as usize } else { 1 + ((slot - 1) % WINDOW) as usize }
    }

    /// Publishes a request in a slot of [`Self::room`].
    #[inline(always)]
    pub(crate) fn submit(&mut self, slot: u32, op: Op, hdr: ReqHdr, words: &[u64]) {
        if let Some(place) = self.ops.get_mut(Self::op_at(slot)) {
            *place = op;
        }
        if slot == 0 {
            self.requester.submit_hot(hdr, words);
        } else {
            self.requester.submit_ring(hdr, words);
        }
    }

    /// The first reply that was not taken: its slot and header.
    #[inline(always)]
    pub(crate) fn reply(&self) -> Option<(u32, RepHdr)> {
        if self.requester.hot_is_busy()
            && let Some(hdr) = self.requester.hot_reply()
        {
            return Some((0, hdr));
        }
        let at = self.requester.oldest()?;
        let mask = self.requester.slots().ring_len() - 1;
        Some((1 + (at as u32 & mask), self.requester.ring_reply(at)?))
    }

    /// Is there a request of it, or a reply?
    #[inline(always)]
    pub(crate) fn has_news(&self) -> bool {
        self.responder.has_next() || self.reply().is_some()
    }

    /// A copy of the words of the reply in a slot.
    #[inline(always)]
    pub(crate) fn reply_words(&self, slot: u32) -> [u64; INLINE_WORDS] {
        let slots = self.requester.slots();
        slot.checked_sub(1).map_or_else(|| slots.hot(), |i| slots.ring(i)).reply_words()
    }

    /// The reply in a slot of [`Self::reply`] was taken.
    #[inline(always)]
    pub(crate) fn release(&mut self, slot: u32) {
        if slot == 0 {
            self.requester.release_hot();
        } else {
            self.requester.release_oldest();
        }
    }
}

/// The first parameter of a program that uses this interface. `S` is what its handlers have in common;
/// it begins as its default.
///
/// Messages are sent, and those of others served, in calls of the rank and nowhere else: a program that
/// computes for long lets others wait, unless it calls [`Self::poll`] in between.
pub struct Rank<'t, S: 'static> {
    pub(crate) task: &'t Task<'t>,
    pub(crate) world: WorldRef<'t>,
    pub(crate) gas: GasWorld,
    pub(crate) state: S,
    /// `None` before there is one, and where nothing works any more.
    pub(crate) table: Option<&'static Handlers<S>>,
    pub(crate) peers: Peers,
    pub(crate) replies: Replies,
    /// As long as a chunk.
    pub(crate) scratch: [u8; MAX_MEDIUM + ARGS_BYTES as usize],
    /// Why nothing works any more.
    pub(crate) broken: Option<GasError>,
    /// Where ranks announce what they publish in lanes: those whose lanes may have something. `None`: each
    /// is looked at.
    pub(crate) senders: Option<RankSet>,
    /// Ranks for which something was published, with no fence behind it.
    pub(crate) owed: RankSet,
    /// The last of them, which is not entered again; [`NO_RANK`]: there are none.
    pub(crate) last_owed: RankId,
    /// Polls in a row that found nothing; in all since the serve loop ran, up to the last that looked at all ranks.
    pub(crate) idle: u32,
    pub(crate) polls: u32,
    /// There are two ranks, whose lanes are not announced: `last` is the other one.
    pub(crate) is_pair: bool,
    /// The rank of the last message, above all before there was one, and how many more polls may look at it first.
    pub(crate) last: usize,
    pub(crate) budget: u32,
    pub(crate) barrier: Barrier,
    pub(crate) holds_interrupts: bool,
    pub(crate) events: Events,
    /// Transfers go over messages.
    pub(crate) over_messages: bool,
    /// The slot of a reply that a call waits for.
    pub(crate) held: Option<u32>,
    /// While threads share the rank: the number of the one that its task runs on; else 0.
    pub(crate) owner: usize,
}

impl<S: Default + 'static> Program for Rank<'static, S> {
    type This<'c> = Rank<'c, S>;
    fn enter<R>(task: &mut Task<'_>, f: impl FnOnce(&mut Rank<'_, S>) -> R) -> Result<R, Fault> {
        Ok(f(&mut Rank::new(task, S::default())?))
    }
}

impl<S> Rank<'_, S> {
    /// Runs `f` as the program of a rank, in a task: for programs, which begin with one.
    ///
    /// # Errors
    /// The error of `f`; the task is in no world.
    pub fn run<R>(
        task: &mut Task<'_>,
        state: S,
        f: impl FnOnce(&mut Rank<'_, S>) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        f(&mut Rank::new(task, state)?)
    }
}

impl<'t, S> Rank<'t, S> {
    fn new(task: &'t Task<'t>, state: S) -> Result<Self, GasError> {
        let gas = task.gas_world().ok_or(GasError::NoWorld)?;
        Ok(Self {
            task,
            world: gas.world(task),
            gas,
            state,
            table: None,
            peers: Peers::new(),
            replies: Replies::new(gas.window()),
            scratch: [0; MAX_MEDIUM + ARGS_BYTES as usize],
            broken: None,
            senders: gas.are_announced().then_some(RankSet::EMPTY),
            owed: RankSet::EMPTY,
            last_owed: NO_RANK,
            idle: 0,
            polls: 0,
            is_pair: false,
            last: usize::MAX,
            budget: 0,
            barrier: Barrier::new(),
            holds_interrupts: false,
            events: Events::new(),
            over_messages: false,
            held: None,
            owner: 0,
        })
    }

    /// This rank (`gex_System_QueryJobRank`).
    pub fn me(&self) -> RankId {
        self.gas.me()
    }

    /// Ranks of the job (`gex_System_QueryJobSize`).
    pub fn size(&self) -> u32 {
        self.gas.size()
    }

    /// What handlers have in common.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// The same, to change it between two calls.
    pub fn state_mut(&mut self) -> &mut S {
        &mut self.state
    }

    /// The task: its waits, calls of any handler of a rank or of the host. Messages are not served
    /// meanwhile.
    ///
    /// # Panics
    /// Threads share the rank, and this is not the one that the task runs on.
    pub fn task(&self) -> &Task<'t> {
        assert!(self.is_owner(), "hamr: the task of a rank is used by another thread than its own");
        self.task
    }

    /// Is this the thread that the task runs on?
    pub(crate) fn is_owner(&self) -> bool {
        self.owner == 0 || self.owner == this_thread()
    }

    /// From now on calls come from several threads, one at a time: a wait of this rank keeps its task
    /// running, and yields the processor. For interfaces in other languages; programs have
    /// [`Self::share`].
    #[doc(hidden)]
    pub fn comes_from_threads(&mut self) {
        assert!(self.owner == 0, "hamr: the rank is shared already");
        self.owner = this_thread();
    }

    /// Bytes of a rank's segment.
    pub fn segment_len(&self, of: RankId) -> Result<u64, GasError> {
        self.gas.segment_len(of).ok_or(GasError::NoRank(of.0))
    }

    /// The longest payload of a medium message, the same for all ranks; 0 before [`Self::attach`].
    pub fn max_medium(&self) -> usize {
        self.replies.medium
    }

    /// The longest payload of a long message to a rank.
    pub fn max_long(&self, to: RankId) -> Result<u64, GasError> {
        Ok(self.segment_len(to)?.min(i32::MAX as u64))
    }

    /// Ends the job with an exit code (`gex_Exit`): this rank at once, the others whatever they do.
    pub fn exit(&self, code: u8) -> ! {
        self.gas.exit(code)
    }

    /// The table, if messages can be sent.
    #[inline(always)]
    pub(crate) fn attached(&self) -> Result<&'static Handlers<S>, GasError> {
        self.table.ok_or_else(|| self.unattached())
    }

    #[cold]
    #[inline(never)]
    fn unattached(&self) -> GasError {
        self.broken.clone().unwrap_or(GasError::NotAttached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_takes_as_much_memory_as_the_documentation_says() {
        assert!(size_of::<Peer>() <= 320 + (1 + WINDOW as usize) * 24, "{}", size_of::<Peer>());
    }
}
