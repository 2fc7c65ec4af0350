//! The table of sections: what lies where in the window (abi §3.5).

/// What a section holds. Open: an older peer skips kinds it does not know.
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
#[repr(transparent)]
pub struct SectionKind(pub u32);

impl SectionKind {
    /// An unused table entry.
    pub const NONE: Self = Self(0);
    /// Queue pair descriptors ([`crate::queue::QueueDescriptor`]); descriptor 0 is the control stream.
    pub const QUEUES: Self = Self(1);
    /// The slots' lines of every queue pair.
    pub const LINES: Self = Self(2);
    /// The staging chunks of every queue pair.
    pub const CHUNKS: Self = Self(3);
    /// The device's handler table ([`crate::table`]).
    pub const TABLE: Self = Self(4);
    /// Device log ring ([`crate::rings::RingHeader`]).
    pub const LOG: Self = Self(5);
    /// Device trace ring ([`crate::rings::RingHeader`]).
    pub const TRACE: Self = Self(6);
    /// The record of the image's last crash ([`crate::rings::CrashRecord`]).
    pub const CRASH: Self = Self(7);
    /// The heap: buffers that handlers read and write.
    pub const HEAP: Self = Self(8);

    /// The name in dumps.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NONE => "none",
            Self::QUEUES => "queues",
            Self::LINES => "lines",
            Self::CHUNKS => "chunks",
            Self::TABLE => "table",
            Self::LOG => "log",
            Self::TRACE => "trace",
            Self::CRASH => "crash",
            Self::HEAP => "heap",
            _ => "unknown",
        }
    }
}

/// One entry of the table.
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
pub struct Section {
    /// What it holds.
    pub kind: SectionKind,
    /// Zero.
    pub reserved: u32,
    /// Offset in the window, a multiple of 64.
    pub off: u64,
    /// Bytes.
    pub len: u64,
    /// Zero.
    pub reserved2: u64,
}
const _: () = assert!(size_of::<Section>() == 32 && core::mem::offset_of!(Section, len) == 16);

impl Section {
    /// An unused entry.
    pub const EMPTY: Self = Self { kind: SectionKind::NONE, reserved: 0, off: 0, len: 0, reserved2: 0 };

    /// One past the last byte; `None` when that overflows.
    pub const fn end(&self) -> Option<u64> {
        self.off.checked_add(self.len)
    }
}
