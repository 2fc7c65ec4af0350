//! The device's handler table as it lies in the window (abi §3.7): header, records, names.
//!
//! Record `i` describes key `i` of module 0. Names follow the records; a record names its bytes by
//! offset from the start of the section. The device writes all of it before ACCEPTED and never
//! again.

use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Start of the TABLE section.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct TableHeader {
    /// Records.
    pub count: u32,
    /// Bytes used, header and names included.
    pub bytes: u32,
    /// Fingerprint of names and signatures.
    pub fingerprint: u64,
}
const _: () = assert!(size_of::<TableHeader>() == 16 && offset_of!(TableHeader, fingerprint) == 8);

/// One handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct TableRecord {
    /// Hash of path and type arguments, by which the host finds the handler.
    pub id: u64,
    /// Hash of argument and result types.
    pub signature: u64,
    /// Hash of the source tokens: differs when the image is stale.
    pub body: u64,
    /// Bits of [`record_flag`].
    pub flags: u32,
    /// Offset of the name in the section.
    pub name_off: u32,
    /// Bytes of the name, UTF-8.
    pub name_len: u32,
    /// Zero.
    pub reserved: u32,
}
const _: () = assert!(size_of::<TableRecord>() == 40 && offset_of!(TableRecord, name_len) == 32);

/// Bits of [`TableRecord::flags`].
pub mod record_flag {
    /// The image has the body.
    pub const HAS_BODY: u32 = 1 << 0;
    /// Runs as a task, and is answered in a ticket slot.
    pub const TASK: u32 = 1 << 1;
    /// May overtake its stream.
    pub const UNORDERED: u32 = 1 << 2;
    /// A body on the host, for calls from devices.
    pub const HOST: u32 = 1 << 3;
}

/// FNV-1a, 64 bits: the hash of names, shapes and bodies. Usable in constants, the same on every
/// side.
pub const fn hash(bytes: &[u8]) -> u64 {
    hash_more(0xCBF2_9CE4_8422_2325, bytes)
}

/// Continues [`hash`] with more bytes.
pub const fn hash_more(mut state: u64, bytes: &[u8]) -> u64 {
    let mut i = 0;
    while i < bytes.len() {
        state = (state ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01B3);
        i += 1;
    }
    state
}

/// Continues [`hash`] with another hash: order matters, so `(a, b)` and `(b, a)` differ.
pub const fn hash_join(state: u64, other: u64) -> u64 {
    hash_more(state, &other.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_fnv_1a() {
        assert_eq!(hash(b""), 0xCBF2_9CE4_8422_2325);
        assert_eq!(hash(b"foobar"), 0x8594_4171_F739_67E8);
        assert_ne!(hash_join(hash(b"a"), hash(b"b")), hash_join(hash(b"b"), hash(b"a")));
    }
}
