//! Completions (abi §16.4).

use super::{WcOpcode, WcStatus};
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The outcome of one work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct CompletionEntry {
    /// The program's number of the request.
    pub id: u64,
    /// The outcome.
    pub status: WcStatus,
    /// What it was.
    pub opcode: WcOpcode,
    /// Bytes received, or read.
    pub length: u32,
    /// With [`CompletionEntry::WITH_IMM`]: the immediate value.
    pub immediate: u32,
    /// The number of the queue pair.
    pub qp_number: u32,
    /// The number of the one that sent.
    pub source: u32,
    /// [`CompletionEntry::WITH_IMM`], [`CompletionEntry::GRH`].
    pub flags: u32,
    /// 0, or 1 + the index of the shared receive queue that the request was in.
    pub srq: u16,
    /// The generation of that, else of the queue pair.
    pub generation: u16,
    /// The index of the queue pair.
    pub qp: u16,
    /// Zero.
    pub reserved: u16,
    /// The position of the request in its queue, plus 1, modulo 2^32. Those before it are done as well, but for those
    /// of a shared receive queue.
    pub retired: u32,
    /// Zero; later: the adapter's clock.
    pub reserved2: [u32; 3],
    /// The published word.
    pub word: u32,
}
const _: () = assert!(size_of::<CompletionEntry>() == 64 && offset_of!(CompletionEntry, word) == 60);
const _: () = assert!(offset_of!(CompletionEntry, qp) == 40 && offset_of!(CompletionEntry, retired) == 44);

impl CompletionEntry {
    /// 40 bytes of headers are before the message (`IBV_WC_GRH`).
    pub const GRH: u32 = 1;
    /// It brings an immediate value (`IBV_WC_WITH_IMM`).
    pub const WITH_IMM: u32 = 2;
}
