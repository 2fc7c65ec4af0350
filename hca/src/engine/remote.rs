//! Connections with queue pairs of other adapters: which packet a queue pair sends next, and what comes to one that asked.

use super::Engine;
use super::copy::Part;
use super::objects::Done;
use super::send::Message;
use crate::connection::{Class, Path, Psn, Reply, Requester, Responder, Segment};
use crate::packet::{self, Acknowledge, Header, Opcode as PacketOpcode, Operation, Syndrome};
use hamr_verbs::wire::{MAX_RECEIVE_SGE, Opcode, QpState, RemoteEnd, Reply as Answer, WcStatus};
use std::net::Ipv4Addr;

/// A connection with a queue pair of another adapter.
pub(super) struct Remote {
    pub(super) to: Ipv4Addr,
    /// The number of that queue pair.
    pub(super) number: u32,
    requester: Requester<Message>,
    pub(super) responder: Responder,
    /// A message of which a part has come.
    pub(super) inbound: Option<Inbound>,
}

/// A message of which a part has come.
pub(super) struct Inbound {
    /// The number of its receive request.
    pub(super) id: u64,
    pub(super) to: [Part; MAX_RECEIVE_SGE],
    pub(super) room: u64,
    /// Bytes that have come.
    pub(super) at: u64,
}

impl<K> Engine<K> {
    /// Connects a queue pair with one of another adapter.
    pub(super) fn connect_remote(&mut self, index: u16, end: &RemoteEnd) -> Result<(), Answer> {
        let (mtu, timeout, retry) = (end.mtu.into(), end.timeout, end.retry);
        let path = Path { mtu, timeout, retry, rnr_retry: 7, rnr_timer: 12 };
        let numbers = [end.qp_number, end.psn, end.own_psn];
        if !path.is_valid() || end.reserved != 0 || numbers.iter().any(|number| *number > packet::MASK) {
            return Err(Answer::MALFORMED);
        }
        let index = usize::from(index);
        let qp = self.qp_mut(index).filter(|qp| qp.state == QpState::INIT).ok_or(Answer::STATE)?;
        qp.peer_number = end.qp_number;
        qp.remote = Some(Box::new(Remote {
            to: end.address.into(),
            number: end.qp_number,
            requester: Requester::new(path, Psn::new(end.own_psn)),
            responder: Responder::new(path, Psn::new(end.psn)),
            inbound: None,
        }));
        self.set_state(index, QpState::RTS);
        Ok(())
    }

    /// Takes a packet that was checked. One that no queue pair expects from this address is dropped.
    pub fn receive(&mut self, now: u64, from: Ipv4Addr, header: &Header, payload: &[u8]) {
        let is_its = |remote: &Remote| remote.to == from;
        let numbers =
            |qp: &super::objects::QueuePair| qp.number == header.to && qp.remote.as_deref().is_some_and(is_its);
        let Some(index) = self.queue_pairs.iter().position(|qp| qp.as_ref().is_some_and(numbers)) else { return };
        self.with_remote(index, |this, remote| {
            if header.opcode.is_datagram {
            } else if header.opcode.is_request() {
                this.respond(index, remote, header, payload);
            } else if this.is_ready(index) {
                this.take_answer(now, index, remote, header, payload);
            }
        });
    }

    /// Makes the next packet in a buffer, without its check value; where it goes. `None`: there is none to send now.
    pub fn transmit(&mut self, now: u64, out: &mut Vec<u8>) -> Option<Ipv4Addr> {
        for _ in 0..self.queue_pairs.len() {
            let index = self.turn;
            self.turn = if index + 1 < self.queue_pairs.len() { index + 1 } else { 0 };
            let to = self.with_remote(index, |this, remote| {
                let is_made = this.reply(index, remote, out) || this.request(now, index, remote, out);
                is_made.then_some(remote.to)
            });
            if let Some(Some(to)) = to {
                return Some(to);
            }
        }
        None
    }

    /// When [`Self::transmit`] has something to do again although no packet comes.
    pub fn next_timer(&self) -> Option<u64> {
        let ready = self.queue_pairs.iter().flatten().filter(|qp| qp.state == QpState::RTS);
        ready.filter_map(|qp| qp.remote.as_deref()?.requester.timer()).min()
    }

    fn with_remote<R>(&mut self, index: usize, act: impl FnOnce(&mut Self, &mut Remote) -> R) -> Option<R> {
        let mut remote = self.qp_mut(index)?.remote.take()?;
        let done = act(self, &mut remote);
        if let Some(qp) = self.qp_mut(index) {
            qp.remote = Some(remote);
        }
        Some(done)
    }

    pub(super) fn is_ready(&self, index: usize) -> bool {
        self.qp(index).is_some_and(|qp| qp.state == QpState::RTS)
    }

    /// Makes the next packet of a queue pair's own requests.
    fn request(&mut self, now: u64, index: usize, remote: &mut Remote, out: &mut Vec<u8>) -> bool {
        if !self.is_ready(index) {
            return false;
        }
        if let Err(status) = remote.requester.expire(now) {
            self.fail_oldest(index, remote, status);
            return false;
        }
        if remote.requester.can_admit() && !self.admit(index, remote) {
            return false;
        }
        let Some(segment) = remote.requester.next(now) else { return false };
        let header = header(remote, &segment);
        packet::begin(&header, segment.length as usize, out);
        let Some(message) = remote.requester.get(segment.open) else { return false };
        if self.gather(&message.from, segment.at, segment.length, out).is_err() {
            // Ranges were checked against the section when the regions were made.
            self.fail_oldest(index, remote, WcStatus::LOC_PROT_ERR);
            return false;
        }
        true
    }

    /// Admits the next request of the ring, if there is one. False: it was wrong, and the queue pair is in error.
    fn admit(&mut self, index: usize, remote: &mut Remote) -> bool {
        let Some(qp) = self.qp(index) else { return false };
        // At most 512.
        let x = qp.sent.wrapping_add(remote.requester.len() as u32);
        let (id, status) = match self.fetch(&qp.sends, x) {
            None => return true,
            Some(Ok(message)) => {
                let (id, length) = (message.id, message.length);
                if remote.requester.admit(message, Class::Data, length) {
                    return true;
                }
                (id, WcStatus::LOC_LEN_ERR)
            }
            Some(Err(failed)) => failed,
        };
        // Those before it are done first.
        if !remote.requester.is_empty() {
            return true;
        }
        self.complete(index, &Done { id, status, opcode: Opcode::WC_SEND, length: 0 });
        self.set_state(index, QpState::ERR);
        false
    }

    /// Completes the oldest request with an error, and the queue pair is in error.
    fn fail_oldest(&mut self, index: usize, remote: &mut Remote, status: WcStatus) {
        if let Some(message) = remote.requester.get(0) {
            self.complete(index, &Done { id: message.id, status, opcode: Opcode::WC_SEND, length: 0 });
        }
        self.set_state(index, QpState::ERR);
        // Its requests are in the ring until they are flushed.
        remote.requester.abandon();
    }

    fn complete_done(&mut self, index: usize, remote: &mut Remote) {
        while let Some(open) = remote.requester.pop_done() {
            let id = open.request.id;
            self.complete(index, &Done { id, status: WcStatus::SUCCESS, opcode: Opcode::WC_SEND, length: 0 });
        }
    }

    /// Takes an acknowledgement, or a packet of an answer.
    fn take_answer(&mut self, now: u64, index: usize, remote: &mut Remote, header: &Header, _payload: &[u8]) {
        let psn = Psn::new(header.psn);
        let outcome = match header.opcode.operation {
            Operation::Acknowledge => remote.requester.acknowledge(now, psn, header.acknowledge.syndrome),
            _ => Ok(()),
        };
        self.complete_done(index, remote);
        if let Err(status) = outcome {
            self.fail_oldest(index, remote, status);
        }
    }

    /// Makes the next packet of answers.
    fn reply(&mut self, _: usize, remote: &mut Remote, out: &mut Vec<u8>) -> bool {
        let Some(reply) = remote.responder.next() else { return false };
        let told = |syndrome, msn| Acknowledge { syndrome, msn };
        let of = |operation| PacketOpcode::new(operation, true, true);
        let msn = remote.responder.msn();
        match reply {
            Reply::Acknowledge { psn, syndrome } => {
                let header = Header::new(of(Operation::Acknowledge), remote.number, psn.number());
                packet::begin(&Header { acknowledge: told(syndrome, msn), ..header }, 0, out);
            }
            Reply::Atomic { psn, original } => {
                let header = Header::new(of(Operation::AtomicAcknowledge), remote.number, psn.number());
                packet::begin(&Header { acknowledge: told(Syndrome::ACK, msn), original, ..header }, 0, out);
            }
            Reply::Read { .. } => return false,
        }
        true
    }
}

fn header(remote: &Remote, segment: &Segment) -> Header {
    let opcode = PacketOpcode::new(Operation::Send, segment.is_first, segment.is_last);
    let wants_acknowledge = segment.wants_acknowledge;
    Header { wants_acknowledge, ..Header::new(opcode, remote.number, segment.psn.number()) }
}
