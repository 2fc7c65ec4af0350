//! Work requests (abi §16.3). The word of an entry is published last; a second line needs none (rule 3).

use super::Opcode;
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Scatter entries of a send request.
pub const MAX_SEND_SGE: usize = 5;
/// Scatter entries of a receive request.
pub const MAX_RECEIVE_SGE: usize = 2;
/// Bytes of a message in the entry itself.
pub const MAX_INLINE: usize = 92;
/// Bytes of an atomic access.
pub const ATOMIC: u32 = 8;

/// A part of registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Sge {
    /// Its address.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
    /// The key of its region.
    pub lkey: u32,
}
const _: () = assert!(size_of::<Sge>() == 16);

impl Sge {
    /// Do both name a byte? What leaves its region names none, so no address wraps.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        let end = |sge: &Self| sge.addr.saturating_add(sge.len as u64);
        let is_empty = self.len == 0 || other.len == 0;
        self.lkey == other.lkey && !is_empty && self.addr < end(other) && other.addr < end(self)
    }
}

/// A send request: two lines, of which the second counts with [`SendEntry::TWO_LINES`] only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct SendEntry {
    /// Opcode, flags, number of scatter entries.
    pub head: u32,
    /// The immediate value, of opcodes that have one.
    pub immediate: u32,
    /// The program's number.
    pub id: u64,
    /// The address at the peer, of opcodes that access its memory.
    pub remote: u64,
    /// The key there.
    pub rkey: u32,
    /// Bytes of the message.
    pub length: u32,
    /// The first scatter entry, and behind it what an atomic access adds or compares with, a u64; or the first 28 bytes
    /// of the message.
    pub first: [u8; 28],
    /// The published word.
    pub word: u32,
    /// Four scatter entries, or 64 bytes; or what a compare and swap stores, a u64.
    pub second: [u8; 64],
}
const _: () = assert!(size_of::<SendEntry>() == 128 && offset_of!(SendEntry, word) == 60);
const _: () = assert!(offset_of!(SendEntry, first) == 32 && MAX_INLINE == 28 + 64);

impl SendEntry {
    /// It has a completion. Others have one if they fail.
    pub const SIGNALED: u32 = 1 << 8;
    /// The message is in the entry.
    pub const INLINE: u32 = 8 << 8;
    /// The second line counts.
    pub const TWO_LINES: u32 = 16 << 8;
    /// Where the number of scatter entries begins.
    const COUNT: u32 = 16;

    /// The head of a request with so many scatter entries.
    pub const fn head(opcode: Opcode, flags: u32, sges: usize) -> u32 {
        opcode.0 | flags | (sges as u32) << Self::COUNT
    }

    /// The opcode, the flags, and the number of scatter entries. `None`: another bit is set.
    pub fn parts(&self) -> Option<(Opcode, u32, usize)> {
        let known = 0xFF | Self::SIGNALED | Self::INLINE | Self::TWO_LINES | 0xF << Self::COUNT;
        let (opcode, flags) = (Opcode(self.head & 0xFF), self.head & 0xFF00);
        (self.head & !known == 0).then_some((opcode, flags, (self.head >> Self::COUNT) as usize))
    }

    /// The scatter entries, all five.
    pub fn sges(&self) -> [Sge; MAX_SEND_SGE] {
        let mut sges = [Sge::default(); MAX_SEND_SGE];
        let [first, second @ ..] = &mut sges;
        first.as_mut_bytes().copy_from_slice(&self.first[..size_of::<Sge>()]);
        second.as_mut_bytes().copy_from_slice(&self.second);
        sges
    }

    /// What an atomic access adds or compares with, and what it stores.
    pub fn operands(&self) -> [u64; 2] {
        let value = |from: &[u8]| from.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        [value(&self.first[size_of::<Sge>()..]), value(&self.second)]
    }

    /// Sets them.
    pub fn set_operands(&mut self, [first, second]: [u64; 2]) {
        let (at, bytes) = (size_of::<Sge>(), size_of::<u64>());
        self.first[at..at + bytes].copy_from_slice(&first.to_le_bytes());
        self.second[..bytes].copy_from_slice(&second.to_le_bytes());
    }

    /// The bytes of the message in the entry, all 92.
    pub fn inline(&self) -> [u8; MAX_INLINE] {
        let mut bytes = [0; MAX_INLINE];
        let (first, second) = bytes.split_at_mut(self.first.len());
        first.copy_from_slice(&self.first);
        second.copy_from_slice(&self.second);
        bytes
    }
}

/// A receive request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct ReceiveEntry {
    /// Number of scatter entries.
    pub sges: u32,
    /// Zero.
    pub reserved: u32,
    /// The program's number.
    pub id: u64,
    /// Scatter entries.
    pub sge: [Sge; MAX_RECEIVE_SGE],
    /// Zero.
    pub reserved2: [u32; 3],
    /// The published word.
    pub word: u32,
}
const _: () = assert!(size_of::<ReceiveEntry>() == 64 && offset_of!(ReceiveEntry, word) == 60);
