//! What a queue pair does with the requests of another adapter's.

use super::Engine;
use super::apply::{Nak, Ranges, Source};
use super::remote::{Inbound, Remote};
use crate::connection::{Arrival, Psn};
use crate::packet::{Header, Operation, Syndrome};
use hamr_comm::abi::window::AtomicOp;
use hamr_verbs::wire::{ATOMIC, Access, MAX_MESSAGE, QpState};

impl Nak {
    /// What the requester is told. `None`: to ask again.
    fn syndrome(self) -> Option<Syndrome> {
        Some(match self {
            Self::NotReady => return None,
            Self::Invalid => Syndrome::NAK_INVALID,
            Self::Access => Syndrome::NAK_ACCESS,
            Self::Operation | Self::Local => Syndrome::NAK_OPERATION,
        })
    }
}

impl<K> Engine<K> {
    /// Takes a packet of a request.
    pub(super) fn respond(&mut self, now: u64, index: usize, remote: &mut Remote, header: &Header, payload: &[u8]) {
        // One that has refused something says so again, and what it said before.
        if !self.is_ready(index) && !remote.responder.has_refused() {
            return;
        }
        let psn = Psn::new(header.psn);
        let done = match remote.responder.arrive(psn) {
            Arrival::Ignored => return,
            Arrival::Duplicate => return self.repeat(remote, header),
            Arrival::New => match header.opcode.operation {
                Operation::Send => self.take_send(index, remote, header, payload),
                Operation::Write => self.take_write(index, remote, header, payload),
                // Requests are whole.
                _ if remote.inbound.is_some() => Err(Nak::Invalid),
                Operation::ReadRequest => self.take_read(remote, header),
                _ => self.take_atomic(index, remote, header),
            },
        };
        match done.map_err(Nak::syndrome) {
            Ok(()) => {
                // Others wait for what it has taken of a shared receive queue: as long as the peer tries by itself.
                let holds = matches!(remote.inbound, Some(Inbound::Send)) && self.has_shared_receives(index);
                let limit = holds.then(|| remote.responder.patience()).flatten();
                remote.give_up = limit.map(|limit| now.saturating_add(limit));
            }
            Err(None) => remote.responder.not_ready(),
            Err(Some(syndrome)) => {
                remote.responder.refuse(psn, syndrome);
                remote.inbound = None;
                self.set_state(index, QpState::ERR);
            }
        }
    }

    /// Answers a packet that came before.
    fn repeat(&mut self, remote: &mut Remote, header: &Header) {
        let (psn, responder) = (Psn::new(header.psn), &mut remote.responder);
        match header.opcode.operation {
            Operation::Send | Operation::Write => responder.duplicate(),
            Operation::ReadRequest => responder.duplicate_read(psn, header.reth),
            _ => responder.duplicate_atomic(psn),
        }
    }

    /// Has a packet of a message a payload that it can have?
    fn is_whole(remote: &Remote, header: &Header, payload: &[u8]) -> bool {
        let (length, mtu) = (payload.len() as u64, remote.responder.mtu());
        if header.opcode.is_last { length <= mtu } else { length == mtu }
    }

    /// Takes a packet of a message for a receive request.
    fn take_send(&mut self, index: usize, remote: &mut Remote, header: &Header, payload: &[u8]) -> Result<(), Nak> {
        let (opcode, length) = (header.opcode, payload.len() as u64);
        let begins = match remote.inbound {
            None => opcode.is_first,
            Some(Inbound::Send) => !opcode.is_first,
            Some(Inbound::Write { .. }) => false,
        };
        // Keys that the peer gives up are for memory windows, which are not here.
        if !begins || !Self::is_whole(remote, header, payload) || opcode.has_invalidate {
            return Err(Nak::Invalid);
        }
        if opcode.is_first {
            self.begin_receive(index, length)?;
            remote.inbound = Some(Inbound::Send);
        }
        if opcode.is_last && !self.has_room(None, Some(index)) {
            return Err(Nak::Operation);
        }
        self.receive_segment(index, &Source::Bytes(payload), length)?;
        if opcode.is_last {
            remote.inbound = None;
            self.end_receive(index, opcode.has_immediate.then_some(header.immediate));
        }
        remote.responder.taken(opcode.is_last, header.wants_acknowledge);
        Ok(())
    }

    /// Takes a packet of a message for memory.
    fn take_write(&mut self, index: usize, remote: &mut Remote, header: &Header, payload: &[u8]) -> Result<(), Nak> {
        let (opcode, length, reth) = (header.opcode, payload.len() as u64, header.reth);
        let (to, at) = match remote.inbound {
            None if opcode.is_first && u64::from(reth.length) <= MAX_MESSAGE => {
                (Ranges::remote(reth.addr, reth.rkey, reth.length, Access::REMOTE_WRITE), 0)
            }
            Some(Inbound::Write { to, at }) if !opcode.is_first => (to, at),
            _ => return Err(Nak::Invalid),
        };
        // As many bytes as the first packet has said.
        let (left, is_whole) = (to.len() - at, Self::is_whole(remote, header, payload));
        if !is_whole || (if opcode.is_last { length != left } else { length >= left }) {
            return Err(Nak::Invalid);
        }
        if opcode.has_immediate {
            if !self.has_receive(index) {
                return Err(Nak::NotReady);
            }
            if !self.has_room(None, Some(index)) {
                return Err(Nak::Operation);
            }
        }
        self.write_segment(index, &Source::Bytes(payload), &to, at, length)?;
        if opcode.has_immediate {
            self.end_write(index, to.len(), header.immediate)?;
        }
        remote.inbound = (!opcode.is_last).then_some(Inbound::Write { to, at: at + length });
        remote.responder.taken(opcode.is_last, header.wants_acknowledge);
        Ok(())
    }

    /// Takes a request for memory, which is read when it is sent.
    fn take_read(&mut self, remote: &mut Remote, header: &Header) -> Result<(), Nak> {
        let reth = header.reth;
        if u64::from(reth.length) > MAX_MESSAGE || !remote.responder.can_answer(reth.length) {
            return Err(Nak::Invalid);
        }
        if self.total(&Ranges::remote(reth.addr, reth.rkey, reth.length, Access::REMOTE_READ)).is_none() {
            return Err(Nak::Access);
        }
        remote.responder.read(reth);
        Ok(())
    }

    /// Takes an atomic.
    fn take_atomic(&mut self, index: usize, remote: &mut Remote, header: &Header) -> Result<(), Nak> {
        let operands = header.atomic;
        let op = match header.opcode.operation {
            Operation::CompareSwap => AtomicOp::CompareSwap { expected: operands.compare, new: operands.swap_add },
            _ => AtomicOp::Add(operands.swap_add),
        };
        let at = Ranges::remote(operands.addr, operands.rkey, ATOMIC, Access::REMOTE_ATOMIC);
        let original = self.atomic(index, &at, op)?;
        remote.responder.atomic(original);
        Ok(())
    }
}
