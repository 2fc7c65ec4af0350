//! How two nodes meet: the one way in which programs use the world (`docs/xacc.md` "Meetings").
//!
//! Each collective is a meeting of pairs of nodes. A node tells its partner which collective it is in,
//! with some bytes of data: it writes a slot in the partner's segment, the number of the meeting last, and
//! then steps a signal. The partner waits for the number, and if it does not come soon, for the signal, and
//! compares the collective with its own before it uses anything. Number, collective and a short value are
//! one line of memory, which has to come from the partner alone.
//! Both of a pair tell each other in every meeting, so neither is more than one meeting ahead, and two
//! slots in turn are enough.

use crate::dist::{MOST_RANKS, NodeSet};
use crate::posts::Posts;
use crate::what::{self, COMPARED, Compared, PLACE, What};
use bytemuck::{must_cast_mut, must_cast_ref};
use core::cell::Cell;
use core::sync::atomic::{Ordering, fence};
use hamr_comm::world::{Memory, RankId, WorldRef, has_come};
use hamr_comm::{Fault, Task};

/// Bytes of the data in a slot at most, and of a slot: whole lines.
pub(crate) const DATA: usize = 200;
const SLOT: usize = (AT_PLACE as usize + PLACE).next_multiple_of(64);
/// Where in a slot the parts are: the number first, and last what a mismatch alone reads.
const AT_COMPARED: u64 = 8;
const AT_DATA: u64 = AT_COMPARED + COMPARED as u64;
const AT_PLACE: u64 = AT_DATA + DATA as u64;
/// Signal words: the number of the meeting in which a node is, and of the last one in which it has put
/// all that it has for its partner. Others are of [`Posts`].
const TOLD: u32 = 0;
const ARRIVED: u32 = 1;

/// Exchanges at most that a program has begun and not finished.
const MOST_OPEN: usize = 8;

/// The exchanges that are not finished, the transfers of coarrays that are not complete, and who was told
/// something.
pub(crate) struct Opens {
    exchanges: [Open; MOST_OPEN],
    transfers: Transfers,
    /// Nodes that were told something, and that were not notified of it behind a fence.
    told: Cell<NodeSet>,
}

/// One of them, or none.
struct Open {
    /// Where its array is in the segment, and what it is.
    of: Cell<Option<(u64, What)>>,
    /// Who puts here.
    sources: Cell<NodeSet>,
    /// The numbers of the meetings with these, by rank.
    meetings: [Cell<u32>; MOST_RANKS],
}

/// Refers to one of them.
pub(crate) struct Begun(u8);

/// What a wait completes.
struct Transfers {
    /// The block that this node is in, whose transfers a wait completes.
    nonblock: Cell<Option<What>>,
    /// That of the first transfer which is not complete.
    begun: Cell<Option<What>>,
    /// Waits so far.
    waits: Cell<u32>,
}

impl Opens {
    pub(crate) const fn new() -> Self {
        Self {
            exchanges: [const {
                Open {
                    of: Cell::new(None),
                    sources: Cell::new(NodeSet::EMPTY),
                    meetings: [const { Cell::new(0) }; MOST_RANKS],
                }
            }; MOST_OPEN],
            transfers: Transfers { nonblock: Cell::new(None), begun: Cell::new(None), waits: Cell::new(0) },
            told: Cell::new(NodeSet::EMPTY),
        }
    }
}

/// A program's connection with the other nodes.
#[derive(Clone, Copy)]
pub(crate) struct Fabric<'c> {
    task: &'c Task<'c>,
    world: WorldRef<'c>,
    opens: &'c Opens,
    posts: Posts<'c>,
    pub(crate) me: u32,
    pub(crate) size: u32,
}

impl<'c> Fabric<'c> {
    /// Of a program that begins, whose memory this takes a part of.
    pub(crate) fn new(task: &'c Task<'c>, opens: &'c Opens, memory: &mut Memory<'c>) -> Result<Self, Fault> {
        let world = task.world().ok_or_else(no_rank)?;
        if world.size() as usize > MOST_RANKS {
            return Err(Fault::msg("programs over arrays run on worlds of at most 64 ranks"));
        }
        let posts = Posts::new(&world, memory)?;
        Ok(Self { task, world, opens, posts, me: world.me().0, size: world.size() })
    }

    /// Bytes at the front of a segment that are for slots.
    pub(crate) fn head(task: &Task<'_>) -> Result<u64, Fault> {
        let size = task.world().ok_or_else(no_rank)?.size();
        Ok((u64::from(size) * 2 * SLOT as u64).next_multiple_of(4096))
    }

    /// Waits until `ready` returns true or fails, for something that one of these nodes does.
    #[track_caller]
    pub(crate) fn wait_until(&self, of: NodeSet, mut ready: impl FnMut() -> Result<bool, Fault>) -> Result<(), Fault> {
        let mut failed = Ok(());
        let first = of.ranks().next().unwrap_or(self.me);
        let last = of.ranks().last().unwrap_or(self.me);
        self.task.wait_until_ranks((RankId(first), RankId(last)), || {
            ready().unwrap_or_else(|fault| {
                failed = Err(fault);
                true
            })
        })?;
        failed
    }

    /// [`Self::wait_until`] for what a rank stores in a signal word: the wait names the rank, which wakes this one.
    #[track_caller]
    pub(crate) fn wait_for(&self, from: u32, word: u32, ready: impl Fn() -> Result<bool, Fault>) -> Result<(), Fault> {
        let failed = Cell::new(None);
        self.task.wait_signal(RankId(from), word, |_| {
            ready().unwrap_or_else(|fault| {
                failed.set(Some(fault));
                true
            })
        })?;
        failed.into_inner().map_or(Ok(()), Err)
    }

    pub(crate) fn task(&self) -> &'c Task<'c> {
        self.task
    }

    pub(crate) fn posts(&self) -> Posts<'c> {
        self.posts
    }

    pub(crate) fn world(&self) -> &WorldRef<'c> {
        &self.world
    }

    pub(crate) fn micros(&self) -> u64 {
        self.task.micros()
    }

    /// Begins a meeting: tells a partner what this node is in. [`Self::hear`] follows, behind what others are told.
    pub(crate) fn tell(&self, to: u32, what: &What, data: &[u8]) -> Result<(), Fault> {
        if data.len() > DATA {
            return Err(too_long());
        }
        let (world, to) = (&self.world, RankId(to));
        let count = world.meet(to)?;
        let slot = slot_of(self.me, count);
        world.put(to, slot + AT_PLACE, &what.place())?;
        world.put(to, slot + AT_COMPARED, must_cast_ref::<_, [u8; COMPARED]>(&what.compared()))?;
        if !data.is_empty() {
            world.put(to, slot + AT_DATA, data)?;
        }
        #[cfg(target_has_atomic = "64")]
        {
            // X1: the rest of the slot is there before its number, of which X2 is the other end.
            fence(Ordering::Release);
            world.put_value(to, slot, number(world.run(), count))?;
        }
        let told = &self.opens.told;
        told.set(told.get().with(NodeSet::one(to.0)));
        Ok(world.signal_relaxed(to, TOLD, count)?)
    }

    /// Notifies the nodes that were told something, and went to sleep at that moment. Told nodes most often answer
    /// sooner than a fence would end behind the stores that tell them.
    fn notify_told(&self) {
        for rank in self.opens.told.replace(NodeSet::EMPTY).ranks() {
            self.world.notify(RankId(rank));
        }
    }

    /// Waits until the partner is in the same meeting, and reads its data.
    ///
    /// # Errors
    /// The partner is in another collective; the wait was interrupted.
    #[track_caller]
    pub(crate) fn hear(&self, from: u32, what: &What, data: &mut [u8]) -> Result<(), Fault> {
        let (me, world) = (RankId(self.me), &self.world);
        let count = world.met(RankId(from));
        let slot = slot_of(from, count);
        // Without numbers of 64 bits that are stored as one, the signal alone says it.
        #[cfg(not(target_has_atomic = "64"))]
        let soon = false;
        #[cfg(target_has_atomic = "64")]
        let soon = world.comes_soon(slot, number(world.run(), count))?;
        self.notify_told();
        if soon {
            // X2, of which X1 is the other end.
            fence(Ordering::Acquire);
        } else {
            self.task.wait_signal(RankId(from), TOLD, |told| has_come(told, count))?;
        }
        let mut compared = [0; 5];
        world.get(me, slot + AT_COMPARED, must_cast_mut::<_, [u8; COMPARED]>(&mut compared))?;
        if compared != what.compared() {
            return Err(self.mismatch(what, from, &compared, slot));
        }
        if data.is_empty() { Ok(()) } else { Ok(world.get(me, slot + AT_DATA, data)?) }
    }

    /// The partner is in another collective than this node.
    #[cold]
    fn mismatch(&self, what: &What, from: u32, compared: &Compared, slot: u64) -> Fault {
        let mut place = [0; PLACE];
        match self.world.get(RankId(self.me), slot + AT_PLACE, &mut place) {
            Ok(()) => mismatch((self.me, what), (from, &What::read(compared, &place))),
            Err(why) => why.into(),
        }
    }

    /// Ends a meeting in which this node has put something into a partner's segment.
    pub(crate) fn arrive(&self, to: u32) -> Result<(), Fault> {
        Ok(self.world.signal(RankId(to), ARRIVED, self.world.met(RankId(to)))?)
    }

    /// Waits until all is there that a partner has put in a meeting.
    #[track_caller]
    pub(crate) fn arrived(&self, from: u32, meeting: u32) -> Result<(), Fault> {
        self.task.wait_signal(RankId(from), ARRIVED, |met| has_come(met, meeting))?;
        Ok(())
    }

    /// The number of the last meeting with a partner.
    pub(crate) fn meeting(&self, with: u32) -> Result<u32, Fault> {
        Ok(self.world.met(RankId(with)))
    }

    /// Is there room for an exchange that a later call finishes?
    ///
    /// # Errors
    /// Too many are not finished.
    pub(crate) fn has_room(&self) -> Result<(), Fault> {
        let is_free = |open: &Open| open.of.get().is_none();
        self.opens.exchanges.iter().any(is_free).then_some(()).ok_or_else(too_many)
    }

    /// Notes an exchange that a later call finishes.
    pub(crate) fn open(&self, of: u64, what: What, sources: NodeSet) -> Result<Begun, Fault> {
        let exchanges = &self.opens.exchanges;
        let free = exchanges.iter().position(|open| open.of.get().is_none());
        let (number, open) = free.and_then(|number| Some((number, exchanges.get(number)?))).ok_or_else(too_many)?;
        for rank in self.others(sources) {
            open.meetings.get(rank as usize).ok_or_else(too_many)?.set(self.meeting(rank)?);
        }
        open.sources.set(sources);
        open.of.set(Some((of, what)));
        Ok(Begun(number as u8))
    }

    /// Waits until all of it is there.
    #[track_caller]
    pub(crate) fn close(&self, begun: &Begun) -> Result<(), Fault> {
        let Some(open) = self.opens.exchanges.get(begun.0 as usize) else { return Ok(()) };
        for rank in self.others(open.sources.get()) {
            self.arrived(rank, open.meetings.get(rank as usize).map_or(0, Cell::get))?;
        }
        open.of.set(None);
        Ok(())
    }

    /// Exchanges of arrays from byte `from` of the segment on are finished, and transfers are complete.
    ///
    /// # Errors
    /// The first that is not.
    pub(crate) fn all_closed(&self, from: u64) -> Result<(), Fault> {
        match self.opens.exchanges.iter().find_map(|open| open.of.get().filter(|(of, _)| *of >= from)) {
            None => self.all_complete(),
            Some((_, what)) => Err(what::not_finished(&what)),
        }
    }

    /// Enters a block whose transfers a wait completes, or leaves it; the one before.
    pub(crate) fn nonblock(&self, block: Option<What>) -> Option<What> {
        self.opens.transfers.nonblock.replace(block)
    }

    /// A transfer begins: the wait that completes it; `None`: it is complete when its call returns.
    pub(crate) fn begin_transfer(&self) -> Option<u32> {
        let Transfers { nonblock, begun, waits } = &self.opens.transfers;
        let block = nonblock.get()?;
        begun.set(begun.get().or(Some(block)));
        Some(waits.get().wrapping_add(1))
    }

    /// Completes all transfers. Each is a copy that this node has made, so there is nothing to wait for.
    pub(crate) fn complete(&self) {
        let Transfers { begun, waits, .. } = &self.opens.transfers;
        if begun.take().is_some() {
            waits.set(waits.get().wrapping_add(1));
        }
    }

    /// That of this wait is complete, or there was none.
    pub(crate) fn is_complete(&self, wait: Option<u32>) -> bool {
        wait.is_none_or(|wait| is_at_least(self.opens.transfers.waits.get(), wait))
    }

    /// All transfers are complete.
    ///
    /// # Errors
    /// The block of the first that is not.
    pub(crate) fn all_complete(&self) -> Result<(), Fault> {
        self.opens.transfers.begun.get().map_or(Ok(()), |block| Err(what::not_finished(&block)))
    }

    /// The members of a set but this node, from the one behind it on.
    pub(crate) fn others(&self, set: NodeSet) -> impl Iterator<Item = u32> {
        let me = self.me;
        let behind = set.ranks().filter(move |rank| *rank > me);
        behind.chain(set.ranks().take_while(move |rank| *rank < me))
    }
}

/// Each node of the set sends the same data to all others; `take` gets that of every node, its own
/// included, in their order. Of the others `len` bytes are read, which may be more than they have sent.
#[track_caller]
pub(crate) fn all_to_all(
    fabric: Fabric<'_>,
    set: NodeSet,
    what: &What,
    (mine, len): (&[u8], usize),
    mut take: impl FnMut(u32, &[u8]),
) -> Result<(), Fault> {
    for to in fabric.others(set) {
        fabric.tell(to, what, mine)?;
    }
    let mut theirs = [0; DATA];
    let theirs = theirs.get_mut(..len).unwrap_or_default();
    for from in set.ranks() {
        if from == fabric.me {
            take(from, mine);
        } else {
            fabric.hear(from, what, theirs)?;
            take(from, theirs);
        }
    }
    Ok(())
}

/// Where in every segment rank `from` writes for the one whose it is: a multiple of a line.
fn slot_of(from: u32, meeting: u32) -> u64 {
    (u64::from(from) * 2 + u64::from(meeting & 1)) * SLOT as u64
}

/// What a slot begins with: the meeting, of which run of the words of signals. Slots are not cleared when these
/// start over, and others may have written there: the constant is what they hardly write.
#[cfg(target_has_atomic = "64")]
fn number(run: u32, meeting: u32) -> u64 {
    u64::from(run ^ 0x5EED_ACC5) << 32 | u64::from(meeting)
}

fn is_at_least(count: u32, meeting: u32) -> bool {
    count.wrapping_sub(meeting) as i32 >= 0
}

fn too_many() -> Fault {
    Fault::msg("too many exchanges are not finished")
}

fn no_rank() -> Fault {
    Fault::msg("this device is no rank")
}

fn too_long() -> Fault {
    Fault::msg("a value is too long for a collective")
}

/// The same text on both sides: the lower rank first.
#[cold]
fn mismatch(mine: (u32, &What), theirs: (u32, &What)) -> Fault {
    let (first, second) = if mine.0 < theirs.0 { (mine, theirs) } else { (theirs, mine) };
    what::mismatch(first, second)
}
