//! What a queue pair does with the requests of another adapter's.

use super::Engine;
use super::objects::Done;
use super::remote::{Inbound, Remote};
use crate::connection::{Arrival, Psn};
use crate::packet::{Header, Operation, Syndrome};
use hamr_verbs::wire::{MAX_MESSAGE, Opcode, QpState, WcStatus};

impl<K> Engine<K> {
    /// Takes a packet of a request.
    pub(super) fn respond(&mut self, index: usize, remote: &mut Remote, header: &Header, payload: &[u8]) {
        // One that has refused something says so again, and what it said before.
        if !self.is_ready(index) && !remote.responder.has_refused() {
            return;
        }
        match remote.responder.arrive(Psn::new(header.psn)) {
            Arrival::Ignored => {}
            Arrival::Duplicate => remote.responder.duplicate(),
            Arrival::New => {
                let done = match header.opcode.operation {
                    Operation::Send => self.take_send(index, remote, header, payload),
                    _ => Err(Syndrome::NAK_INVALID),
                };
                if let Err(syndrome) = done {
                    remote.responder.refuse(syndrome);
                    remote.inbound = None;
                    self.set_state(index, QpState::ERR);
                }
            }
        }
    }

    /// Takes a packet of a message for a receive request.
    fn take_send(
        &mut self,
        index: usize,
        remote: &mut Remote,
        header: &Header,
        payload: &[u8],
    ) -> Result<(), Syndrome> {
        let (opcode, length, mtu) = (header.opcode, payload.len() as u64, remote.responder.mtu());
        let is_whole = if opcode.is_last { length <= mtu } else { length == mtu };
        // Each message begins with its first packet.
        if !is_whole || opcode.is_first != remote.inbound.is_none() {
            return Err(Syndrome::NAK_INVALID);
        }
        if opcode.is_first {
            let Some(receive) = self.fetch_receive(index) else {
                remote.responder.not_ready();
                return Ok(());
            };
            match receive.to {
                Ok((to, room)) => {
                    remote.inbound = Some(Inbound { id: receive.id, to, room: room.min(MAX_MESSAGE), at: 0 });
                }
                Err(status) => {
                    self.complete(index, &Done { id: receive.id, status, opcode: Opcode::WC_RECV, length: 0 });
                    return Err(Syndrome::NAK_OPERATION);
                }
            }
        }
        let Some(inbound) = &mut remote.inbound else { return Err(Syndrome::NAK_INVALID) };
        let (id, end) = (inbound.id, inbound.at.saturating_add(length));
        if end > inbound.room {
            self.complete(index, &Done { id, status: WcStatus::LOC_LEN_ERR, opcode: Opcode::WC_RECV, length: 0 });
            return Err(Syndrome::NAK_INVALID);
        }
        if self.scatter(&inbound.to, inbound.at, payload).is_err() {
            // Ranges were checked against the section when the regions were made.
            self.complete(index, &Done { id, status: WcStatus::LOC_PROT_ERR, opcode: Opcode::WC_RECV, length: 0 });
            return Err(Syndrome::NAK_OPERATION);
        }
        inbound.at = end;
        if opcode.is_last {
            remote.inbound = None;
            // At most 2^31.
            let length = end as u32;
            self.complete(index, &Done { id, status: WcStatus::SUCCESS, opcode: Opcode::WC_RECV, length });
            if !self.is_ready(index) {
                // Its completion queue has overrun.
                return Err(Syndrome::NAK_OPERATION);
            }
        }
        remote.responder.taken(opcode.is_last, header.wants_acknowledge);
        Ok(())
    }
}
