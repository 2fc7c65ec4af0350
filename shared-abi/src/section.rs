//! The table of sections: what lies where in the window (abi §3.5).

use crate::open::open_enum;
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

open_enum! {
    /// What a section contains: an older peer skips kinds that it does not know.
    #[derive(FromBytes, Immutable, IntoBytes, KnownLayout)]
    #[repr(transparent)]
    SectionKind(u32),
    /// The name in dumps.
    name or "unknown" {
        /// An unused table entry.
        NONE = 0 => "none",
        /// Queue pair descriptors ([`crate::queue::QueueDescriptor`]); descriptor 0 is the control
        /// stream.
        QUEUES = 1 => "queues",
        /// The slots of every queue pair.
        LINES = 2 => "lines",
        /// The staging chunks of every queue pair.
        CHUNKS = 3 => "chunks",
        /// The device's handler table ([`crate::table`]).
        TABLE = 4 => "table",
        /// Device log ring ([`crate::rings::RingHeader`]).
        LOG = 5 => "log",
        /// Device trace ring ([`crate::rings::RingHeader`]).
        TRACE = 6 => "trace",
        /// The record of the image's last crash ([`crate::rings::CrashRecord`]).
        CRASH = 7 => "crash",
        /// The heap: buffers that handlers read and write.
        HEAP = 8 => "heap",
        /// Tasks, and calls to the host ([`crate::tasks`]).
        TASKS = 9 => "tasks",
        /// Queues and registered memory of a host channel adapter (abi §16).
        VERBS = 13 => "verbs",
        /// What is copied into the heap of a device that drives its host's memory, or out of it ([`crate::staging`]).
        STAGING = 14 => "staging",
    }
}

/// One entry of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Section {
    /// What it contains.
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
const _: () = assert!(size_of::<Section>() == 32 && offset_of!(Section, len) == 16);

/// Bytes at the front of a section VERBS that an offer zeroes: its pages and its objects.
pub const VERBS_FRONT: u64 = 0xA000;
/// Where its wait word is in VERBS (abi §7.1, §16.1): the adapter's.
pub const VERBS_WAIT: u64 = 0x2040;

impl Section {
    /// An unused entry.
    pub const EMPTY: Self = Self { kind: SectionKind::NONE, reserved: 0, off: 0, len: 0, reserved2: 0 };

    /// One past the last byte; `None` when that overflows.
    pub const fn end(&self) -> Option<u64> {
        self.off.checked_add(self.len)
    }
}
