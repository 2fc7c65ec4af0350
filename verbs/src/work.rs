//! Work requests, and how they are written.

use crate::datagram::Address;
use crate::error::VerbsError;
use crate::ids::Remote;
use crate::wire::{
    ATOMIC, MAX_INLINE, MAX_MESSAGE, MAX_RECEIVE_SGE, MAX_SEND_SGE, Opcode, ReceiveEntry, SendEntry, Sge,
};
use zerocopy::{FromZeros, IntoBytes};

/// A request to move data. It has a completion, unless it is [`Self::quiet`] and succeeds. Registered memory that it
/// names stays as it is until then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendWr<'a> {
    id: u64,
    opcode: Opcode,
    local: Local<'a>,
    remote: Remote,
    operands: [u64; 2],
    immediate: Option<u32>,
    is_quiet: bool,
}

/// The near end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Local<'a> {
    Regions(&'a [Sge]),
    /// The one of an atomic access.
    Region(Sge),
    Inline(&'a [u8]),
}

impl<'a> SendWr<'a> {
    const fn new(id: u64, opcode: Opcode, local: Local<'a>, remote: Remote) -> Self {
        Self { id, opcode, local, remote, operands: [0; 2], immediate: None, is_quiet: false }
    }

    /// Sends up to five parts of registered memory, one behind the other, to a receive request of the peer.
    pub const fn send(id: u64, from: &'a [Sge]) -> Self {
        Self::new(id, Opcode::SEND, Local::Regions(from), Remote::NONE)
    }

    /// Sends up to 92 bytes, which are copied now.
    pub const fn inline(id: u64, bytes: &'a [u8]) -> Self {
        Self::new(id, Opcode::SEND, Local::Inline(bytes), Remote::NONE)
    }

    /// Writes up to five parts to memory of the peer.
    pub const fn write(id: u64, from: &'a [Sge], to: Remote) -> Self {
        Self::send(id, from).to(to)
    }

    /// A send becomes a write to memory of the peer, which uses up no receive request. Its last byte is stored last.
    pub const fn to(self, remote: Remote) -> Self {
        Self { opcode: Opcode::WRITE, remote, ..self }
    }

    /// Reads memory of the peer into up to five parts.
    pub const fn read(id: u64, into: &'a [Sge], from: Remote) -> Self {
        Self::new(id, Opcode::READ, Local::Regions(into), from)
    }

    /// Adds to the u64 at the peer, which wraps; its value before goes into eight bytes here.
    pub const fn fetch_add(id: u64, into: Sge, at: Remote, add: u64) -> Self {
        Self { operands: [add, 0], ..Self::new(id, Opcode::FETCH_ADD, Local::Region(into), at) }
    }

    /// Sets the u64 at the peer to `new` if it is `old`; its value before goes into eight bytes here.
    pub const fn compare_swap(id: u64, into: Sge, at: Remote, old: u64, new: u64) -> Self {
        Self { operands: [old, new], ..Self::new(id, Opcode::COMPARE_SWAP, Local::Region(into), at) }
    }

    /// A send becomes a datagram for a queue pair there that has this key; with the top bit set: the key of its own.
    pub const fn datagram(self, to: Address<'_>, qp_number: u32, qkey: u32) -> Self {
        Self { remote: to.remote(qp_number, qkey), ..self }
    }

    /// Gives a send or a write an immediate value, which the peer's next receive request completes with.
    pub const fn imm(self, value: u32) -> Self {
        Self { immediate: Some(value), ..self }
    }

    /// It has no completion if it succeeds (unsignaled). Its entry is free behind the completion of a later request.
    pub const fn quiet(self) -> Self {
        Self { is_quiet: true, ..self }
    }

    pub(crate) const fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    #[inline]
    pub(crate) fn encode(&self) -> Result<SendEntry, VerbsError> {
        let Self { id, remote: Remote { addr: remote, rkey }, .. } = *self;
        let mut entry = SendEntry { id, remote, rkey, ..SendEntry::new_zeroed() };
        let opcode = match (self.opcode, self.immediate) {
            (opcode, None) => opcode,
            (Opcode::SEND, Some(_)) => Opcode::SEND_IMM,
            (Opcode::WRITE, Some(_)) => Opcode::WRITE_IMM,
            _ => return Err(VerbsError::Unsupported),
        };
        entry.immediate = self.immediate.unwrap_or_default();
        let (mut flags, mut count) = (if self.is_quiet { 0 } else { SendEntry::SIGNALED }, 0);
        let second = match &self.local {
            Local::Inline(bytes) if bytes.len() > MAX_INLINE => {
                return Err(VerbsError::InlineTooLong(MAX_INLINE as u32));
            }
            Local::Inline(bytes) => {
                flags |= SendEntry::INLINE;
                entry.length = bytes.len() as u32;
                let (first, second) = bytes.split_at(bytes.len().min(entry.first.len()));
                fill(&mut entry.first, first);
                second
            }
            Local::Regions(sges) => {
                entry.length = total(sges, MAX_SEND_SGE)?;
                count = sges.len();
                let (first, second) = sges.split_at(sges.len().min(1));
                first.iter().for_each(|sge| fill(&mut entry.first, sge.as_bytes()));
                second.as_bytes()
            }
            Local::Region(sge) if sge.len != ATOMIC => return Err(VerbsError::Length),
            Local::Region(sge) => {
                (entry.length, count) = (ATOMIC, 1);
                entry.set_operands(self.operands);
                fill(&mut entry.first, sge.as_bytes());
                &[]
            }
        };
        if !second.is_empty() || self.opcode == Opcode::COMPARE_SWAP {
            flags |= SendEntry::TWO_LINES;
            fill(&mut entry.second, second);
        }
        entry.head = SendEntry::head(opcode, flags, count);
        Ok(entry)
    }
}

/// A request to receive.
#[inline]
pub(crate) fn receive(id: u64, into: &[Sge]) -> Result<ReceiveEntry, VerbsError> {
    total(into, MAX_RECEIVE_SGE)?;
    let mut entry = ReceiveEntry { sges: into.len() as u32, id, ..ReceiveEntry::new_zeroed() };
    entry.sge.iter_mut().zip(into).for_each(|(to, sge)| *to = *sge);
    Ok(entry)
}

/// Copies to the front of a longer field.
fn fill(to: &mut [u8], from: &[u8]) {
    if let Some(to) = to.get_mut(..from.len()) {
        to.copy_from_slice(from);
    }
}

/// The bytes of at most so many parts.
#[inline]
fn total(sges: &[Sge], most: usize) -> Result<u32, VerbsError> {
    if sges.len() > most {
        return Err(VerbsError::TooManySges(most as u32));
    }
    let sum: u64 = sges.iter().map(|sge| u64::from(sge.len)).sum();
    if sum > MAX_MESSAGE { Err(VerbsError::Length) } else { Ok(sum as u32) }
}
