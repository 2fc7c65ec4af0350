//! Datagrams (UD): one packet each, to any queue pair that has the same key. One that has no place there is dropped.

use super::Engine;
use super::apply::Source;
use super::outcome::Outcome;
use super::send::Request;
use crate::packet::{self, Deth, Header, Ipv4Udp, MASK, Opcode, Operation};
use hamr_verbs::wire::{QpState, WcOpcode, WcStatus};
use std::net::Ipv4Addr;

/// Bytes before each datagram that a receive request gets: 20 of no meaning, then the IPv4 header.
const GRH: usize = 40;
/// A sender with this bit in its request gives its own key.
const OWN_KEY: u32 = 1 << 31;

/// What a queue pair of datagrams has.
#[derive(Clone, Copy)]
pub(super) struct Datagrams {
    pub(super) qkey: u32,
    /// The number of the next packet.
    pub(super) psn: u32,
}

impl<K> Engine<K> {
    /// Makes the packet of a queue pair's next datagram in a buffer, and completes its request; where it goes.
    pub(super) fn send_datagram(&mut self, index: usize, out: &mut Vec<u8>) -> Option<Ipv4Addr> {
        let qp = self.qp(index).filter(|qp| qp.state == QpState::RTS)?;
        let (own, number) = (qp.datagrams?, qp.number);
        if !self.is_there(&qp.sends) {
            return None;
        }
        let mut request = Request::NONE;
        if let Err(status) = self.fetch(&qp.sends, &mut request) {
            self.fail(index, request.id, status);
            return None;
        }
        let Request { id, completion, is_signaled, length, immediate, .. } = request;
        let remote = request.remote.whole();
        let handle = self.address_handles.get(remote.lkey as usize & 0xFFFF).and_then(Option::as_ref);
        let to = handle.filter(|handle| handle.handle == remote.lkey).map(|handle| handle.to);
        let (to, qkey) = match to {
            _ if length > self.mtu => {
                self.fail(index, id, WcStatus::LOC_LEN_ERR);
                return None;
            }
            Some(to) if completion == WcOpcode::SEND => (to, (remote.addr >> 32) as u32),
            _ => {
                self.fail(index, id, WcStatus::LOC_QP_OP_ERR);
                return None;
            }
        };
        let mut opcode = Opcode::new(Operation::Send, true, true);
        (opcode.is_datagram, opcode.has_immediate) = (true, immediate.is_some());
        let deth = Deth { qkey: if qkey & OWN_KEY == 0 { qkey } else { own.qkey }, source: number };
        let header = Header::new(opcode, remote.addr as u32 & MASK, own.psn);
        packet::begin(&Header { deth, immediate: immediate.unwrap_or_default(), ..header }, length as usize, out);
        if !self.append(&request.near(), 0, length as usize, out) {
            self.fail(index, id, WcStatus::LOC_PROT_ERR);
            return None;
        }
        if let Some(datagrams) = self.qp_mut(index).and_then(|qp| qp.datagrams.as_mut()) {
            datagrams.psn = own.psn.wrapping_add(1) & MASK;
        }
        self.complete_send(index, id, is_signaled, &Outcome::of(completion));
        Some(to)
    }

    /// Takes a datagram, if a queue pair has its number and key, and a receive request with room for it.
    pub(super) fn take_datagram(&mut self, headers: &Ipv4Udp, header: &Header, payload: &[u8]) {
        let has_key = |own: Datagrams| own.qkey == header.deth.qkey;
        let index = self.queue_pairs.iter().position(|qp| {
            let qp = qp.as_ref().filter(|qp| qp.number == header.to && qp.state == QpState::RTS);
            qp.and_then(|qp| qp.datagrams).is_some_and(has_key)
        });
        let Some(index) = index else { return };
        let length = payload.len() as u64;
        let needed = GRH as u64 + length;
        if length > self.mtu || self.receive_room(index).is_none_or(|room| room < needed) {
            return;
        }
        let mut grh = [0; GRH];
        let (_, ip) = grh.split_at_mut(20);
        ip.iter_mut().zip(headers).for_each(|(to, byte)| *to = *byte);
        if let Some(qp) = self.qp_mut(index) {
            qp.peer_number = header.deth.source;
        }
        // A receive request that is wrong ends the queue pair.
        let is_received = self.has_room(None, Some(index))
            && self.begin_receive(index, needed).is_ok()
            && self.receive_segment(index, &Source::Bytes(&grh), GRH as u64).is_ok()
            && self.receive_segment(index, &Source::Bytes(payload), length).is_ok();
        if is_received {
            self.end_receive(index, header.opcode.has_immediate.then_some(header.immediate));
        }
    }
}
