//! Queue pair descriptors: where the slots and chunks of one stream lie (abi §4.5, §4.6).

use crate::slot::SLOT_BYTES;
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One queue pair. With coherent placement the two bases are equal; with split placement each side polls
/// slots of its own.
///
/// Slot numbers: 0 is the hot slot, `1..=ring_len` are the ring slots, and the ticket slots follow.
/// Slot `s` owns the chunk pair at `chunks + s * (req_chunk + rep_chunk)`: request chunk first,
/// reply chunk behind it, and as far behind that as `rep_base` is behind `req_base`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct QueueDescriptor {
    /// Window offset that the slot offsets below count from, for request words.
    pub req_base: u64,
    /// The same for reply words; equal to `req_base` when coherent.
    pub rep_base: u64,
    /// Window offset of the chunks.
    pub chunks: u64,
    /// Offset of the hot slot from the bases.
    pub hot: u32,
    /// Offset of the first ring slot from the bases.
    pub ring: u32,
    /// Ring slots: a power of two, at least 2.
    pub ring_len: u32,
    /// Offset of the first ticket slot from the bases.
    pub tickets: u32,
    /// Ticket slots, one per ticket.
    pub ticket_slots: u32,
    /// Bytes of a request chunk; a multiple of 64, may be 0.
    pub req_chunk: u32,
    /// Bytes of a reply chunk; a multiple of 64, may be 0.
    pub rep_chunk: u32,
    /// Nesting depth this stream serves (abi §5, rule 19).
    pub depth: u16,
    /// Which poller of the responder serves it.
    pub poller: u16,
    /// Zero.
    pub reserved: u64,
}
const _: () = assert!(size_of::<QueueDescriptor>() == 64 && offset_of!(QueueDescriptor, reserved) == 56);

impl QueueDescriptor {
    /// Longest ring: a count must not lap a reader inside 24 bits.
    pub const MAX_RING: u32 = 1 << 16;
    /// Longest chunk an image must be able to copy out.
    pub const MAX_CHUNK: u32 = 1 << 14;

    /// Slots of all kinds.
    pub const fn slots(&self) -> u32 {
        1 + self.ring_len + self.ticket_slots
    }

    /// Bytes of the chunk pair of one slot.
    pub const fn chunk_pair(&self) -> u64 {
        self.req_chunk as u64 + self.rep_chunk as u64
    }

    /// Window offset of the request words of a slot, by its number.
    pub const fn slot(&self, number: u32) -> Option<u64> {
        let (first, index) = match number {
            0 => (self.hot, 0),
            _ if number <= self.ring_len => (self.ring, number - 1),
            _ if number < self.slots() => (self.tickets, number - 1 - self.ring_len),
            _ => return None,
        };
        Some(self.req_base + first as u64 + index as u64 * SLOT_BYTES as u64)
    }

    /// Window offset of the request chunk of a slot.
    pub const fn chunk(&self, number: u32) -> u64 {
        self.chunks + number as u64 * self.chunk_pair()
    }

    /// The same of its reply chunk.
    pub const fn reply_chunk(&self, number: u32) -> u64 {
        self.chunk(number) + self.req_chunk as u64
    }

    /// Is every field a value that the protocol allows? Offsets are checked against the window by
    /// the caller.
    // One copy: an image asks where it checks a layout and where it opens a queue pair.
    #[inline(never)]
    pub const fn is_well_formed(&self) -> bool {
        let line = SLOT_BYTES as u32;
        self.ring_len >= 2
            && self.ring_len <= Self::MAX_RING
            && self.ring_len.is_power_of_two()
            && self.ticket_slots <= Self::MAX_RING
            && self.hot.is_multiple_of(line)
            && self.ring.is_multiple_of(line)
            && self.tickets.is_multiple_of(line)
            && self.req_base.is_multiple_of(SLOT_BYTES as u64)
            && self.rep_base.is_multiple_of(SLOT_BYTES as u64)
            && self.chunks.is_multiple_of(SLOT_BYTES as u64)
            && self.req_chunk.is_multiple_of(line)
            && self.rep_chunk.is_multiple_of(line)
            && self.req_chunk <= Self::MAX_CHUNK
            && self.rep_chunk <= Self::MAX_CHUNK
    }
}
