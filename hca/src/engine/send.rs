//! Send requests and flushes: what a queue pair does in a round.

use super::Engine;
use super::copy::{Part, SLICE, Source, Transfer};
use super::objects::Done;
use hamr_verbs::ring::Ring;
use hamr_verbs::wire::{
    Access, LINE, MAX_INLINE, MAX_MESSAGE, MAX_RECEIVE_SGE, MAX_SEND_SGE, Opcode, QpState, ReceiveEntry, SendEntry,
    Sge, WORD, WcStatus,
};
use zerocopy::{FromZeros, IntoBytes};

/// Requests of one queue pair in one round.
pub const MOST_REQUESTS: u32 = 16;
/// Bytes of one queue pair in one round, but for the message that exceeds them.
const MOST_BYTES: u64 = 64 << 10;
const _: () = assert!(MOST_BYTES <= SLICE);

/// What a step came to.
enum Step {
    /// There is nothing to do, or the peer is not ready.
    Idle,
    /// So many bytes were sent.
    Sent(u64),
    /// A request was completed without sending.
    Failed,
}

/// A checked message.
pub(super) struct Message {
    pub(super) id: u64,
    pub(super) from: Source,
    pub(super) length: u64,
}

/// A receive request: its memory and how much that is, or what is wrong with it.
pub(super) struct Receive {
    pub(super) id: u64,
    pub(super) to: Result<([Part; MAX_RECEIVE_SGE], u64), WcStatus>,
}

impl<K> Engine<K> {
    /// Serves a queue pair; how many steps were made.
    pub(super) fn serve(&mut self, index: usize) -> u32 {
        let (mut steps, mut bytes) = (0, 0);
        while steps < MOST_REQUESTS && bytes < MOST_BYTES {
            let step = match self.qp(index).map(|qp| qp.state) {
                Some(QpState::RTS) if self.qp(index).is_some_and(|qp| qp.remote.is_none()) => self.send(index),
                Some(QpState::ERR) => self.flush(index),
                _ => Step::Idle,
            };
            match step {
                Step::Idle => break,
                Step::Sent(more) => bytes += more,
                Step::Failed => {}
            }
            steps += 1;
        }
        steps
    }

    /// Is the entry at a position there?
    pub(super) fn is_there(&self, ring: &Ring, x: u32) -> bool {
        self.window.word(ring.word(x)).is_ok_and(|word| word.observe() == ring.expected(x))
    }

    fn send(&mut self, index: usize) -> Step {
        let Some(qp) = self.qp_mut(index) else { return Step::Idle };
        if let Some(transfer) = qp.transfer.take() {
            return self.go_on(index, transfer);
        }
        let (ring, x, peer) = (qp.sends, qp.sent, qp.peer);
        let message = match self.fetch(&ring, x) {
            None => return Step::Idle,
            Some(Ok(message)) => message,
            Some(Err((id, status))) => return self.fail(index, id, status),
        };
        let Some(peer) = peer.filter(|peer| self.is_connected(*peer, index)) else {
            return self.fail(index, message.id, WcStatus::RETRY_EXC_ERR);
        };
        self.deliver(index, peer, message)
    }

    /// The checked request at a position, or its number and what is wrong with it. `None`: there is none.
    pub(super) fn fetch(&self, ring: &Ring, x: u32) -> Option<Result<Message, (u64, WcStatus)>> {
        if !self.is_there(ring, x) {
            return None;
        }
        let mut entry = SendEntry::new_zeroed();
        let read = self.read_line(ring.entry(x), entry.as_mut_bytes());
        if entry.head & SendEntry::TWO_LINES != 0 {
            let _ = self.window.read_bytes(ring.entry(x) + LINE, &mut entry.second);
        }
        let message = if read { self.message(&entry) } else { Err(WcStatus::LOC_QP_OP_ERR) };
        Some(message.map_err(|status| (entry.id, status)))
    }

    /// Is a queue pair connected with this one, and in order?
    fn is_connected(&self, peer: usize, with: usize) -> bool {
        self.qp(peer).is_some_and(|peer| peer.peer == Some(with) && peer.state == QpState::RTS)
    }

    /// The first line of an entry without its word.
    pub(super) fn read_line(&self, at: u64, to: &mut [u8]) -> bool {
        to.get_mut(..WORD as usize).is_some_and(|to| self.window.read_bytes(at, to).is_ok())
    }

    /// Checks a request to send.
    fn message(&self, entry: &SendEntry) -> Result<Message, WcStatus> {
        let (opcode, flags, count) = entry.parts().ok_or(WcStatus::LOC_QP_OP_ERR)?;
        let known = SendEntry::SIGNALED | SendEntry::INLINE | SendEntry::TWO_LINES;
        let is_inline = flags & SendEntry::INLINE != 0;
        let most = if is_inline { 0 } else { MAX_SEND_SGE };
        let is_known = opcode == Opcode::SEND && flags & !known == 0 && flags & SendEntry::SIGNALED != 0;
        if !is_known || count > most {
            return Err(WcStatus::LOC_QP_OP_ERR);
        }
        let length = u64::from(entry.length);
        let has_second = flags & SendEntry::TWO_LINES != 0;
        if is_inline {
            let room = if has_second { MAX_INLINE } else { entry.first.len() };
            let from = Source::Inline(entry.inline());
            return if length <= room as u64 {
                Ok(Message { id: entry.id, from, length })
            } else {
                Err(WcStatus::LOC_LEN_ERR)
            };
        }
        if count > 1 && !has_second {
            return Err(WcStatus::LOC_QP_OP_ERR);
        }
        let (parts, sum) =
            self.parts::<MAX_SEND_SGE>(&entry.sges(), count, Access::READ).ok_or(WcStatus::LOC_PROT_ERR)?;
        if sum != length || sum > MAX_MESSAGE {
            return Err(WcStatus::LOC_LEN_ERR);
        }
        Ok(Message { id: entry.id, from: Source::Parts(parts), length })
    }

    /// The memory of the first `count` scatter entries, and its bytes.
    pub(super) fn parts<const N: usize>(
        &self,
        sges: &[Sge; N],
        count: usize,
        access: Access,
    ) -> Option<([Part; N], u64)> {
        let (mut parts, mut sum) = ([Part::default(); N], 0_u64);
        for (part, sge) in parts.iter_mut().zip(sges).take(count) {
            *part = self.part(sge, access)?;
            sum += part.len;
        }
        Some((parts, sum))
    }

    /// The next receive request of a queue pair. `None`: there is none.
    pub(super) fn fetch_receive(&self, index: usize) -> Option<Receive> {
        let (ring, x) = self.qp(index).map(|qp| (qp.receives, qp.received))?;
        if !self.is_there(&ring, x) {
            return None;
        }
        let mut entry = ReceiveEntry::new_zeroed();
        let is_read = self.read_line(ring.entry(x), entry.as_mut_bytes());
        let count = entry.sges as usize;
        let to = if !is_read || count > MAX_RECEIVE_SGE {
            Err(WcStatus::LOC_QP_OP_ERR)
        } else {
            self.parts::<MAX_RECEIVE_SGE>(&entry.sge, count, Access::LOCAL_WRITE).ok_or(WcStatus::LOC_PROT_ERR)
        };
        Some(Receive { id: entry.id, to })
    }

    /// Takes the peer's next receive request for a message.
    fn deliver(&mut self, index: usize, peer: usize, message: Message) -> Step {
        let Some(receive) = self.fetch_receive(peer) else {
            // The requester tries again for ever (`rnr_retry` 7).
            return Step::Idle;
        };
        if !self.has_room(index, Some(peer)) {
            return Step::Failed;
        }
        let both = match receive.to {
            Err(status) => Err((status, WcStatus::REM_OP_ERR)),
            Ok((_, room)) if room < message.length => Err((WcStatus::LOC_LEN_ERR, WcStatus::REM_INV_REQ_ERR)),
            Ok((parts, _)) => Ok(parts),
        };
        match both {
            Ok(to) => {
                let Message { id, from, length } = message;
                self.go_on(index, Transfer { send_id: id, receive_id: receive.id, from, to, length, at: 0 })
            }
            Err((theirs, ours)) => {
                self.complete(peer, &Done { id: receive.id, status: theirs, opcode: Opcode::WC_RECV, length: 0 });
                self.set_state(peer, QpState::ERR);
                // A queue pair that is its own peer is in error now, and has its request flushed.
                if peer == index { Step::Failed } else { self.fail(index, message.id, ours) }
            }
        }
    }

    /// Copies the next slice of a message, and completes both requests behind the last one.
    fn go_on(&mut self, index: usize, mut transfer: Transfer) -> Step {
        let peer = self.qp(index).and_then(|qp| qp.peer).filter(|peer| self.is_connected(*peer, index));
        let Some(peer) = peer else { return self.fail(index, transfer.send_id, WcStatus::RETRY_EXC_ERR) };
        let before = transfer.at;
        match self.copy(&mut transfer) {
            Ok(true) => {
                let Transfer { send_id, receive_id, length, .. } = transfer;
                let (status, length) = (WcStatus::SUCCESS, length as u32);
                self.complete(peer, &Done { id: receive_id, status, opcode: Opcode::WC_RECV, length });
                self.complete(index, &Done { id: send_id, status, opcode: Opcode::WC_SEND, length: 0 });
            }
            Ok(false) => {
                if let Some(qp) = self.qp_mut(index) {
                    qp.transfer = Some(transfer);
                }
                return Step::Sent(SLICE);
            }
            // Ranges were checked against the section when the regions were made.
            Err(_) => return self.fail(index, transfer.send_id, WcStatus::LOC_PROT_ERR),
        }
        Step::Sent(transfer.length - before)
    }

    /// Completes the next send request with an error; the queue pair is in error from now on.
    fn fail(&mut self, index: usize, id: u64, status: WcStatus) -> Step {
        self.complete(index, &Done { id, status, opcode: Opcode::WC_SEND, length: 0 });
        self.set_state(index, QpState::ERR);
        Step::Failed
    }

    /// Completes a request of a queue pair in error: sends first, then receives, each in their order.
    fn flush(&mut self, index: usize) -> Step {
        let Some(qp) = self.qp(index) else { return Step::Idle };
        let rings = [(qp.sends, qp.sent, Opcode::WC_SEND), (qp.receives, qp.received, Opcode::WC_RECV)];
        let Some((ring, x, opcode)) = rings.into_iter().find(|(ring, x, _)| self.is_there(ring, *x)) else {
            return Step::Idle;
        };
        // The number is at the same place in both.
        let mut entry = ReceiveEntry::new_zeroed();
        self.read_line(ring.entry(x), entry.as_mut_bytes());
        self.complete(index, &Done { id: entry.id, status: WcStatus::WR_FLUSH_ERR, opcode, length: 0 });
        Step::Failed
    }
}
