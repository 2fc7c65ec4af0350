//! Which calls have no reply, as the window shows it: of any thread, and whether or not a thread
//! waits for them.

use super::Device;
use hamr_comm::abi::ids::{Epoch, HandlerKey};
use hamr_comm::abi::slot::ReqHdr;
use hamr_comm::abi::sync::Coherent;
use hamr_comm::abi::window::Slot;
use hamr_comm::am::{SlotAccess, Slots};
use std::sync::atomic::{AtomicU32, Ordering};

/// The word that the reply of each ticket's last call has, per queue pair; 0: it had none. The window
/// does not show it while the call runs.
pub(super) struct TicketWords(Box<[Box<[AtomicU32]>]>);

impl TicketWords {
    pub(super) fn new(queues: u32, tickets: u32) -> Self {
        let words = || (0..tickets).map(|_| AtomicU32::new(0)).collect();
        Self((0..queues).map(|_| words()).collect())
    }

    fn of(&self, queue: u32, ticket: u32) -> Option<&AtomicU32> {
        self.0.get(queue as usize)?.get(ticket as usize)
    }
}

impl Device {
    /// The next reply in this ticket slot carries `word`; 0: the call was refused, none comes.
    pub(crate) fn expect_in_ticket_slot(&self, queue: u32, ticket: u32, word: u32) {
        if let Some(of) = self.tickets.of(queue, ticket) {
            of.store(word, Ordering::Relaxed);
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
                    let word = self.tickets.of(index, ticket)?.load(Ordering::Relaxed);
                    is_open(word, slot.rep_seq()).then(|| name(&slot))
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
