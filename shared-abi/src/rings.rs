//! Log ring, trace ring and crash record (abi §9): written by the device, read by whoever looks.

/// Start of a LOG or TRACE section; the ring is the largest power of two of bytes that fits behind it.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Debug,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::KnownLayout,
    zerocopy::Immutable,
)]
#[repr(C)]
pub struct RingHeader {
    /// Device: bytes written since the epoch began, mod 2^32; published with Release behind the bytes.
    pub written: u32,
    /// Device: frames dropped because the reader was behind.
    pub dropped: u32,
    /// Host: bytes consumed, mod 2^32; its distance to `written` is never more than the ring.
    pub consumed: u32,
    /// Host: least severe level wanted ([`LogLevel`]).
    pub level: u32,
    /// Host: nonzero while somebody reads, who must not lose what he has not seen. Zero: new frames take the place of the oldest.
    pub reader: u32,
    /// Device: frames written since the epoch began, mod 2^32; published behind the `written` that includes them. What a reader has
    /// not seen of them and of `dropped`, nobody will.
    pub frames: u32,
    /// Zero.
    pub reserved: [u32; 10],
}
const _: () = assert!(size_of::<RingHeader>() == 64 && core::mem::offset_of!(RingHeader, level) == 12);
const _: () = assert!(core::mem::offset_of!(RingHeader, reader) == RingHeader::READER as usize);
const _: () = assert!(core::mem::offset_of!(RingHeader, frames) == RingHeader::FRAMES as usize);

impl RingHeader {
    /// Offset of `written`.
    pub const WRITTEN: u64 = 0;
    /// Offset of `dropped`.
    pub const DROPPED: u64 = 4;
    /// Offset of `consumed`.
    pub const CONSUMED: u64 = 8;
    /// Offset of `level`.
    pub const LEVEL: u64 = 12;
    /// Offset of `reader`.
    pub const READER: u64 = 16;
    /// Offset of `frames`.
    pub const FRAMES: u64 = 20;
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

/// How severe a line of log is, and which lines are wanted. Smaller is more severe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct LogLevel(pub u32);

impl LogLevel {
    /// Something failed that nobody else reports.
    pub const ERROR: Self = Self(0);
    /// Something is odd.
    pub const WARN: Self = Self(1);
    /// Steps in the epoch of the device.
    pub const INFO: Self = Self(2);
    /// What helps to find a mistake.
    pub const DEBUG: Self = Self(3);
    /// Everything.
    pub const TRACE: Self = Self(4);
    /// Every level, the most severe first.
    pub const ALL: [Self; 5] = [Self::ERROR, Self::WARN, Self::INFO, Self::DEBUG, Self::TRACE];

    /// Its name, lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ERROR => "error",
            Self::WARN => "warn",
            Self::INFO => "info",
            Self::DEBUG => "debug",
            Self::TRACE => "trace",
            _ => "unknown",
        }
    }
}

/// The CRASH section: why the image last had to be reset.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Debug,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::KnownLayout,
    zerocopy::Immutable,
)]
#[repr(C)]
pub struct CrashRecord {
    /// [`CrashRecord::VALID`] when the rest holds; written last.
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
const _: () = assert!(size_of::<CrashRecord>() == 512 && core::mem::offset_of!(CrashRecord, text) == 136);

impl CrashRecord {
    /// Most bytes of a message.
    pub const TEXT: usize = 376;
    /// "CRSH".
    pub const VALID: u32 = u32::from_le_bytes(*b"CRSH");
}
