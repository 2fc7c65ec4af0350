//! A device buffer as it travels: 16 bytes that name memory without an address (abi §5.6).

use crate::ids::NodeId;
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Two words: `off:40 | index:24`, `len:36 | generation:16 | node:12`, low bits first.
///
/// `off` is in bytes from the start of the heap section, `len` counts elements (the element type is
/// part of the handler's signature), `index` and `generation` name the host's allocation record, so
/// that a freed, foreign or forged pointer is refused before it is used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct WireBuffer {
    w0: u64,
    w1: u64,
}
const _: () = assert!(size_of::<WireBuffer>() == 16 && offset_of!(WireBuffer, w1) == 8);

/// The fields of a [`WireBuffer`], each in a type of its own width or more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BufferParts {
    /// Bytes from the start of the heap section, below 2^40.
    pub off: u64,
    /// Allocation record, below 2^24.
    pub index: u32,
    /// Elements, below 2^36.
    pub len: u64,
    /// Reuses of the record, mod 2^16.
    pub generation: u16,
    /// Owner of the memory.
    pub node: NodeId,
}

impl WireBuffer {
    /// Bytes addressable by `off`.
    pub const MAX_OFF: u64 = 1 << 40;
    /// Elements countable by `len`.
    pub const MAX_LEN: u64 = 1 << 36;
    /// Allocation records nameable by `index`.
    pub const MAX_INDEX: u32 = 1 << 24;

    /// Packs the fields; what exceeds a field's width is cut.
    #[inline(always)]
    pub const fn pack(p: BufferParts) -> Self {
        Self {
            w0: p.off & (Self::MAX_OFF - 1) | (p.index as u64) << 40,
            w1: p.len & (Self::MAX_LEN - 1) | (p.generation as u64) << 36 | (p.node.0 as u64 & 0xFFF) << 52,
        }
    }

    /// Unpacks; every bit pattern is some value.
    #[inline(always)]
    pub const fn unpack(self) -> BufferParts {
        BufferParts {
            off: self.w0 & (Self::MAX_OFF - 1),
            index: (self.w0 >> 40) as u32,
            len: self.w1 & (Self::MAX_LEN - 1),
            generation: (self.w1 >> 36) as u16,
            node: NodeId((self.w1 >> 52) as u16),
        }
    }

    /// The two words, in wire order.
    #[inline(always)]
    pub const fn words(self) -> [u64; 2] {
        [self.w0, self.w1]
    }

    /// From the two words.
    #[inline(always)]
    pub const fn from_words(words: [u64; 2]) -> Self {
        Self { w0: words[0], w1: words[1] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive_at_their_limits() {
        for p in [
            BufferParts { off: 0, index: 0, len: 0, generation: 0, node: NodeId(0) },
            BufferParts {
                off: WireBuffer::MAX_OFF - 1,
                index: WireBuffer::MAX_INDEX - 1,
                len: WireBuffer::MAX_LEN - 1,
                generation: u16::MAX,
                node: NodeId::MAX,
            },
            BufferParts { off: 64, index: 3, len: 7, generation: 9, node: NodeId(1) },
        ] {
            assert_eq!(WireBuffer::pack(p).unpack(), p);
        }
    }
}
