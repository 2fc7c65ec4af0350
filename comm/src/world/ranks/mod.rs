//! Ranks that call each other, in images with tasks: where each finds the others' handlers, what is published in lanes and who
//! is told, claims of segments, GAS, and what a lost rank means for those that wait.

pub(crate) mod claim;
mod gas;
mod handlers;
mod meetings;
mod peers;
mod piece;

pub use claim::SegmentClaim;
pub use gas::GasWorld;
pub(crate) use handlers::handler_key;
pub use piece::{Memory, Piece};

use super::peers::Peers;
use super::{PerRank, Rank, RankId, RankSet};
use crate::fault::Fault;
use crate::registry::Table;
use crate::task::Target;
use core::sync::atomic::{AtomicU32, Ordering};
use hamr_shared_abi::queue::QueueDescriptor;
use hamr_shared_abi::status::Status;
use hamr_shared_abi::window::Window;
use hamr_shared_abi::world::{Announced, LANE_CHUNK};
use handlers::Keys;

/// Part of [`Rank`]. Only the dispatcher's thread uses it.
pub(super) struct CallRank {
    table: Table,
    /// Where the handlers are that it calls.
    keys: Keys,
    /// Meetings with each rank.
    meetings: PerRank<AtomicU32>,
    /// Lines of the segment that programs keep.
    kept: AtomicU32,
    /// Stepped when they end all of it.
    kept_generation: AtomicU32,
}

impl CallRank {
    pub(super) fn new(table: Table, size: u32, peers: &Peers) -> Self {
        Self {
            table,
            keys: Keys::new(),
            meetings: (0..size).map(|_| AtomicU32::new(0)).collect(),
            kept: AtomicU32::new(0),
            // Names of what another world keeps are of no generation of this one.
            kept_generation: AtomicU32::new(peers.job() as u32),
        }
    }

    /// The words that ranks publish have started over, before the number `none`.
    pub(super) fn begin_anew(&self, none: u32) {
        self.meetings.iter().for_each(|number| number.store(none, Ordering::Relaxed));
    }
}

/// The longest arguments and results of calls to this target, if it is a rank.
pub(crate) fn longest(target: Target) -> Option<usize> {
    target.rank().map(|_| LANE_CHUNK as usize)
}

/// The queue pairs in which ranks call each other.
pub(crate) struct Lanes<I> {
    /// The memory that they are in.
    pub(crate) window: &'static Window<()>,
    /// From and to each rank, in their order.
    pub(crate) pairs: I,
    /// Ranks announce their calls; else each is looked at.
    pub(crate) are_announced: bool,
}

/// Those of this rank.
pub(crate) fn lanes() -> Option<Lanes<impl Iterator<Item = (QueueDescriptor, QueueDescriptor)>>> {
    let Rank { me, size, ref peers, .. } = *Rank::here()?;
    let pairs = (0..size).map_while(move |rank| peers.lanes(me, RankId(rank)));
    Some(Lanes { window: peers.front(), pairs, are_announced: peers.are_announced() })
}

/// Announces to a rank that a call is in its lane, and notifies it if it sleeps.
pub(crate) fn announce_call(rank: RankId) {
    if let Some(here) = Rank::here() {
        here.peers.announce(rank, Announced::Call);
    }
    notify(rank);
}

/// Adds to `to` the ranks that have announced calls since the last time.
#[inline(always)]
pub(crate) fn collect_calls(to: &mut RankSet) {
    if let Some(here) = Rank::here() {
        here.peers.collect(Announced::Call, to);
    }
}

/// Notifies a rank that sleeps of what was published for it.
pub(crate) fn notify(rank: RankId) {
    if let Some(here) = Rank::here().filter(|here| here.me != rank) {
        here.peers.wake(rank);
    }
}

/// Has the launcher lost a rank of this one's world?
pub(crate) fn has_lost_rank() -> bool {
    Rank::here().is_some_and(|here| here.peers.lost().is_some())
}

/// No task runs here: tells a launcher that waits for that, because it has lost a rank.
pub(crate) fn note_no_task() {
    if let Some(here) = Rank::here().filter(|here| here.peers.lost().is_some()) {
        here.peers.inform();
    }
}

/// The fault of a wait that ended because a rank was lost.
#[cold]
#[inline(never)]
pub(crate) fn lost_rank() -> Fault {
    let Some((here, lost)) = Rank::here().and_then(|here| Some((here, here.peers.lost()?))) else {
        return Fault::new(Status::INTERRUPTED, [0; 3]);
    };
    let numbers = [u64::from(lost.0) + 1, 0, 0];
    Fault { numbers, ..Fault::with_text(Status::INTERRUPTED, &here.peers.lost_text()) }
}
