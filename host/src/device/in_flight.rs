//! Which calls have no reply, as the window shows it: of any thread, and whether or not a thread
//! waits for them.

use super::Device;
use hamr_comm::abi::ids::{Epoch, HandlerKey};
use hamr_comm::abi::slot::{RepHdr, ReqHdr};
use hamr_comm::abi::sync::Coherent;
use hamr_comm::abi::window::{Queue, Shared, Slot};
use hamr_comm::am::{SlotAccess, Slots};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// What is known of each ticket's last call, per queue pair: the window does not show it while the call runs.
pub(super) struct TicketWords(Box<[Box<[Expected]>]>);

struct Expected {
    /// The word that its reply has in the ticket slot; 0: none comes.
    word: AtomicU32,
    /// The word of its request in the ring (32), and where that is.
    request: AtomicU64,
}

impl TicketWords {
    pub(super) fn new(queues: u32, tickets: u32) -> Self {
        let none = || Expected { word: AtomicU32::new(0), request: AtomicU64::new(0) };
        Self((0..queues).map(|_| (0..tickets).map(|_| none()).collect()).collect())
    }

    fn of(&self, queue: u32, ticket: u32) -> Option<&Expected> {
        self.0.get(queue as usize)?.get(ticket as usize)
    }

    /// No call has a ticket.
    pub(super) fn clear(&self) {
        self.0.iter().flatten().for_each(|ticket| ticket.word.store(0, Ordering::Relaxed));
    }
}

impl Expected {
    /// Is the reply in the ring the call's only one? Its stream may not have read it.
    fn is_answered(&self, queue: &Queue<Shared>) -> bool {
        let request = self.request.load(Ordering::Relaxed);
        let (slot, word) = (queue.ring(request as u32), (request >> 32) as u32);
        slot.req_seq() == word && slot.rep_seq() == word && !RepHdr(slot.rep_hdr()).has(RepHdr::TAKEN)
    }
}

impl Device {
    /// The next reply in this ticket slot carries `word`, and the call's request in the ring slot of position `x`
    /// the word `request`.
    pub(crate) fn expect_in_ticket_slot(&self, (queue, ticket): (u32, u32), word: u32, (x, request): (u64, u32)) {
        if let Some(of) = self.tickets.of(queue, ticket) {
            of.request.store((u64::from(request) << 32) | (x & 0xFFFF_FFFF), Ordering::Relaxed);
            of.word.store(word, Ordering::Relaxed);
        }
    }

    /// The call with this ticket was refused, or has its result in the ring.
    pub(crate) fn expect_none_in_ticket_slot(&self, queue: u32, ticket: u32) {
        if let Some(of) = self.tickets.of(queue, ticket) {
            of.word.store(0, Ordering::Relaxed);
        }
    }

    /// The name of a handler of which a call has no reply in this epoch. A call that another thread
    /// submits now may be missed.
    pub(super) fn in_flight(&self) -> Option<String> {
        let tag = u32::from(Epoch(self.epoch.load(Ordering::Acquire)).tag()) << 24;
        let is_open = |word: u32, reply: u32| word & 0xFF00_0000 == tag && word != reply;
        let name = |slot: &Slot<'_, Coherent>| self.name_of(ReqHdr(slot.req_hdr()).key());
        (0..self.layout.queues()).find_map(|index| {
            let queue = self.queue_in(self.link.window(), index)?;
            let mut direct = std::iter::once(queue.hot()).chain((0..queue.ring_len()).map(|i| queue.ring(i)));
            let found = direct.find(|slot| is_open(slot.req_seq(), slot.rep_seq())).as_ref().map(name);
            found.or_else(|| {
                (0..queue.ticket_slots()).find_map(|ticket| {
                    let slot = queue.ticket_slot(ticket)?;
                    let expected = self.tickets.of(index, ticket)?;
                    let is_open = is_open(expected.word.load(Ordering::Relaxed), slot.rep_seq());
                    (is_open && !expected.is_answered(&queue)).then(|| name(&slot))
                })
            })
        })
    }

    fn name_of(&self, key: HandlerKey) -> String {
        let handlers = self.running().handlers;
        match handlers.get(key.index()) {
            Some(handler) if key.module() == 0 => handler.name.clone(),
            _ => format!("handler {:#06x}", key.0),
        }
    }
}
