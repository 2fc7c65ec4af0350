//! Fixed parts of frames, as they are on the wire (abi §15.2).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Declares a fixed part with its size and the offsets of its fields.
macro_rules! part {
    ($(#[$doc:meta])* $name:ident, $size:literal, { $($at:literal $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Default, Debug)]
        #[repr(C)]
        pub(super) struct $name { $(pub(super) $field: $type,)* }
        const _: () = assert!(size_of::<$name>() == $size $(&& core::mem::offset_of!($name, $field) == $at)*);
    };
}

part!(
    /// Before each frame.
    Head, 8, { 0 len: U32, 4 kind: u8, 5 zero: [u8; 3], }
);
part!(Hello, 56, {
    0 magic: [u8; 8], 8 abi_max: U32, 12 abi_min: U32, 16 link: [u8; 16], 32 attempt: U64, 40 purpose: U32,
    44 name_len: U32, 48 window: U64,
});
part!(Grant, 24, { 0 magic: [u8; 8], 8 abi: U32, 12 flags: U32, 16 window: U64, });
part!(Refuse, 24, { 0 reason: U32, 4 zero: U32, 8 abi_max: U32, 12 abi_min: U32, 16 number: U64, });
part!(Seen, 8, { 0 off: U64, });
part!(Look, 16, { 0 off: U64, 8 len: U32, 12 zero: U32, });
part!(Slot, 16, { 0 queue: U16, 2 payload: u8, 3 second: u8, 4 slot: U32, 8 hdr: U32, 12 word: U32, });
part!(State, 8, { 0 acknowledged: U32, 4 state: U32, });
part!(Word, 8, { 0 off: U32, 4 value: U32, });
part!(Transfer, 16, { 0 off: U64, 8 total: U64, });
part!(Done, 8, { 0 status: U32, 4 zero: U32, });

/// Of `queue`: a host queue.
pub(super) const OF_HOST: u16 = 1 << 15;
/// Of `queue`: the header alone.
pub(super) const HEADER_ALONE: u16 = 1 << 14;
/// Of a grant: the device is notified.
pub(super) const DOORBELL: u32 = 1;
