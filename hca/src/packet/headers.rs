//! Transport headers.

use super::opcode::{Opcode, Operation};
use super::{MASK, Refused};
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What the headers of a packet say. Fields that the opcode has not are zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What the packet does.
    pub opcode: Opcode,
    /// Its completion is an event.
    pub is_solicited: bool,
    /// The sender wants an acknowledgement.
    pub wants_acknowledge: bool,
    /// The number of the queue pair that it is for.
    pub to: u32,
    /// Its sequence number.
    pub psn: u32,
    /// A range at the peer.
    pub reth: Reth,
    /// An acknowledgement.
    pub acknowledge: Acknowledge,
    /// The operands of an atomic.
    pub atomic: AtomicEth,
    /// What an atomic found.
    pub original: u64,
    /// An immediate value, or a key that is given up.
    pub immediate: u32,
    /// The sender of a datagram.
    pub deth: Deth,
}

/// A range at the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reth {
    /// Its address.
    pub addr: u64,
    /// The key of its region.
    pub rkey: u32,
    /// Its bytes.
    pub length: u32,
}

/// An atomic at the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AtomicEth {
    /// The address.
    pub addr: u64,
    /// The key of its region.
    pub rkey: u32,
    /// What is added, or the new value.
    pub swap_add: u64,
    /// What must be there.
    pub compare: u64,
}

/// The sender of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deth {
    /// The key that the receiver must have.
    pub qkey: u32,
    /// The number of its queue pair.
    pub source: u32,
}

/// How far requests have come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Acknowledge {
    /// The outcome.
    pub syndrome: Syndrome,
    /// Messages that are complete, modulo 2^24.
    pub msn: u32,
}

/// An outcome that a responder tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Syndrome(pub u8);

impl Syndrome {
    /// It has come, with credits without limit.
    pub const ACK: Self = Self(0x1F);
    /// No receive request is there; with the code of a time in the low bits.
    pub const RNR_NAK: Self = Self(0x20);
    /// Another packet was expected.
    pub const NAK_SEQUENCE: Self = Self(0x60);
    /// The request is malformed, or too long.
    pub const NAK_INVALID: Self = Self(0x61);
    /// The key, range or right is wrong.
    pub const NAK_ACCESS: Self = Self(0x62);
    /// The responder's receive request is wrong.
    pub const NAK_OPERATION: Self = Self(0x63);

    /// It has come.
    pub const fn is_ack(self) -> bool {
        self.0 >> 5 == 0
    }

    /// The code of the time to wait, if no receive request was there.
    pub const fn rnr(self) -> Option<u8> {
        if self.0 >> 5 == 1 { Some(self.0 & 0x1F) } else { None }
    }
}

/// The base transport header.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Bth {
    opcode: u8,
    /// Solicited 0x80, migrated 0x40, padding 0x30, version 0x0F.
    flags: u8,
    partition: U16,
    /// Eight bits that the check value leaves out, then the number of the queue pair.
    to: U32,
    /// Wants an acknowledgement (top bit), seven reserved bits, the sequence number.
    psn: U32,
}
const _: () = assert!(size_of::<Bth>() == 12);

const SOLICITED: u8 = 0x80;
const MIGRATED: u8 = 0x40;
const WANTS_ACKNOWLEDGE: u32 = 1 << 31;
/// The partition that all are in.
const PARTITION: u16 = 0xFFFF;

impl Bth {
    pub(super) fn of(header: &Header, padding: usize) -> Self {
        let solicited = if header.is_solicited { SOLICITED } else { 0 };
        let wants = if header.wants_acknowledge { WANTS_ACKNOWLEDGE } else { 0 };
        Self {
            // The engine makes opcodes from the table only; the number of none is one that no peer takes.
            opcode: header.opcode.number().unwrap_or(u8::MAX),
            flags: solicited | MIGRATED | (padding as u8) << 4,
            partition: PARTITION.into(),
            to: (header.to & MASK).into(),
            psn: (wants | header.psn & MASK).into(),
        }
    }

    /// What it says, and the bytes of padding.
    pub(super) fn parse(&self) -> Result<(Header, usize), Refused> {
        if self.flags & 0xF != 0 {
            return Err(Refused::Version);
        }
        // The top bit tells full members from limited ones, which may not talk with each other.
        if self.partition.get() & 0x7FFF != PARTITION & 0x7FFF {
            return Err(Refused::Partition);
        }
        let opcode = Opcode::parse(self.opcode).ok_or(Refused::Opcode)?;
        let header = Header {
            is_solicited: self.flags & SOLICITED != 0,
            wants_acknowledge: self.psn.get() & WANTS_ACKNOWLEDGE != 0,
            ..Header::new(opcode, self.to.get() & MASK, self.psn.get() & MASK)
        };
        Ok((header, usize::from(self.flags >> 4 & 3)))
    }
}

impl Header {
    /// A packet without anything else.
    pub const fn new(opcode: Opcode, to: u32, psn: u32) -> Self {
        Self {
            opcode,
            is_solicited: false,
            wants_acknowledge: false,
            to,
            psn,
            reth: Reth { addr: 0, rkey: 0, length: 0 },
            acknowledge: Acknowledge { syndrome: Syndrome(0), msn: 0 },
            atomic: AtomicEth { addr: 0, rkey: 0, swap_add: 0, compare: 0 },
            original: 0,
            immediate: 0,
            deth: Deth { qkey: 0, source: 0 },
        }
    }

    /// Takes the headers behind the first one that the opcode has.
    pub(super) fn read_extensions(&mut self, rest: &mut &[u8]) -> Option<()> {
        let opcode = self.opcode;
        if opcode.is_datagram {
            let [qkey, source] = take::<[U32; 2]>(rest)?;
            self.deth = Deth { qkey: qkey.get(), source: source.get() & MASK };
        }
        if opcode.has_reth() {
            let (addr, [rkey, length]) = (take::<U64>(rest)?, take::<[U32; 2]>(rest)?);
            self.reth = Reth { addr: addr.get(), rkey: rkey.get(), length: length.get() };
        }
        if opcode.is_atomic() {
            let (addr, rkey, [swap_add, compare]) = (take::<U64>(rest)?, take::<U32>(rest)?, take::<[U64; 2]>(rest)?);
            let (swap_add, compare) = (swap_add.get(), compare.get());
            self.atomic = AtomicEth { addr: addr.get(), rkey: rkey.get(), swap_add, compare };
        }
        if opcode.has_aeth() {
            let word = take::<U32>(rest)?.get();
            self.acknowledge = Acknowledge { syndrome: Syndrome((word >> 24) as u8), msn: word & MASK };
        }
        if opcode.operation == Operation::AtomicAcknowledge {
            self.original = take::<U64>(rest)?.get();
        }
        if opcode.has_immediate || opcode.has_invalidate {
            self.immediate = take::<U32>(rest)?.get();
        }
        Some(())
    }

    /// Appends them.
    pub(super) fn write_extensions(&self, to: &mut Vec<u8>) {
        let opcode = self.opcode;
        if opcode.is_datagram {
            to.extend_from_slice([U32::new(self.deth.qkey), U32::new(self.deth.source & MASK)].as_bytes());
        }
        if opcode.has_reth() {
            to.extend_from_slice(&self.reth.addr.to_be_bytes());
            to.extend_from_slice([U32::new(self.reth.rkey), U32::new(self.reth.length)].as_bytes());
        }
        if opcode.is_atomic() {
            to.extend_from_slice(&self.atomic.addr.to_be_bytes());
            to.extend_from_slice(&self.atomic.rkey.to_be_bytes());
            to.extend_from_slice([U64::new(self.atomic.swap_add), U64::new(self.atomic.compare)].as_bytes());
        }
        if opcode.has_aeth() {
            let Acknowledge { syndrome, msn } = self.acknowledge;
            to.extend_from_slice(&(u32::from(syndrome.0) << 24 | msn & MASK).to_be_bytes());
        }
        if opcode.operation == Operation::AtomicAcknowledge {
            to.extend_from_slice(&self.original.to_be_bytes());
        }
        if opcode.has_immediate || opcode.has_invalidate {
            to.extend_from_slice(&self.immediate.to_be_bytes());
        }
    }
}

fn take<T: FromBytes + Unaligned>(rest: &mut &[u8]) -> Option<T> {
    let (value, behind) = T::read_from_prefix(rest).ok()?;
    *rest = behind;
    Some(value)
}
