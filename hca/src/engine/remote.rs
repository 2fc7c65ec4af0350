//! Connections with queue pairs of other adapters: which packet a queue pair sends next, and what comes to one that has
//! asked.

use super::Engine;
use super::apply::{Ranges, Sink, Source};
use super::outcome::Outcome;
use super::send::Request;
use crate::connection::{Class, Path, Psn, Reply, Requester, Responder, Segment};
use crate::packet::{self, Acknowledge, AtomicEth, Header, Ipv4Udp, Opcode, Operation, Reth, Syndrome};
use hamr_comm::abi::window::AtomicOp;
use hamr_verbs::wire::{Access, QpState, RemoteEnd, Reply as Answer, Sge, WcOpcode, WcStatus};
use std::net::Ipv4Addr;

/// A connection with a queue pair of another adapter.
pub(super) struct Remote {
    to: Ipv4Addr,
    /// The number of that queue pair.
    number: u32,
    requester: Requester<Request>,
    pub(super) responder: Responder,
    /// The message of which a part has come.
    pub(super) inbound: Option<Inbound>,
    /// When it is given up.
    pub(super) give_up: Option<u64>,
}

/// A message of which a part has come.
pub(super) enum Inbound {
    /// For the receive request that the queue pair has taken.
    Send,
    /// For memory, and so many bytes of it have come.
    Write { to: Ranges, at: u64 },
}

impl Remote {
    pub(super) fn timer(&self) -> Option<u64> {
        [self.requester.timer(), self.give_up].into_iter().flatten().min()
    }
}

impl<K> Engine<K> {
    /// Connects a queue pair with one of another adapter.
    pub(super) fn connect_remote(&mut self, index: u16, end: &RemoteEnd) -> Result<(), Answer> {
        let (index, wire) = (usize::from(index), self.mtu);
        let qp = self.qp_mut(index).filter(|qp| qp.state == QpState::INIT).ok_or(Answer::STATE)?;
        let (rnr_retry, rnr_timer) = (qp.rnr_retry, qp.rnr_timer);
        let path = Path { mtu: end.mtu.into(), timeout: end.timeout, retry: end.retry, rnr_retry, rnr_timer };
        let numbers = [end.qp_number, end.psn, end.own_psn];
        let fits = wire == 0 || u64::from(path.mtu) <= wire;
        if !path.is_valid() || !fits || end.reserved != 0 || numbers.iter().any(|number| *number > packet::MASK) {
            return Err(Answer::MALFORMED);
        }
        qp.peer_number = end.qp_number;
        qp.remote = Some(Box::new(Remote {
            to: end.address.into(),
            number: end.qp_number,
            requester: Requester::new(path, Psn::new(end.own_psn)),
            responder: Responder::new(path, Psn::new(end.psn)),
            inbound: None,
            give_up: None,
        }));
        self.set_state(index, QpState::RTS);
        Ok(())
    }

    /// Takes a packet that was checked, and came behind these headers. One that no queue pair expects from this address
    /// is dropped.
    pub fn receive(&mut self, now: u64, headers: &Ipv4Udp, header: &Header, payload: &[u8]) {
        if header.opcode.is_datagram {
            return self.take_datagram(headers, header, payload);
        }
        let from = source(headers);
        let is_from = |remote: &Remote| remote.to == from;
        let index = self.queue_pairs.iter().position(|qp| {
            let qp = qp.as_ref().filter(|qp| qp.number == header.to);
            qp.and_then(|qp| qp.remote.as_deref()).is_some_and(is_from)
        });
        let Some(index) = index else { return };
        self.with_remote(index, |this, remote| {
            if header.opcode.is_request() {
                this.respond(now, index, remote, header, payload);
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
                let is_made = this.reply(index, remote, out) || this.ask(now, index, remote, out);
                is_made.then_some(remote.to)
            });
            if let Some(to) = to.flatten().or_else(|| self.send_datagram(index, out)) {
                return Some(to);
            }
        }
        None
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
    fn ask(&mut self, now: u64, index: usize, remote: &mut Remote, out: &mut Vec<u8>) -> bool {
        if !self.is_ready(index) {
            return false;
        }
        if remote.give_up.is_some_and(|at| at <= now) {
            self.set_state(index, QpState::ERR);
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
        let Some(request) = remote.requester.get(segment.open) else { return false };
        let header = header(request, &segment, remote.number);
        let length = if header.opcode.has_payload() { segment.length as usize } else { 0 };
        packet::begin(&header, length, out);
        let is_appended = self.append(&request.near(), segment.at, length, out);
        // Its region was deregistered. Those before it are done first.
        if !is_appended && segment.open != 0 {
            remote.requester.put_back(&segment);
        } else if !is_appended {
            self.fail_oldest(index, remote, WcStatus::LOC_PROT_ERR);
        }
        is_appended
    }

    /// Appends bytes of a message to a packet. False: there are no such.
    pub(super) fn append(&self, near: &Source<'_>, at: u64, length: usize, to: &mut Vec<u8>) -> bool {
        let begin = to.len();
        to.resize(begin + length, 0);
        let payload = to.get_mut(begin..).unwrap_or_default();
        match near {
            _ if length == 0 => true,
            Source::Ranges(ranges) => self.get(ranges, at, payload).is_ok(),
            Source::Bytes(bytes) => {
                let bytes = bytes.get(at as usize..).unwrap_or_default();
                payload.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
                bytes.len() >= length
            }
        }
    }

    /// Admits the next request of the ring, if there is one. False: it was wrong, and the queue pair is in error.
    fn admit(&mut self, index: usize, remote: &mut Remote) -> bool {
        let Some(qp) = self.qp(index) else { return false };
        // At most 512.
        let next = qp.sends.plus(remote.requester.len() as u32);
        if !self.is_there(&next) {
            return true;
        }
        let mut request = Request::NONE;
        let fetched = self.fetch(&next, &mut request);
        let (id, length) = (request.id, request.length);
        let class = match request.completion {
            WcOpcode::READ => Class::Read,
            WcOpcode::COMPARE_SWAP | WcOpcode::FETCH_ADD => Class::Atomic,
            _ => Class::Data,
        };
        let status = match fetched {
            Ok(()) if remote.requester.admit(request, class, length) => return true,
            Ok(()) => WcStatus::LOC_LEN_ERR,
            Err(status) => status,
        };
        // Those before it are done first.
        if !remote.requester.is_empty() {
            return true;
        }
        self.fail(index, id, status);
        false
    }

    /// Completes the oldest request with an error, and the queue pair is in error.
    fn fail_oldest(&mut self, index: usize, remote: &mut Remote, status: WcStatus) {
        if let Some(request) = remote.requester.get(0) {
            self.fail(index, request.id, status);
        }
        // The others are in the ring until they are flushed.
        remote.requester.abandon();
    }

    fn complete_done(&mut self, index: usize, remote: &mut Remote) {
        while let Some(Request { id, completion, is_signaled, length, .. }) = remote.requester.pop_done() {
            let length = if completion.brings() { 0 } else { length as u32 };
            self.complete_send(index, id, is_signaled, &Outcome { length, ..Outcome::of(completion) });
        }
    }

    /// Takes an acknowledgement, or a packet of an answer.
    fn take_answer(&mut self, now: u64, index: usize, remote: &mut Remote, header: &Header, payload: &[u8]) {
        let (psn, opcode) = (Psn::new(header.psn), header.opcode);
        let original = header.original.to_le_bytes();
        let (class, bytes) = match opcode.operation {
            Operation::ReadResponse => (Class::Read, payload),
            Operation::AtomicAcknowledge => (Class::Atomic, &original[..]),
            _ => {
                let outcome = remote.requester.acknowledge(now, psn, header.acknowledge.syndrome);
                self.complete_done(index, remote);
                if let Err(status) = outcome {
                    self.fail_oldest(index, remote, status);
                }
                return;
            }
        };
        let length = bytes.len() as u64;
        let Some(at) = remote.requester.answer(now, psn, class, length, opcode.is_last) else { return };
        self.complete_done(index, remote);
        let put = match remote.requester.get(0) {
            Some(request) if !request.completion.brings() => {
                self.put(&Source::Bytes(bytes), &request.local, at, length).is_ok()
            }
            // A READ or atomic has memory, and one of no bytes needs none.
            _ => length == 0,
        };
        if !put {
            self.fail_oldest(index, remote, WcStatus::LOC_PROT_ERR);
            return;
        }
        remote.requester.answered(now);
        self.complete_done(index, remote);
    }

    /// Makes the next packet of answers.
    fn reply(&mut self, index: usize, remote: &mut Remote, out: &mut Vec<u8>) -> bool {
        let responder = &mut remote.responder;
        if !self.is_ready(index) && !responder.has_refused() {
            return false;
        }
        let Some(reply) = responder.pop() else { return false };
        let (number, msn) = (remote.number, responder.msn());
        let header = |operation, is_first, is_last, psn: Psn, syndrome| {
            let acknowledge = Acknowledge { syndrome, msn };
            Header { acknowledge, ..Header::new(Opcode::new(operation, is_first, is_last), number, psn.number()) }
        };
        match reply {
            Reply::Acknowledge { psn, syndrome } => {
                packet::begin(&header(Operation::Acknowledge, true, true, psn, syndrome), 0, out);
            }
            Reply::Atomic { psn, original } => {
                let header = header(Operation::AtomicAcknowledge, true, true, psn, Syndrome::ACK);
                packet::begin(&Header { original, ..header }, 0, out);
            }
            Reply::Read { psn, range, is_first, is_repeat } => {
                let length = u64::from(range.length).min(responder.mtu());
                // At most the range's.
                let left =
                    Reth { addr: range.addr.wrapping_add(length), length: range.length - length as u32, ..range };
                packet::begin(
                    &header(Operation::ReadResponse, is_first, left.length == 0, psn, Syndrome::ACK),
                    length as usize,
                    out,
                );
                let begin = out.len();
                out.resize(begin + length as usize, 0);
                let from = Ranges::remote(range.addr, range.rkey, range.length, Access::REMOTE_READ);
                let to = Sink::Bytes(out.get_mut(begin..).unwrap_or_default());
                // Its region may have been deregistered.
                if is_repeat && self.total(&from).is_none() {
                    return self.reply(index, remote, out);
                }
                if self.read_segment(index, &from, to, 0, length).is_err() {
                    responder.refuse(psn, Syndrome::NAK_ACCESS);
                    return self.reply(index, remote, out);
                }
                if left.length != 0 {
                    responder.again(Reply::Read { psn: psn.plus(1), range: left, is_first: false, is_repeat });
                }
            }
        }
        true
    }
}

/// The address that a packet came from.
fn source(headers: &Ipv4Udp) -> Ipv4Addr {
    let [_, _, _, _, _, _, _, _, _, _, _, _, a, b, c, d, ..] = *headers;
    Ipv4Addr::new(a, b, c, d)
}

/// The headers of a packet of a request.
fn header(request: &Request, segment: &Segment, to: u32) -> Header {
    let operation = match request.completion {
        WcOpcode::WRITE => Operation::Write,
        WcOpcode::READ => Operation::ReadRequest,
        WcOpcode::COMPARE_SWAP => Operation::CompareSwap,
        WcOpcode::FETCH_ADD => Operation::FetchAdd,
        _ => Operation::Send,
    };
    let &Segment { is_first, is_last, wants_acknowledge, psn, at, length, .. } = segment;
    let mut opcode = Opcode::new(operation, is_first, is_last);
    opcode.has_immediate = is_last && request.immediate.is_some();
    let Sge { addr, lkey: rkey, .. } = request.remote.whole();
    // A READ asks for what is left; the first packet of a WRITE says all.
    let (offset, length) = if operation == Operation::ReadRequest { (at, length) } else { (0, request.length) };
    let (swap_add, compare) = match request.atomic() {
        AtomicOp::CompareSwap { expected, new } => (new, expected),
        AtomicOp::Add(add) => (add, 0),
        _ => (0, 0),
    };
    Header {
        wants_acknowledge,
        // Messages have at most 2^31 bytes.
        reth: Reth { addr: addr.wrapping_add(offset), rkey, length: length as u32 },
        atomic: AtomicEth { addr, rkey, swap_add, compare },
        immediate: request.immediate.unwrap_or_default(),
        ..Header::new(opcode, to, psn.number())
    }
}
