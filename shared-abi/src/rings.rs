//! Log ring, trace ring and crash record (abi §9): written by the device, read by whoever looks.

/// Start of a LOG or TRACE section; the bytes behind it are the ring.
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
    /// Host: least severe level wanted (0 error … 4 trace).
    pub level: u32,
    /// Zero.
    pub reserved: [u32; 12],
}
const _: () = assert!(size_of::<RingHeader>() == 64 && core::mem::offset_of!(RingHeader, level) == 12);

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
    /// Message, UTF-8.
    pub text: [u8; 384],
}
const _: () = assert!(size_of::<CrashRecord>() == 512 && core::mem::offset_of!(CrashRecord, text) == 128);

impl CrashRecord {
    /// "CRSH".
    pub const VALID: u32 = u32::from_le_bytes(*b"CRSH");
}
