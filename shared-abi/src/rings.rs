//! Log ring, trace ring and crash record (abi §9): written by the device, read by the host and its
//! tools.

use crate::open::open_enum;
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Start of a LOG or TRACE section; the ring is the largest power of two of bytes that fits behind
/// it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct RingHeader {
    /// Device: bytes written since the epoch began, mod 2^32; published with Release behind the
    /// bytes.
    pub written: u32,
    /// Device: frames dropped because the reader was behind.
    pub dropped: u32,
    /// Host: bytes consumed, mod 2^32; its distance to `written` is never more than the ring.
    pub consumed: u32,
    /// Host: least severe level wanted ([`LogLevel`]).
    pub level: u32,
    /// Host: nonzero while a reader must not lose frames that it has not seen. Zero: new frames
    /// overwrite the oldest.
    pub reader: u32,
    /// Device: frames written since the epoch began, mod 2^32; published behind the `written` that
    /// includes them. These and `dropped`, less the frames that a reader found, are what it has
    /// lost.
    pub frames: u32,
    /// Zero.
    pub reserved: [u32; 10],
}
const _: () = assert!(size_of::<RingHeader>() == 64 && RingHeader::WRITTEN == 0 && RingHeader::DROPPED == 4);
const _: () = assert!(RingHeader::CONSUMED == 8 && RingHeader::LEVEL == 12);
const _: () = assert!(RingHeader::READER == 16 && RingHeader::FRAMES == 20);

impl RingHeader {
    /// Offset of `written`.
    pub const WRITTEN: u64 = offset_of!(Self, written) as u64;
    /// Offset of `dropped`.
    pub const DROPPED: u64 = offset_of!(Self, dropped) as u64;
    /// Offset of `consumed`.
    pub const CONSUMED: u64 = offset_of!(Self, consumed) as u64;
    /// Offset of `level`.
    pub const LEVEL: u64 = offset_of!(Self, level) as u64;
    /// Offset of `reader`.
    pub const READER: u64 = offset_of!(Self, reader) as u64;
    /// Offset of `frames`.
    pub const FRAMES: u64 = offset_of!(Self, frames) as u64;
    /// Bytes of a header.
    pub const BYTES: u64 = size_of::<Self>() as u64;
    /// Longest frame of a log ring, its end mark included.
    pub const MAX_FRAME: u32 = 1024;

    /// Bytes of ring in a section of `section_len`; 0 when not even one frame fits.
    pub const fn ring_len(section_len: u64) -> u32 {
        // Longer rings would make "bytes written" ambiguous.
        const LONGEST: u64 = 1 << 30;
        let room = section_len.saturating_sub(Self::BYTES);
        let room = if room > LONGEST { LONGEST } else { room };
        match room.checked_ilog2() {
            Some(log2) if 1 << log2 >= Self::MAX_FRAME => 1 << log2,
            _ => 0,
        }
    }
}

open_enum! {
    /// How severe a log frame is, and which frames the host wants. Smaller is more severe.
    #[derive(PartialOrd, Ord)]
    LogLevel(u32),
    /// Its name, lower case.
    name or "unknown" {
        /// A failure that is not reported to a caller.
        ERROR = 0 => "error",
        /// Something is odd.
        WARN = 1 => "warn",
        /// Steps in the epoch of the device.
        INFO = 2 => "info",
        /// What helps to find a mistake.
        DEBUG = 3 => "debug",
        /// Everything.
        TRACE = 4 => "trace",
    }
}

impl LogLevel {
    /// Every level, the most severe first.
    pub const ALL: [Self; 5] = [Self::ERROR, Self::WARN, Self::INFO, Self::DEBUG, Self::TRACE];
}

/// The CRASH section: why the image last had to be reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct CrashRecord {
    /// [`CrashRecord::VALID`] when the other fields are valid; written last.
    pub valid: u32,
    /// Epoch it happened in.
    pub epoch: u32,
    /// Cause, ISA-specific (trap number), or 0 for a panic.
    pub cause: u32,
    /// Bytes of `text` used.
    pub text_len: u32,
    /// Program counter.
    pub pc: u64,
    /// Faulting address.
    pub address: u64,
    /// Return addresses, innermost first; 0 ends.
    pub frames: [u64; 12],
    /// Stack pointer; 0 of a panic.
    pub stack: u64,
    /// Message, UTF-8.
    pub text: [u8; CrashRecord::TEXT],
}
const _: () = assert!(size_of::<CrashRecord>() == 512 && offset_of!(CrashRecord, text) == 136);

impl CrashRecord {
    /// Most bytes of a message.
    pub const TEXT: usize = 376;
    /// "CRSH".
    pub const VALID: u32 = u32::from_le_bytes(*b"CRSH");
}
