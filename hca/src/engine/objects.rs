//! Objects of the adapter: made by the host's commands, never from the window.

use super::Engine;
use super::copy::{Part, Transfer};
use super::remote::Remote;
use hamr_comm::abi::window::OutOfWindow;
use hamr_verbs::ring::Ring;
use hamr_verbs::wire::{
    Access, CQ_CI, CQ_STATE, CompletionEntry, Kind, MAX_COMPLETION_QUEUES, MAX_QUEUE_PAIRS, MAX_REGIONS, Object,
    Opcode, QP_STATE, QpState, Reply, SQ_CI, Sge, WORD, WcStatus, word_of,
};
use zerocopy::IntoBytes;

/// A memory region.
pub(super) struct Region {
    off: u64,
    len: u64,
    iova: u64,
    lkey: u32,
    access: Access,
}

/// A completion queue.
pub(super) struct CompletionQueue {
    ring: Ring,
    produced: u32,
    /// Taken by the device when this was looked at last.
    consumed: u32,
    has_overrun: bool,
}

/// A queue pair.
pub(super) struct QueuePair {
    pub(super) state: QpState,
    pub(super) sends: Ring,
    pub(super) receives: Ring,
    /// The next send request, and the next receive request.
    pub(super) sent: u32,
    pub(super) received: u32,
    send_cq: usize,
    receive_cq: usize,
    pub(super) peer: Option<usize>,
    /// The connection with a queue pair of another adapter.
    pub(super) remote: Option<Box<Remote>>,
    pub(super) number: u32,
    /// The number of the one that it is connected with.
    pub(super) peer_number: u32,
    /// A message of which a part is copied.
    pub(super) transfer: Option<Transfer>,
}

/// A request whose completion is to be written.
pub(super) struct Done {
    pub(super) id: u64,
    pub(super) status: WcStatus,
    pub(super) opcode: Opcode,
    pub(super) length: u32,
}

/// The place of a new object.
fn place<T>(list: &mut Vec<Option<T>>, index: u16, most: u16) -> Result<&mut Option<T>, Reply> {
    if index >= most {
        return Err(Reply::MALFORMED);
    }
    let index = usize::from(index);
    if list.len() <= index {
        list.resize_with(index + 1, || None);
    }
    list.get_mut(index).filter(|place| place.is_none()).ok_or(Reply::STATE)
}

impl<K> Engine<K> {
    pub(super) fn create(&mut self, object: &Object) -> Result<(), Reply> {
        if !object.fits(self.window.len()) || object.generation == 0 {
            return Err(Reply::MALFORMED);
        }
        let Object { index, off, len, iova, lkey, access, .. } = *object;
        match object.kind {
            Kind::REGION if access.0 & !Access::LOCAL_WRITE.0 != 0 => return Err(Reply::MALFORMED),
            Kind::REGION => {
                *place(&mut self.regions, index, MAX_REGIONS)? = Some(Region { off, len, iova, lkey, access });
            }
            Kind::COMPLETION_QUEUE => {
                let ring = Ring::new(off, object.log2, 1, object.tag());
                let queue = CompletionQueue { ring, produced: 0, consumed: 0, has_overrun: false };
                *place(&mut self.completion_queues, index, MAX_COMPLETION_QUEUES)? = Some(queue);
            }
            Kind::QUEUE_PAIR => {
                let (send_cq, receive_cq) = (object.send_cq.into(), object.receive_cq.into());
                // One that has overrun has put its queue pairs in error, for good.
                let serves = |cq: &CompletionQueue| !cq.has_overrun;
                let is_there =
                    |cq: usize| self.completion_queues.get(cq).is_some_and(|cq| cq.as_ref().is_some_and(serves));
                if !is_there(send_cq) || !is_there(receive_cq) {
                    return Err(Reply::STATE);
                }
                *place(&mut self.queue_pairs, index, MAX_QUEUE_PAIRS)? = Some(QueuePair {
                    state: QpState::INIT,
                    sends: Ring::new(off, object.log2, 2, object.tag()),
                    receives: Ring::new(object.receive_off, object.receive_log2, 1, object.tag()),
                    sent: 0,
                    received: 0,
                    send_cq,
                    receive_cq,
                    peer: None,
                    remote: None,
                    number: object.qp_number,
                    peer_number: 0,
                    transfer: None,
                });
                self.set_state(index.into(), QpState::INIT);
            }
            _ => return Err(Reply::MALFORMED),
        }
        Ok(())
    }

    /// Connects two queue pairs, which may be one, both ways.
    pub(super) fn connect(&mut self, a: u16, b: u32) -> Result<(), Reply> {
        let (a, b) = (usize::from(a), b as usize);
        let is_open = |qp: usize| self.qp(qp).is_some_and(|qp| qp.state == QpState::INIT);
        if !is_open(a) || !is_open(b) {
            return Err(Reply::STATE);
        }
        for (qp, peer) in [(a, b), (b, a)] {
            let peer_number = self.qp(peer).map_or(0, |peer| peer.number);
            if let Some(qp) = self.qp_mut(qp) {
                (qp.peer, qp.peer_number) = (Some(peer), peer_number);
            }
        }
        self.set_state(a, QpState::RTS);
        self.set_state(b, QpState::RTS);
        Ok(())
    }

    pub(super) fn qp(&self, index: usize) -> Option<&QueuePair> {
        self.queue_pairs.get(index)?.as_ref()
    }

    pub(super) fn qp_mut(&mut self, index: usize) -> Option<&mut QueuePair> {
        self.queue_pairs.get_mut(index)?.as_mut()
    }

    /// Sets a state, and shows it.
    pub(super) fn set_state(&mut self, index: usize, state: QpState) {
        if let Some(qp) = self.qp_mut(index) {
            qp.state = state;
            // The words of all queue pairs are in the section, whose length was checked.
            let _ = self.window.word(word_of(QP_STATE, index as u16)).map(|word| word.publish(state.0));
        }
    }

    /// The memory that a scatter entry names. `None`: a wrong key, range or right.
    pub(super) fn part(&self, sge: &Sge, access: Access) -> Option<Part> {
        if sge.len == 0 {
            return Some(Part { off: 0, len: 0 });
        }
        let mut regions = self.regions.iter().flatten();
        let region = regions.find(|region| region.lkey == sge.lkey && region.access.0 & access.0 == access.0)?;
        let (at, len) = (sge.addr.checked_sub(region.iova)?, u64::from(sge.len));
        let is_inside = at.checked_add(len).is_some_and(|end| end <= region.len);
        is_inside.then_some(Part { off: region.off + at, len })
    }

    /// Is there room for the completions of a send of one queue pair and a receive of another? A queue without has overrun, and
    /// all its queue pairs are in error.
    pub(super) fn has_room(&mut self, sender: usize, receiver: Option<usize>) -> bool {
        let Some(send_cq) = self.qp(sender).map(|qp| qp.send_cq) else { return false };
        let receive_cq = receiver.and_then(|qp| Some(self.qp(qp)?.receive_cq));
        match receive_cq {
            Some(other) if other != send_cq => self.has_room_for(send_cq, 1) & self.has_room_for(other, 1),
            Some(_) => self.has_room_for(send_cq, 2),
            None => self.has_room_for(send_cq, 1),
        }
    }

    fn has_room_for(&mut self, index: usize, count: u32) -> bool {
        let Some(Some(cq)) = self.completion_queues.get_mut(index) else { return false };
        if cq.has_overrun {
            return false;
        }
        let has_room = |cq: &CompletionQueue| cq.produced.wrapping_sub(cq.consumed) <= cq.ring.entries() - count;
        if cq.ring.entries() < count || !has_room(cq) {
            let taken = self.window.word(word_of(CQ_CI, index as u16)).map_or(0, |word| word.observe());
            // A device takes what there is: a number ahead of that is no number of its own.
            if cq.produced.wrapping_sub(taken) <= cq.ring.entries() {
                cq.consumed = taken;
            }
            if cq.ring.entries() < count || !has_room(cq) {
                cq.has_overrun = true;
                let _ = self.window.word(word_of(CQ_STATE, index as u16)).map(|word| word.publish(1));
                for qp in 0..self.queue_pairs.len() {
                    if self.qp(qp).is_some_and(|qp| qp.send_cq == index || qp.receive_cq == index) {
                        self.set_state(qp, QpState::ERR);
                    }
                }
                return false;
            }
        }
        true
    }

    /// Completes the next request of a queue: its place is free, and its completion is there unless its completion queue has
    /// overrun.
    pub(super) fn complete(&mut self, index: usize, done: &Done) {
        let _ = self.try_complete(index, done);
    }

    fn try_complete(&mut self, index: usize, done: &Done) -> Option<()> {
        let is_receive = done.opcode == Opcode::WC_RECV;
        let qp = self.qp_mut(index)?;
        let position = if is_receive { &mut qp.received } else { &mut qp.sent };
        *position = position.wrapping_add(1);
        let (retired, number, source) = (*position, qp.number, qp.peer_number);
        let cq = if is_receive { qp.receive_cq } else { qp.send_cq };
        let &Done { id, status, opcode, length } = done;
        let entry = CompletionEntry {
            id,
            status,
            opcode,
            length,
            qp_number: number,
            source: if is_receive { source } else { 0 },
            qp: index as u16,
            retired,
            ..CompletionEntry::default()
        };
        if !is_receive {
            let _ = self.window.word(word_of(SQ_CI, index as u16)).map(|word| word.store(retired));
        }
        if !self.has_room_for(cq, 1) {
            return None;
        }
        self.publish_completion(cq, &entry).ok()
    }

    fn publish_completion(&mut self, cq: usize, entry: &CompletionEntry) -> Result<(), OutOfWindow> {
        let Some(Some(cq)) = self.completion_queues.get_mut(cq) else { return Ok(()) };
        let x = cq.produced;
        let bytes = entry.as_bytes().get(..WORD as usize).unwrap_or_default();
        self.window.write_bytes(cq.ring.entry(x), bytes)?;
        self.window.word(cq.ring.word(x))?.publish(cq.ring.expected(x));
        cq.produced = x.wrapping_add(1);
        Ok(())
    }
}
