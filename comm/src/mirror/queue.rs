//! The two ends of one queue pair of a mirror, each in its copy, and what is outstanding between them.
//!
//! Replies are looked for in the order of their requests, but for those that are UNORDERED: a requester takes a ring for
//! answered when its newest message is, and whatever was submitted before for complete when a later reply is there. An
//! outstanding request's header is compared until its reply, for CANCEL.

use super::{Body, Half, Message};
use crate::am::{Responder, SlotAccess, Slots};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::queue::QueueDescriptor;
use hamr_shared_abi::slot::{INLINE_WORDS, Place, RepHdr, ReqHdr, SECOND_WORDS};
use hamr_shared_abi::sync::Coherent;
use hamr_shared_abi::window::{Queue, Slot};

/// A request that was carried and not answered, or the ticket slot of one.
struct Outstanding {
    slot: u32,
    word: u32,
    hdr: ReqHdr,
    /// The number of its ticket slot.
    ticket: Option<u32>,
}

/// At most one for each slot, in the order of the requests.
struct Calls {
    all: VecDeque<Outstanding>,
    /// By slot: is there one?
    slots: Vec<bool>,
    /// How many may be answered before an earlier one is.
    unordered: usize,
}

impl Calls {
    fn new<K>(slots: &Queue<K>) -> Self {
        Self { all: VecDeque::new(), slots: vec![false; count(slots) as usize], unordered: 0 }
    }

    /// A request is carried. A slot's last one is over, whatever a peer says.
    fn begin<K>(&mut self, half: &Half, slots: &Queue<K>) {
        let hdr = ReqHdr(half.hdr);
        let ticket = ticket_of(half, Shape::of_queue(slots));
        self.push(Outstanding { slot: half.slot, word: half.word, hdr, ticket: ticket.map(|(number, _)| number) });
        if let Some((slot, word)) = ticket {
            self.push(Outstanding { slot, word, hdr, ticket: None });
        }
    }

    fn push(&mut self, call: Outstanding) {
        self.drop_of(call.slot);
        if let Some(is_there) = self.slots.get_mut(call.slot as usize) {
            *is_there = true;
        }
        self.unordered += usize::from(call.hdr.has(ReqHdr::UNORDERED));
        self.all.push_back(call);
    }

    fn drop_of(&mut self, slot: u32) {
        if self.slots.get(slot as usize) == Some(&true)
            && let Some(index) = self.all.iter().position(|call| call.slot == slot)
        {
            self.remove(index);
        }
    }

    fn remove(&mut self, index: usize) -> Option<Outstanding> {
        let call = self.all.remove(index)?;
        if let Some(is_there) = self.slots.get_mut(call.slot as usize) {
            *is_there = false;
        }
        self.unordered -= usize::from(call.hdr.has(ReqHdr::UNORDERED));
        Some(call)
    }

    fn find(&self, half: &Half) -> Option<usize> {
        self.all.iter().position(|call| call.slot == half.slot && call.word == half.word)
    }

    /// Those whose replies may be there: the oldest, and what is UNORDERED.
    fn looked_for(&self) -> impl Iterator<Item = (usize, &Outstanding)> {
        let (mut is_behind, mut unordered) = (false, self.unordered);
        let mut calls = self.all.iter().enumerate();
        core::iter::from_fn(move || {
            loop {
                if is_behind && unordered == 0 {
                    return None;
                }
                let (index, call) = calls.next()?;
                let is_unordered = call.hdr.has(ReqHdr::UNORDERED);
                unordered -= usize::from(is_unordered);
                if is_unordered || !core::mem::replace(&mut is_behind, true) {
                    return Some((index, call));
                }
            }
        })
    }

    /// Its reply is carried. Without TAKEN the ticket slot was not used.
    fn end(&mut self, index: usize, reply: RepHdr) {
        let Some(call) = self.remove(index) else { return };
        if let Some(ticket) = call.ticket.filter(|_| !reply.has(RepHdr::TAKEN)) {
            self.drop_of(ticket);
        }
    }
}

/// What places the parts of a message in a queue pair.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    ring_len: u32,
    slots: u32,
    req_chunk: usize,
}

impl Shape {
    /// As a descriptor says.
    pub(super) fn of(d: &QueueDescriptor) -> Self {
        Self { ring_len: d.ring_len, slots: d.slots(), req_chunk: d.req_chunk as usize }
    }

    fn of_queue<K>(slots: &Queue<K>) -> Self {
        Self { ring_len: slots.ring_len(), slots: count(slots), req_chunk: slots.req_chunk_len() }
    }
}

/// Slots of a queue pair, by number.
fn count<K>(slots: &Queue<K>) -> u32 {
    1 + slots.ring_len() + slots.ticket_slots()
}

fn slot<K>(slots: &Queue<K>, number: u32) -> Option<Slot<'_, Coherent>> {
    match number.checked_sub(1) {
        None => Some(slots.hot()),
        Some(i) if i < slots.ring_len() => Some(slots.ring(i)),
        Some(i) => slots.ticket_slot(i - slots.ring_len()),
    }
}

/// The number of a TICKET request's ticket slot, and the word of the reply there (abi §4.4).
pub(super) fn ticket_of(half: &Half, shape: Shape) -> Option<(u32, u32)> {
    let hdr = ReqHdr(half.hdr);
    let [first, second, ..] = half.payload;
    let number = 1 + shape.ring_len + (second & 0xFFFF) as u32;
    let is_there = hdr.has(ReqHdr::TICKET) && hdr.has(ReqHdr::EXT) && number < shape.slots;
    is_there.then_some((number, (first >> 32) as u32))
}

/// The slot whose chunk has the request's arguments, and their bytes. `None`: it has no chunk, or names more than there
/// is, which its responder refuses.
pub(super) fn chunk_of(half: &Half, shape: Shape) -> Option<(u32, usize)> {
    let hdr = ReqHdr(half.hdr);
    let at = if hdr.has(ReqHdr::EXT) { 3 } else { 1 };
    let len = usize::try_from(*half.payload.get(at)?).ok()?;
    let is_there = hdr.place() == Place::Chunk && len <= shape.req_chunk;
    is_there.then(|| (ticket_of(half, shape).map_or(half.slot, |(number, _)| number), len))
}

/// What a side has of a queue pair.
pub(super) trait End {
    /// Is there something to look for? One look at a line or two: a side has dozens of ends, and most are idle.
    fn may_take(&self) -> bool;

    /// Moves the next message for the other side, and its chunk, into `message`.
    fn take(&mut self, of: (u16, bool), message: &mut Message) -> Option<()>;

    /// Moves CANCEL of an outstanding request into `message`.
    fn take_cancel(&mut self, _of: (u16, bool), _message: &mut Message) -> Option<()> {
        None
    }
}

/// One look in so many does not begin where the last message was, and one of those in between at the host queues: none waits for the
/// end of another.
pub(super) const OTHERS: u32 = 8;

/// Where looks begin.
#[derive(Default)]
pub(super) struct LookOrder {
    looks: u32,
    /// The queue pairs of the last messages, of streams and of host queues.
    streams: usize,
    of_host: usize,
}

impl LookOrder {
    /// The next message of any queue pair.
    pub(super) fn first(&mut self, streams: &mut [impl End], of_host: &mut [impl End], message: &mut Message) -> bool {
        self.looks = self.looks.wrapping_add(1);
        let look = self.looks % OTHERS;
        let (begin, begin_of_host) = (&mut self.streams, &mut self.of_host);
        if look == OTHERS / 2 && next(of_host, begin_of_host, true, (true, message)) {
            return true;
        }
        let is_there = look == OTHERS / 4 && cancelled(streams, of_host, message)
            || next(streams, begin, look == 0, (false, message))
            || next(of_host, begin_of_host, false, (true, message))
            || cancelled(streams, of_host, message);
        if !is_there {
            message.body = Body::None;
        }
        is_there
    }
}

/// CANCEL of the first queue pair that has one. In the order of their numbers, as a host that ends an epoch marks them: who ends a call
/// that runs has told of those before it.
fn cancelled(streams: &mut [impl End], of_host: &mut [impl End], message: &mut Message) -> bool {
    let mut streams = streams.iter_mut().zip(0..);
    streams.any(|(end, queue)| end.take_cancel((queue, false), message).is_some())
        || of_host.iter_mut().zip(0..).any(|(end, queue)| end.take_cancel((queue, true), message).is_some())
}

/// The next message of these queue pairs, of the one of the last message first or `behind` it.
fn next<E: End>(ends: &mut [E], last: &mut usize, behind: bool, (of_host, message): (bool, &mut Message)) -> bool {
    let begin = (*last + usize::from(behind)).min(ends.len());
    let (before, from) = ends.split_at_mut(begin);
    let all = from.iter_mut().zip(begin..).chain(before.iter_mut().zip(0..));
    let mut there = all.filter(|(end, _)| end.may_take());
    let found = there.find_map(|(end, queue)| end.take((queue as u16, of_host), message).map(|()| queue));
    *last = found.unwrap_or(*last);
    found.is_some()
}

/// The end in the requester's copy.
pub(super) struct Requests<K> {
    responder: Responder<Queue<K>>,
    calls: Calls,
}

impl<K> Requests<K> {
    /// At the start of `epoch`.
    // A call: where it is inlined, x86_64 moves parts of it by string instructions.
    #[inline(never)]
    pub(super) fn new(slots: &Queue<K>, epoch: Epoch) -> Self
    where
        K: Clone,
    {
        let calls = Calls::new(slots);
        Self { responder: Responder::new(slots.clone(), epoch), calls }
    }

    /// The slots in which something may have come: of outstanding requests, for CANCEL, the next one of the ring, and the hot one.
    pub(super) fn asked(&self, numbers: &mut Vec<u32>) {
        numbers.extend(self.calls.all.iter().map(|call| call.slot).chain([self.next_ring(), 0]));
    }

    /// The ring slot in which the next request comes.
    pub(super) fn next_ring(&self) -> u32 {
        1 + (self.responder.expected().ring.0 & (self.responder.slots().ring_len() - 1))
    }

    pub(super) fn is_idle(&self) -> bool {
        self.calls.all.is_empty()
    }

    /// Publishes the reply to an outstanding request. False: it is to none. `None`: it does not fit this copy.
    pub(super) fn put(&mut self, half: &Half, message: &Message) -> Option<bool> {
        let Some(index) = self.calls.find(half) else { return Some(false) };
        let (slots, hdr) = (self.responder.slots(), RepHdr(half.hdr));
        let at = slot(slots, half.slot)?;
        if !message.bytes.is_empty() {
            slots.write_reply_chunk(half.slot, &message.bytes)?;
        }
        at.write_reply(half.payload.get(..hdr.len().div_ceil(8)).unwrap_or(&half.payload));
        at.publish_reply(half.hdr, half.word);
        self.calls.end(index, hdr);
        Some(true)
    }
}

impl<K> End for Requests<K> {
    fn may_take(&self) -> bool {
        self.responder.has_next()
    }

    fn take_cancel(&mut self, (queue, of_host): (u16, bool), message: &mut Message) -> Option<()> {
        if self.is_idle() {
            return None;
        }
        message.bytes.clear();
        let slots = self.responder.slots();
        let is_new = |call: &&mut Outstanding| {
            let hdr = slot(slots, call.slot).map_or(0, SlotAccess::req_hdr);
            ReqHdr(hdr).has(ReqHdr::CANCEL) && !call.hdr.has(ReqHdr::CANCEL)
        };
        // The youngest first: a call that runs ends by its own, and those behind it are not to begin meanwhile.
        let call = self.calls.all.iter_mut().rev().find(is_new)?;
        call.hdr = call.hdr.with(ReqHdr::CANCEL);
        let Outstanding { slot, word, hdr, .. } = *call;
        let payload = [0; INLINE_WORDS];
        message.second = [0; SECOND_WORDS];
        message.body = Body::Half(Half { queue, of_host, header_alone: true, slot, hdr: hdr.0, word, payload });
        Some(())
    }

    fn take(&mut self, (queue, of_host): (u16, bool), message: &mut Message) -> Option<()> {
        message.bytes.clear();
        let found = self.responder.next(true)?;
        let at = self.responder.slot(found.slot);
        let hdr = at.req_hdr();
        let slots = self.responder.slots();
        message.second = [0; SECOND_WORDS];
        if found.slot == 0 && ReqHdr(hdr).has_second_line() {
            slots.read_second(&mut message.second);
        }
        let payload = at.request_words();
        let half = Half { queue, of_host, header_alone: false, slot: found.slot, hdr, word: found.seq, payload };
        if let Some((number, len)) = chunk_of(&half, Shape::of_queue(slots)) {
            message.bytes.resize(len, 0);
            slots.read_request_chunk(number, &mut message.bytes)?;
        }
        self.calls.begin(&half, slots);
        message.body = Body::Half(half);
        Some(())
    }
}

/// The end in the responder's copy.
pub(super) struct Replies<K> {
    slots: Queue<K>,
    calls: Calls,
}

impl<K> Replies<K> {
    // As there.
    #[inline(never)]
    pub(super) fn new(slots: &Queue<K>) -> Self
    where
        K: Clone,
    {
        let calls = Calls::new(slots);
        let mut slots = slots.clone();
        // It is there. Without this, its copy were one move.
        slots.move_cursor(0);
        Self { slots, calls }
    }

    /// Publishes a request, or CANCEL in the header of an outstanding one; false: none is. `None`: it does not fit this copy.
    pub(super) fn put(&mut self, half: &Half, message: &Message) -> Option<bool> {
        let at = slot(&self.slots, half.slot)?;
        if half.header_alone {
            let is_outstanding = self.calls.find(half).is_some();
            if is_outstanding {
                at.set_req_hdr(at.req_hdr() | ReqHdr::CANCEL);
            }
            return Some(is_outstanding);
        }
        if half.slot == 0 && ReqHdr(half.hdr).has_second_line() {
            self.slots.write_second(bytemuck::cast_slice(&message.second));
        }
        if let Some((number, _)) = chunk_of(half, Shape::of_queue(&self.slots)) {
            self.slots.write_request_chunk(number, &[&message.bytes])?;
        }
        if let Some((number, _)) = ticket_of(half, Shape::of_queue(&self.slots)) {
            // Before the request, so that no CANCEL of an earlier call is there (rule 13).
            slot(&self.slots, number)?.set_req_hdr(half.hdr);
        }
        at.write_request(&half.payload);
        at.publish_request(half.hdr, half.word);
        self.calls.begin(half, &self.slots);
        Some(true)
    }

    /// The slots in which replies are looked for, or are outstanding at `all`.
    pub(super) fn awaited(&self, all: bool, numbers: &mut Vec<u32>) {
        if all {
            numbers.extend(self.calls.all.iter().map(|call| call.slot));
        } else {
            numbers.extend(self.calls.looked_for().map(|(_, call)| call.slot));
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.calls.all.is_empty()
    }
}

impl<K> End for Replies<K> {
    fn may_take(&self) -> bool {
        !self.is_idle()
    }

    fn take(&mut self, (queue, of_host): (u16, bool), message: &mut Message) -> Option<()> {
        message.bytes.clear();
        let slots = &self.slots;
        let there = |(index, call): (usize, &Outstanding)| {
            let at = slot(slots, call.slot)?;
            Some((index, call.slot, call.word, at.rep_hdr_of(call.word)?, at))
        };
        let (index, number, word, hdr, at) = self.calls.looked_for().find_map(there)?;
        let payload = at.reply_words();
        if RepHdr(hdr).place() == Place::Chunk
            && let Ok(len) = usize::try_from(payload[1])
            && len <= slots.rep_chunk_len()
        {
            message.bytes.resize(len, 0);
            slots.read_reply_chunk(number, &mut message.bytes)?;
        }
        self.calls.end(index, RepHdr(hdr));
        message.second = [0; SECOND_WORDS];
        message.body = Body::Half(Half { queue, of_host, header_alone: false, slot: number, hdr, word, payload });
        Some(())
    }
}
