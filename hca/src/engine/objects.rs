//! Objects of the adapter: made by the host's commands, never from the window.

use super::Engine;
use super::apply::Receive;
use super::datagram::Datagrams;
use super::outcome::Outcome;
use super::remote::Remote;
use super::send::Progress;
use hamr_verbs::ring::{Cursor, Ring};
use hamr_verbs::wire::{
    Access, CQ_CI, CQ_STATE, CompletionEntry, Kind, Object, QP_STATE, QpState, QpType, Reply, SQ_CI, line, word_of,
};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use zerocopy::IntoBytes;

/// A memory region.
pub(super) struct Region {
    pub(super) off: u64,
    pub(super) len: u64,
    pub(super) iova: u64,
    pub(super) lkey: u32,
    pub(super) access: Access,
}

/// A completion queue.
pub(super) struct CompletionQueue {
    /// The next completion.
    next: Cursor,
    /// Taken by the device when this was looked at last.
    consumed: u32,
    has_overrun: bool,
}

/// A shared receive queue.
pub(super) struct SharedReceiveQueue {
    /// The next request.
    pub(super) receives: Cursor,
    /// Requests that were taken, and whose completions had no place: others take them before the next one. At most one of
    /// each queue pair, because these are taken first.
    pub(super) returned: VecDeque<Cursor>,
    generation: u16,
}

impl SharedReceiveQueue {
    /// The position of the next request.
    pub(super) fn next(&self) -> &Cursor {
        self.returned.front().unwrap_or(&self.receives)
    }
}

/// An address handle.
pub(super) struct AddressHandle {
    pub(super) to: Ipv4Addr,
    /// What requests call it.
    pub(super) handle: u32,
}

/// A queue pair.
pub(super) struct QueuePair {
    pub(super) state: QpState,
    /// The next send request, and the next receive request.
    pub(super) sends: Cursor,
    pub(super) receives: Cursor,
    send_cq: usize,
    receive_cq: usize,
    /// Where it takes receive requests, if these are not its own.
    pub(super) srq: Option<usize>,
    pub(super) peer: Option<usize>,
    /// Of a queue pair of datagrams, which has no peer.
    pub(super) datagrams: Option<Datagrams>,
    /// The connection with a queue pair of another adapter.
    pub(super) remote: Option<Box<Remote>>,
    pub(super) number: u32,
    /// The number of the one that it is connected with.
    pub(super) peer_number: u32,
    generation: u16,
    pub(super) rnr_retry: u8,
    pub(super) rnr_timer: u8,
    /// A request that has not ended.
    pub(super) progress: Option<Box<Progress>>,
    /// The receive request of a message that has not ended.
    pub(super) receiving: Option<Receive>,
}

/// The place of a new object.
fn place<T>(list: &mut Vec<Option<T>>, index: u16, kind: Kind) -> Result<&mut Option<T>, Reply> {
    if index >= kind.most() {
        return Err(Reply::MALFORMED);
    }
    let index = usize::from(index);
    if list.len() <= index {
        list.resize_with(index + 1, || None);
    }
    list.get_mut(index).filter(|place| place.is_none()).ok_or(Reply::STATE)
}

/// Takes an object out of its place.
fn remove<T>(list: &mut [Option<T>], index: usize) -> Result<(), Reply> {
    list.get_mut(index).and_then(Option::take).map(drop).ok_or(Reply::STATE)
}

impl<K> Engine<K> {
    pub(super) fn create(&mut self, object: &Object) -> Result<(), Reply> {
        if !object.fits(self.window.len()) || object.generation == 0 {
            return Err(Reply::MALFORMED);
        }
        let Object { kind, index, off, len, iova, lkey, access, generation, .. } = *object;
        let first = Cursor::new(Ring::new(off, object.log2, 1, object.tag()), 0);
        match kind {
            Kind::REGION => *place(&mut self.regions, index, kind)? = Some(Region { off, len, iova, lkey, access }),
            Kind::COMPLETION_QUEUE => {
                let queue = CompletionQueue { next: first, consumed: 0, has_overrun: false };
                *place(&mut self.completion_queues, index, kind)? = Some(queue);
                let _ = self.window.word(word_of(CQ_STATE, index)).map(|word| word.publish(0));
            }
            Kind::SHARED_RECEIVE_QUEUE => {
                let queue = SharedReceiveQueue { receives: first, returned: VecDeque::new(), generation };
                *place(&mut self.shared_receive_queues, index, kind)? = Some(queue);
            }
            Kind::QUEUE_PAIR => {
                let qp = self.queue_pair(object)?;
                *place(&mut self.queue_pairs, index, kind)? = Some(qp);
                self.set_first_state(index.into());
            }
            // `fits` has seen that it is one.
            Kind::ADDRESS_HANDLE => {
                let handle = AddressHandle { to: (iova as u32).into(), handle: object.handle() };
                *place(&mut self.address_handles, index, kind)? = Some(handle);
            }
            _ => return Err(Reply::MALFORMED),
        }
        Ok(())
    }

    /// A queue pair of this object, whose queues are there.
    fn queue_pair(&self, object: &Object) -> Result<QueuePair, Reply> {
        let (send_cq, receive_cq) = (object.send_cq.into(), object.receive_cq.into());
        // One that has overrun has put its queue pairs in error, for good.
        let serves = |cq: &CompletionQueue| !cq.has_overrun;
        let is_there = |cq: usize| self.completion_queues.get(cq).is_some_and(|cq| cq.as_ref().is_some_and(serves));
        let srq = object.shared_receive_queue().map(usize::from);
        let has_srq = srq.is_none_or(|srq| self.shared_receive_queues.get(srq).is_some_and(Option::is_some));
        if !is_there(send_cq) || !is_there(receive_cq) || !has_srq {
            return Err(Reply::STATE);
        }
        Ok(QueuePair {
            state: QpState::INIT,
            sends: Cursor::new(Ring::new(object.off, object.log2, 2, object.tag()), 0),
            receives: Cursor::new(Ring::new(object.receive_off, object.receive_log2, 1, object.tag()), 0),
            send_cq,
            receive_cq,
            srq,
            peer: None,
            datagrams: (object.qp_type == QpType::UD).then_some(Datagrams { qkey: object.lkey, psn: 0 }),
            remote: None,
            number: object.qp_number,
            peer_number: 0,
            generation: object.generation,
            rnr_retry: object.rnr_retry,
            rnr_timer: object.rnr_timer,
            progress: None,
            receiving: None,
        })
    }

    /// Makes a queue pair in the place of its former generation, which has no connection, request or message any more.
    pub(super) fn reset(&mut self, object: &Object) -> Result<(), Reply> {
        if object.kind != Kind::QUEUE_PAIR || !object.fits(self.window.len()) {
            return Err(Reply::MALFORMED);
        }
        let index = usize::from(object.index);
        let former = self.qp(index).ok_or(Reply::STATE)?.generation;
        if former.checked_add(1) != Some(object.generation) {
            return Err(Reply::STATE);
        }
        let qp = self.queue_pair(object)?;
        self.end_message(index);
        self.set_state(index, QpState::RESET);
        if let Some(place) = self.queue_pairs.get_mut(index) {
            *place = Some(qp);
        }
        self.set_first_state(index);
        Ok(())
    }

    /// Nothing was completed of it; one of datagrams needs no connection.
    fn set_first_state(&mut self, index: usize) {
        let _ = self.window.word(word_of(SQ_CI, index as u16)).map(|word| word.store(0));
        let is_datagram = self.qp(index).is_some_and(|qp| qp.datagrams.is_some());
        self.set_state(index, if is_datagram { QpState::RTS } else { QpState::INIT });
    }

    /// Completes the request of a message that ends with its queue pair, if it was in a shared receive queue: others
    /// are behind it.
    fn end_message(&mut self, qp: usize) {
        if self.has_shared_receives(qp) {
            self.flush_receive(qp);
        }
    }

    /// Does a queue pair take from a shared receive queue?
    pub(super) fn has_shared_receives(&self, qp: usize) -> bool {
        self.qp(qp).is_some_and(|qp| qp.srq.is_some())
    }

    /// Puts a queue pair in error.
    pub(super) fn set_error(&mut self, index: usize) -> Result<(), Reply> {
        let is_there = self.qp(index).is_some();
        self.set_state(index, QpState::ERR);
        if is_there { Ok(()) } else { Err(Reply::STATE) }
    }

    /// Destroys an object that no other one names.
    pub(super) fn destroy(&mut self, kind: Kind, index: u16) -> Result<(), Reply> {
        let at = usize::from(index);
        let mut pairs = self.queue_pairs.iter().flatten();
        match kind {
            Kind::COMPLETION_QUEUE if pairs.any(|qp| qp.send_cq == at || qp.receive_cq == at) => Err(Reply::STATE),
            Kind::SHARED_RECEIVE_QUEUE if pairs.any(|qp| qp.srq == Some(at)) => Err(Reply::STATE),
            Kind::COMPLETION_QUEUE if self.keeps_shared_receives(at) => Err(Reply::STATE),
            Kind::COMPLETION_QUEUE => remove(&mut self.completion_queues, at),
            Kind::SHARED_RECEIVE_QUEUE => remove(&mut self.shared_receive_queues, at),
            Kind::REGION => remove(&mut self.regions, at),
            Kind::ADDRESS_HANDLE => remove(&mut self.address_handles, at),
            Kind::QUEUE_PAIR => {
                self.end_message(at);
                self.set_state(at, QpState::RESET);
                remove(&mut self.queue_pairs, at)
            }
            _ => Err(Reply::MALFORMED),
        }
    }

    /// Are there completions of shared receive queues that the device has not taken? Without them these would not go on.
    fn keeps_shared_receives(&mut self, index: usize) -> bool {
        self.look_at_taken(index);
        let Some(Some(cq)) = self.completion_queues.get(index) else { return false };
        let waiting = cq.next.position().wrapping_sub(cq.consumed).min(cq.next.entries());
        (1..=waiting).any(|back| {
            let mut entry = CompletionEntry::default();
            self.read_line(&cq.next.plus(back.wrapping_neg()), entry.as_mut_bytes());
            let srq = entry.srq.checked_sub(1).and_then(|srq| self.shared_receive_queues.get(usize::from(srq)));
            srq.and_then(Option::as_ref).is_some_and(|srq| srq.generation == entry.generation)
        })
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

    /// Sets a state, and shows it. What is not in order has no request in progress: a peer of the same adapter that has taken a
    /// part of that goes into error, as nothing else would end its message.
    pub(super) fn set_state(&mut self, index: usize, state: QpState) {
        let Some(qp) = self.qp_mut(index) else { return };
        qp.state = state;
        qp.progress = qp.progress.take().filter(|_| state == QpState::RTS);
        let (peer, word) = (qp.peer.filter(|_| state != QpState::RTS), state.word(qp.generation));
        self.has_told = true;
        // The words of all queue pairs are in the section, whose length was checked.
        let _ = self.window.word(word_of(QP_STATE, index as u16)).map(|at| at.publish(word));
        let waits =
            |peer: &QueuePair| peer.peer == Some(index) && peer.state == QpState::RTS && peer.receiving.is_some();
        if let Some(peer) = peer.filter(|peer| self.qp(*peer).is_some_and(waits)) {
            self.set_state(peer, QpState::ERR);
        }
    }

    /// Is there room for the completion of a send of one queue pair, and for that of a receive of another? A queue
    /// without has overrun, and all its queue pairs are in error.
    pub(super) fn has_room(&mut self, sender: Option<usize>, receiver: Option<usize>) -> bool {
        let send_cq = sender.and_then(|qp| Some(self.qp(qp)?.send_cq));
        let receive_cq = receiver.and_then(|qp| Some(self.qp(qp)?.receive_cq));
        match (send_cq, receive_cq) {
            (Some(send), Some(receive)) if send == receive => self.has_room_for(send, 2),
            (send, receive) => {
                let mut has_room = |cq: Option<usize>| cq.is_none_or(|cq| self.has_room_for(cq, 1));
                has_room(send) & has_room(receive)
            }
        }
    }

    #[inline]
    fn has_room_for(&mut self, index: usize, count: u32) -> bool {
        let Some(Some(cq)) = self.completion_queues.get(index) else { return false };
        !cq.has_overrun && (cq.has_room(count) || self.look_for_room(index, count))
    }

    /// The same behind a look at what the device has taken.
    #[cold]
    fn look_for_room(&mut self, index: usize, count: u32) -> bool {
        self.look_at_taken(index);
        let Some(Some(cq)) = self.completion_queues.get_mut(index) else { return false };
        if !cq.has_room(count) {
            cq.has_overrun = true;
            let _ = self.window.word(word_of(CQ_STATE, index as u16)).map(|word| word.publish(1));
            for qp in 0..self.queue_pairs.len() {
                if self.qp(qp).is_some_and(|qp| qp.send_cq == index || qp.receive_cq == index) {
                    self.set_state(qp, QpState::ERR);
                }
            }
            return false;
        }
        true
    }

    /// Looks at what the device has taken of a completion queue.
    fn look_at_taken(&mut self, index: usize) {
        let Some(Some(cq)) = self.completion_queues.get_mut(index) else { return };
        let taken = self.window.word(word_of(CQ_CI, index as u16)).map_or(0, |word| word.observe());
        // A device takes what there is: a number ahead of that is none of its own, and one of another generation is of a handle
        // that it has kept.
        if let Some(waiting) = cq.next.waiting(taken) {
            cq.consumed = cq.next.position().wrapping_sub(waiting);
        }
    }

    /// Completes the next send request: its place is free, and its completion, if it has one, is there unless its
    /// completion queue has overrun.
    #[inline(always)]
    pub(super) fn complete_send(&mut self, index: usize, id: u64, has_completion: bool, outcome: &Outcome) {
        let Some(qp) = self.qp_mut(index) else { return };
        qp.sends = qp.sends.plus(1);
        let (retired, generation) = (qp.sends.position(), qp.generation);
        let entry = CompletionEntry { id, retired, generation, ..qp.completion(index, outcome) };
        let cq = qp.send_cq;
        let _ = self.window.word(word_of(SQ_CI, index as u16)).map(|word| word.store(retired));
        if has_completion {
            self.publish_completion(cq, &entry);
        }
    }

    /// Completes the receive request that a message has taken: likewise, but one of a shared receive queue is there again if
    /// its completion queue has overrun, so that it has an outcome.
    #[inline(always)]
    pub(super) fn complete_receive(&mut self, index: usize, outcome: &Outcome) {
        let Some(Some(qp)) = self.queue_pairs.get_mut(index) else { return };
        let Some(Receive { id, position, srq, .. }) = qp.receiving else { return };
        qp.receiving = None;
        let shared = srq.and_then(|srq| self.shared_receive_queues.get(srq)?.as_ref());
        let entry = CompletionEntry {
            id,
            retired: position.wrapping_add(1),
            source: qp.peer_number,
            srq: srq.map_or(0, |srq| srq as u16 + 1),
            generation: shared.map_or(qp.generation, |srq| srq.generation),
            ..qp.completion(index, outcome)
        };
        let cq = qp.receive_cq;
        if !self.publish_completion(cq, &entry)
            && let Some(Some(srq)) = srq.and_then(|srq| self.shared_receive_queues.get_mut(srq))
        {
            let at = srq.receives.plus(position.wrapping_sub(srq.receives.position()));
            srq.returned.push_back(at);
        }
    }

    /// False: its completion queue has overrun. Apart, so that all stores of the line come at once: a device that polls takes
    /// the line back between two of them.
    #[inline(never)]
    fn publish_completion(&mut self, cq: usize, entry: &CompletionEntry) -> bool {
        if !self.has_room_for(cq, 1) {
            return false;
        }
        let Some(Some(cq)) = self.completion_queues.get_mut(cq) else { return false };
        let at = cq.next;
        cq.next = at.plus(1);
        // The ring is in the section, whose length was checked.
        let _ = self.window.write_words(at.entry(), line(entry));
        let _ = self.window.word(at.word()).map(|word| word.publish(at.expected()));
        true
    }
}

impl CompletionQueue {
    #[inline]
    fn has_room(&self, count: u32) -> bool {
        // A device that has taken more than there was is not believed.
        let waits = self.next.position().wrapping_sub(self.consumed);
        self.next.entries().checked_sub(count).is_some_and(|most| waits <= most)
    }
}

impl QueuePair {
    /// What a completion says of an outcome here.
    #[inline(always)]
    fn completion(&self, index: usize, outcome: &Outcome) -> CompletionEntry {
        let &Outcome { status, opcode, length, immediate } = outcome;
        let has_grh = opcode.is_receive() && self.datagrams.is_some();
        CompletionEntry {
            status,
            opcode,
            length,
            immediate: immediate.unwrap_or_default(),
            flags: immediate.map_or(0, |_| CompletionEntry::WITH_IMM) | if has_grh { CompletionEntry::GRH } else { 0 },
            qp: index as u16,
            qp_number: self.number,
            ..CompletionEntry::default()
        }
    }
}
