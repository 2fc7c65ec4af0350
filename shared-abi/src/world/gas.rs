//! GAS (abi §14.1): what the ranks of a world write for each other where they use GASNet's
//! interface. It is behind the homes; a rank that does not know it finds its world as before.
//!
//! ```text
//! part of rank r    head      its limits, and the fingerprint of its handlers
//!                   barrier   a line per round; line k is written by rank (r - 2^k) mod N
//!                   names     a line per handler index
//!                   lanes     a queue pair per rank: requests from rank d, replies from r
//!                   chunks    of each lane: per slot one of the request, then one of the reply
//! ```

use super::Range;
use super::peers::barrier_rounds;
use crate::ids::RankId;
use crate::queue::QueueDescriptor;
use crate::slot::SLOT_BYTES;
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const LINE: u64 = SLOT_BYTES as u64;
/// Handler indices.
pub const HANDLERS: u32 = 256;
/// Bytes in front of a chunk for arguments that have no room in the line.
pub const ARGS_BYTES: u32 = 64;
/// Worlds of more ranks have shorter chunks.
const FEW: u32 = 16;
/// Worlds of more ranks have shorter rings: addresses grow with the square of the ranks.
const FEWER: u32 = 4;

/// Where the parts of all ranks are, planned or checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GasLayout {
    pub(super) at: u64,
    pub(super) ranks: u32,
    pub(super) ring: u32,
    pub(super) chunk: u32,
}

/// What a rank says of itself before the barrier of its attach.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct GasHead {
    /// The hash of its handlers: indices, kinds and names.
    pub fingerprint: u64,
    /// The longest payload of a medium message that it takes.
    pub medium: u32,
    /// Zero.
    pub reserved: [u32; 13],
}
const _: () = assert!(size_of::<GasHead>() == SLOT_BYTES && offset_of!(GasHead, medium) == 8);

/// A handler index of a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct GasName {
    /// The hash of the name; 0: there is no handler.
    pub hash: u64,
    /// The messages that it takes: 1 short, 2 medium, 4 long; 8: it is a reply handler.
    pub kinds: u8,
    /// Bytes of the name in `name`.
    pub len: u8,
    /// The last bytes of the name.
    pub name: [u8; 54],
}
const _: () = assert!(size_of::<GasName>() == SLOT_BYTES && offset_of!(GasName, name) == 10);

impl GasLayout {
    /// Ring slots of a lane at most.
    pub const MAX_RING: u32 = 64;

    /// Parts for so many ranks from `at` on.
    pub(super) const fn plan(at: u64, ranks: u32) -> Self {
        let ring = if ranks <= FEWER { Self::MAX_RING } else { 16 };
        let chunk = if ranks <= FEW { 16 << 10 } else { 4 << 10 };
        Self { at, ranks, ring, chunk }
    }

    /// Are ring and chunk those of some plan?
    pub(super) const fn is_well_formed(&self) -> bool {
        self.at.is_multiple_of(LINE)
            && self.ring >= 2
            && self.ring <= Self::MAX_RING
            && self.ring.is_power_of_two()
            && self.chunk.is_multiple_of(LINE as u32)
            && self.chunk >= 1024
            && self.chunk <= QueueDescriptor::MAX_CHUNK
    }

    /// Where the parts are.
    pub fn range(&self) -> Range {
        Range { off: self.at, len: self.bytes() }
    }

    /// The same layout in a window that begins with it.
    pub const fn at_front(self) -> Self {
        Self { at: 0, ..self }
    }

    /// Bytes of all parts. They do not overflow: ranks, ring and chunk are small.
    pub(super) const fn bytes(&self) -> u64 {
        self.ranks as u64 * self.part_bytes()
    }

    const fn part_bytes(&self) -> u64 {
        (1 + self.rounds() as u64 + HANDLERS as u64) * LINE + self.ranks as u64 * self.lane_bytes()
    }

    const fn rounds(&self) -> u32 {
        barrier_rounds(self.ranks)
    }

    const fn slots(&self) -> u64 {
        1 + self.ring as u64
    }

    const fn lane_bytes(&self) -> u64 {
        self.slots() * (LINE + 2 * self.chunk as u64)
    }

    fn part(&self, of: RankId) -> Option<u64> {
        (of.0 < self.ranks).then(|| self.at + u64::from(of.0) * self.part_bytes())
    }

    /// The [`GasHead`] of a rank.
    pub fn head(&self, of: RankId) -> Option<u64> {
        self.part(of)
    }

    /// The line in which a rank waits in a round of a barrier.
    pub fn barrier_line(&self, of: RankId, round: u32) -> Option<u64> {
        let part = self.part(of).filter(|_| round < self.rounds())?;
        Some(part + u64::from(1 + round) * LINE)
    }

    /// The [`GasName`] of a handler index of a rank.
    pub fn name(&self, of: RankId, index: u8) -> Option<u64> {
        Some(self.part(of)? + u64::from(1 + self.rounds() + u32::from(index)) * LINE)
    }

    fn lane_base(&self, of: RankId, from: RankId) -> Option<u64> {
        let part = self.part(of).filter(|_| from.0 < self.ranks)?;
        Some(part + u64::from(1 + self.rounds() + HANDLERS) * LINE + u64::from(from.0) * self.lane_bytes())
    }

    /// The queue pair in which rank `from` calls rank `of`. Its chunks are [`Self::chunk`].
    pub fn lane(&self, of: RankId, from: RankId) -> Option<QueueDescriptor> {
        let base = self.lane_base(of, from)?;
        Some(QueueDescriptor {
            req_base: base,
            rep_base: base,
            chunks: base,
            hot: 0,
            ring: SLOT_BYTES as u32,
            ring_len: self.ring,
            tickets: 0,
            ticket_slots: 0,
            req_chunk: 0,
            rep_chunk: 0,
            depth: 0,
            poller: 0,
            reserved: 0,
        })
    }

    /// The chunk of the request in a slot of that queue pair, behind which is that of the reply.
    pub fn chunk(&self, of: RankId, from: RankId, slot: u32) -> Option<u64> {
        let base = self.lane_base(of, from).filter(|_| slot <= self.ring)?;
        Some(base + self.slots() * LINE + u64::from(slot) * 2 * u64::from(self.chunk))
    }

    /// Bytes of a chunk: [`ARGS_BYTES`] for arguments, then the payload.
    pub fn chunk_len(&self) -> u32 {
        self.chunk
    }
}

/// The first word of an active message (abi §14.2): its arguments, its category, where they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AmWord(pub u32);

/// A kind of active message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Category {
    /// Arguments alone.
    Short,
    /// A payload that the handler reads.
    Medium,
    /// A payload that is in the target's segment.
    Long,
}

impl AmWord {
    /// Arguments of a message at most.
    pub const MAX_ARGS: usize = 16;
    /// The payload of a medium message is in the line, behind the arguments.
    const INLINE: u32 = 1 << 7;
    /// The arguments are in front of the chunk.
    const ARGS_OUT: u32 = 1 << 8;
    const RESERVED: u32 = 0xFE00;

    /// `len`: bytes of a medium payload.
    pub const fn new(category: Category, nargs: usize, args_out: bool, inline: bool, len: usize) -> Self {
        let category = match category {
            Category::Short => 0,
            Category::Medium => 1,
            Category::Long => 2,
        };
        let flags = if inline { Self::INLINE } else { 0 } | if args_out { Self::ARGS_OUT } else { 0 };
        Self(nargs as u32 | category << 5 | flags | (len as u32) << 16)
    }

    /// Its category; `None`: the word is malformed.
    pub const fn category(self) -> Option<Category> {
        if self.0 & Self::RESERVED != 0 || self.nargs() > Self::MAX_ARGS {
            return None;
        }
        match self.0 >> 5 & 3 {
            0 => Some(Category::Short),
            1 => Some(Category::Medium),
            2 => Some(Category::Long),
            _ => None,
        }
    }

    /// Arguments; a peer may write up to 31.
    pub const fn nargs(self) -> usize {
        (self.0 & 0x1F) as usize
    }

    /// Is the payload in the line?
    pub const fn is_inline(self) -> bool {
        self.0 & Self::INLINE != 0
    }

    /// Are the arguments in the chunk?
    pub const fn args_are_out(self) -> bool {
        self.0 & Self::ARGS_OUT != 0
    }

    /// Bytes of a medium payload.
    pub const fn len(self) -> usize {
        (self.0 >> 16) as usize
    }

    /// No medium payload.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}
