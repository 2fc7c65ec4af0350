//! Completions (abi §16.4).

use super::{Opcode, WcStatus};
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
    /// [`Opcode::WC_SEND`] or [`Opcode::WC_RECV`].
    pub opcode: Opcode,
    /// Bytes received.
    pub length: u32,
    /// Zero; later: the immediate value.
    pub immediate: u32,
    /// The number of the queue pair.
    pub qp_number: u32,
    /// The number of the one that sent.
    pub source: u32,
    /// Zero; later: flags, and the adapter's reason.
    pub reserved: [u32; 2],
    /// The index of the queue pair.
    pub qp: u16,
    /// Zero.
    pub reserved2: u16,
    /// Requests of the queue that are done, this one included, modulo 2^32.
    pub retired: u32,
    /// Zero; later: the adapter's clock.
    pub reserved3: [u32; 3],
    /// The published word.
    pub word: u32,
}
const _: () = assert!(size_of::<CompletionEntry>() == 64 && offset_of!(CompletionEntry, word) == 60);
const _: () = assert!(offset_of!(CompletionEntry, qp) == 40 && offset_of!(CompletionEntry, retired) == 44);
