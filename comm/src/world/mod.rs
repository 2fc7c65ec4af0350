//! What a handler sees of its world (abi §13): its rank, the segments of all ranks, signals, barriers,
//! and the way out.

#[cfg_attr(not(feature = "world"), path = "no_call_peers.rs")]
mod call_peers;
mod interest;
mod lost;
mod peers;
mod rank_set;
#[cfg_attr(not(feature = "world"), path = "alone.rs")]
mod ranks;
mod strided;
mod waits;

pub use hamr_shared_abi::ids::RankId;
pub use hamr_shared_abi::window::{AtomicOp, AtomicValue, Value};
#[doc(hidden)]
pub use interest::{SharedBits, announce, collect};
pub use peers::Peers;
pub use rank_set::{PerRank, RankSet, push};
#[cfg(feature = "world")]
pub use ranks::*;
pub use strided::{MAX_LEVELS, Strided};
#[doc(hidden)]
pub use waits::{before_first, disseminate, has_come, next_number};

pub(crate) use ranks::{handler_key, longest};

use crate::buffer::BufferPtr;
use crate::context::Context;
use crate::fault::Fault;
use crate::registry::Table;
use crate::task::Task;
use core::sync::atomic::AtomicU32;
use hamr_shared_abi::buffer::{BufferParts, WireBuffer};
use hamr_shared_abi::ids::NodeId;
use hamr_shared_abi::window::{LentHeap, Loan, OutOfWindow, Window};
use hamr_shared_abi::world::{MAX_BARE_RANKS, MAX_RANKS};
use ranks::CallRank;

/// Ranks of a world that this image can be one of. Images are small.
pub const MOST_RANKS: usize = if cfg!(hamr_bare) { MAX_BARE_RANKS } else { MAX_RANKS };

/// The rank that this image is, for as long as it runs.
#[cfg(hamr_bare)]
static RANK: spin::Once<Rank> = spin::Once::new();

#[cfg(not(hamr_bare))]
std::thread_local! {
    /// The rank that this thread serves: a program may have several, and a rank's handlers and tasks
    /// run on its own thread alone.
    static RANK: core::cell::Cell<Option<&'static Rank>> = const { core::cell::Cell::new(None) };
}

/// What the runtime of an image states of its rank.
pub struct Rank {
    me: RankId,
    size: u32,
    segment: u64,
    exit: fn(u8) -> !,
    peers: Peers,
    /// What ranks need that call each other.
    calls: CallRank,
    /// Barriers that have ended, and the run that they belong to. Only the dispatcher's thread
    /// uses them.
    barriers: AtomicU32,
    run: AtomicU32,
}

impl Rank {
    /// Rank `me` of `size`, with `segment` bytes at the end of its heap, that serves `table`. The thread that calls this
    /// joins. `exit`
    /// publishes the exit code and ends the rank.
    pub fn new(me: RankId, size: u32, segment: u64, table: Table, exit: fn(u8) -> !, peers: Peers) -> Self {
        let calls = CallRank::new(table, size, &peers);
        Self { me, size, segment, exit, peers, calls, barriers: AtomicU32::new(0), run: AtomicU32::new(0) }
    }

    /// The image is this rank from now on; hosted, the thread that calls this. It is there for good.
    pub fn join(self) {
        #[cfg(hamr_bare)]
        RANK.call_once(|| self);
        #[cfg(not(hamr_bare))]
        RANK.set(Some(alloc::boxed::Box::leak(alloc::boxed::Box::new(self))));
    }

    fn here() -> Option<&'static Self> {
        RANK.get()
    }

    /// Where the segment begins in a heap of so many bytes, which does not change while the heap lasts. It is never
    /// outside of it.
    fn segment_off(&self, heap: u64) -> u64 {
        heap.saturating_sub(self.segment)
    }
}

/// A place in a rank's segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegAddr {
    /// Whose segment.
    pub rank: RankId,
    /// Bytes from its start.
    pub off: u64,
}

/// An access to what no rank has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutOfReach {
    /// There is no such rank.
    Rank(u32),
    /// It leaves the segment, or a value is not at a multiple of its size.
    Segment {
        /// Where it ends.
        end: u64,
        /// Bytes of the segment.
        len: u64,
    },
    /// It leaves the private memory that was given.
    Private {
        /// Where it ends.
        end: u64,
        /// Bytes that were given.
        len: u64,
    },
    /// There is no such signal word.
    Word(u32),
    /// A strided copy has more than [`MAX_LEVELS`] levels, lists of different lengths, or too many
    /// bytes.
    Shape,
}

impl core::fmt::Display for OutOfReach {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Rank(rank) => write!(f, "there is no rank {rank}"),
            Self::Segment { end, len } => {
                write!(f, "it ends at byte {end:#x} of a segment of {len:#x} bytes, or is misaligned in it")
            }
            Self::Private { end, len } => write!(f, "it ends at byte {end:#x} of private memory of {len:#x} bytes"),
            Self::Word(word) => write!(f, "there is no signal word {word}"),
            Self::Shape => f.write_str("a strided copy is malformed"),
        }
    }
}
impl core::error::Error for OutOfReach {}

impl From<OutOfReach> for Fault {
    #[cold]
    fn from(why: OutOfReach) -> Self {
        match why {
            OutOfReach::Segment { end, len } | OutOfReach::Private { end, len } => Self::outside_heap(end, len),
            OutOfReach::Rank(_) => Self::msg("there is no such rank"),
            OutOfReach::Word(_) => Self::msg("there is no such signal word"),
            OutOfReach::Shape => Self::msg("a strided copy is malformed"),
        }
    }
}

impl From<OutOfWindow> for OutOfReach {
    #[cold]
    fn from(e: OutOfWindow) -> Self {
        Self::Segment { end: e.off.saturating_add(e.want), len: e.len }
    }
}

/// The world that the device is a rank of, for the time of a call. While it is borrowed, the call has
/// no view, so its own segment is reached like that of the others.
#[derive(Clone, Copy)]
pub struct WorldRef<'c> {
    rank: &'static Rank,
    caller: Caller<'c>,
}

/// Who has the heap.
#[derive(Clone, Copy)]
enum Caller<'c> {
    Inline(&'c Context<'c>),
    Task(&'c Task<'c>),
}

impl Context<'_> {
    /// The world that this device is a rank of; `None` on a device that was opened alone.
    pub fn world(&self) -> Option<WorldRef<'_>> {
        Some(WorldRef { rank: Rank::here()?, caller: Caller::Inline(self) })
    }
}

impl Task<'_> {
    /// [`Context::world`]: also across waits.
    pub fn world(&self) -> Option<WorldRef<'_>> {
        Some(WorldRef { rank: Rank::here()?, caller: Caller::Task(self) })
    }
}

impl WorldRef<'_> {
    /// This device's rank.
    pub fn me(&self) -> RankId {
        self.rank.me
    }

    /// Ranks of the world.
    pub fn size(&self) -> u32 {
        self.rank.size
    }

    /// This rank's segment: memory of its own that no buffer of the launcher is in. It opens as a
    /// buffer does ([`Context::views`]), and keeps its content from call to call. What another rank
    /// puts there while a view is open, the view may show or not.
    pub fn segment(&self) -> BufferPtr<u8> {
        let (heap, node) = match self.caller {
            Caller::Inline(cx) => (cx.heap_len(), cx.node()),
            Caller::Task(task) => (task.heap_len(), task.node()),
        };
        segment(heap, self.rank.segment_off(heap), node)
    }

    /// Bytes of a rank's segment.
    pub fn segment_len(&self, of: RankId) -> Result<u64, OutOfReach> {
        self.in_segment(of, |segment| Ok(segment.len()))
    }

    /// Copies bytes into a rank's segment. They are there when this returns; a rank sees them behind
    /// a [`Self::signal`] or a reply that follows. 1, 2, 4 and, where the processor has 64-bit
    /// atomics, 8 bytes at a multiple of their number are one store.
    #[inline]
    pub fn put(&self, to: RankId, off: u64, from: &[u8]) -> Result<(), OutOfReach> {
        self.in_segment(to, |segment| match *from {
            [a] => segment.store(off, a),
            [a, b] if off.is_multiple_of(2) => segment.store(off, u16::from_ne_bytes([a, b])),
            [a, b, c, d] if off.is_multiple_of(4) => segment.store(off, u32::from_ne_bytes([a, b, c, d])),
            #[cfg(target_has_atomic = "64")]
            [a, b, c, d, e, f, g, h] if off.is_multiple_of(8) => {
                segment.store(off, u64::from_ne_bytes([a, b, c, d, e, f, g, h]))
            }
            _ => segment.write_bytes(off, from),
        })
    }

    /// Copies bytes out of a rank's segment.
    #[inline]
    pub fn get(&self, from: RankId, off: u64, to: &mut [u8]) -> Result<(), OutOfReach> {
        self.in_segment(from, |segment| segment.read_bytes(off, to))
    }

    /// Stores a number at a multiple of its size, as one.
    #[inline]
    pub fn put_value<T: Value>(&self, to: RankId, off: u64, value: T) -> Result<(), OutOfReach> {
        self.in_segment(to, |segment| segment.store(off, value))
    }

    /// Loads a number at a multiple of its size, as one.
    #[inline]
    pub fn get_value<T: Value>(&self, from: RankId, off: u64) -> Result<T, OutOfReach> {
        self.in_segment(from, |segment| segment.load(off))
    }

    /// Copies from one segment to another, or inside of one; the ranges may overlap.
    pub fn copy(&self, from: SegAddr, to: SegAddr, bytes: u64) -> Result<(), OutOfReach> {
        if from.rank == to.rank {
            return self.in_segment(from.rank, |segment| segment.copy_within(from.off, to.off, bytes));
        }
        self.in_segment(from.rank, |source| {
            Ok(self.in_segment(to.rank, |target| source.copy_to(from.off, target, to.off, bytes)))
        })?
    }

    /// Copies runs of bytes into a rank's segment.
    pub fn put_strided(&self, to: RankId, off: u64, from: &[u8], shape: &Strided<'_>) -> Result<(), OutOfReach> {
        self.in_segment(to, |segment| Ok(shape.put(segment, off, from)))?
    }

    /// Copies runs of bytes out of a rank's segment.
    pub fn get_strided(&self, from: RankId, off: u64, to: &mut [u8], shape: &Strided<'_>) -> Result<(), OutOfReach> {
        self.in_segment(from, |segment| Ok(shape.get(segment, off, to)))?
    }

    /// An atomic access to a number at a multiple of its size; the value before it, or of
    /// [`AtomicOp::Store`] the value itself. It is atomic with those of all ranks, but not with puts
    /// or views of the same bytes.
    #[inline]
    pub fn atomic<T: AtomicValue>(&self, at: SegAddr, op: AtomicOp<T>) -> Result<T, OutOfReach> {
        self.in_segment(at.rank, |segment| segment.atomic(at.off, op))
    }

    /// Where a rank's segment is in this program, for code in other languages; and its bytes.
    #[cfg(not(hamr_bare))]
    pub fn segment_address(&self, of: RankId) -> Result<(core::ptr::NonNull<u8>, u64), OutOfReach> {
        self.in_segment(of, |segment| Ok((segment.address(), segment.len())))
    }

    /// The process that a rank is, as the launcher, which has started it, says; `None` of a machine, of a thread, and of a
    /// rank that does not exist. Ranks cannot change it, but for those that are processes of this user anyway. A number is
    /// used again after its process has ended.
    #[cfg(not(hamr_bare))]
    pub fn process(&self, of: RankId) -> Option<u32> {
        self.rank.peers.process(of)
    }

    /// The rank that was lost, which ends the world; `None` as long as none was.
    pub fn lost(&self) -> Option<RankId> {
        self.rank.peers.lost()
    }

    /// Ends the world with an exit code: this rank at once, the others when their runtimes notice,
    /// whatever they are doing. The running call has no reply.
    pub fn exit(&self, code: u8) -> ! {
        (self.rank.exit)(code)
    }

    #[inline(always)]
    fn in_segment<R>(
        &self,
        of: RankId,
        access: impl FnOnce(&Window<Loan>) -> Result<R, OutOfWindow>,
    ) -> Result<R, OutOfReach> {
        if of == self.rank.me {
            return self.in_own(access);
        }
        let segment = self.rank.peers.segment(of).ok_or(OutOfReach::Rank(of.0))?;
        Ok(access(&segment.lend())?)
    }

    /// The same in this rank's segment, which is the end of its heap, up to what is claimed. No view of
    /// it exists, because one borrows mutably what this value borrows.
    #[inline(never)]
    fn in_own<R>(&self, access: impl FnOnce(&Window<Loan>) -> Result<R, OutOfWindow>) -> Result<R, OutOfReach> {
        let own = |heap: &LentHeap<'_>| {
            let off = self.rank.segment_off(heap.len());
            Ok(access(&*heap.part(off, heap.open_len().saturating_sub(off))?)?)
        };
        match self.caller {
            Caller::Inline(cx) => own(&cx.heap),
            Caller::Task(task) => task.with_heap(own),
        }
    }
}

/// A heap from a byte on as a buffer of the node itself.
fn segment(heap: u64, off: u64, node: NodeId) -> BufferPtr<u8> {
    BufferPtr::from_wire(WireBuffer::pack(BufferParts { off, index: 0, len: heap - off, generation: 0, node }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Heap;

    #[test]
    fn a_device_alone_has_no_world() {
        let mut heap = Heap::new(64);
        assert!(heap.context().world().is_none());
    }

    #[test]
    fn a_segment_is_the_end_of_the_heap() {
        let parts = segment(4096, 3072, NodeId(3)).parts();
        assert_eq!((parts.off, parts.len, parts.node), (3072, 1024, NodeId(3)));
    }
}
