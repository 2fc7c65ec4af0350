//! The queue pair in which this rank calls another (abi §13.3). All tasks of the rank share it, so a
//! call of a task there has a ticket, and no call waits for the reply of another.

use super::call_queue::CallQueue;
use super::kept_replies::KeptReplies;
use super::{SlotAccess, Slots};
use crate::task::Answer;
use hamr_shared_abi::ids::{Epoch, HandlerKey, RankId};
use hamr_shared_abi::slot::{Ext, RepHdr, ReqHdr, seq};
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::window::Queue;
use hamr_shared_abi::world::LANE_TICKETS;

pub(super) struct Lane<K, F> {
    calls: CallQueue<K, F>,
    /// Who is called.
    peer: RankId,
    tickets: [Ticket; LANE_TICKETS as usize],
}

#[derive(Clone, Copy, Default)]
struct Ticket {
    /// Uses that the other rank has seen.
    count: u32,
    state: State,
    /// The low half of its call's position, when no task reads the reply.
    at: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Free,
    /// A task has the call.
    Taken,
    /// No task reads its reply, for which the ring is looked at, or the ticket slot.
    Forgotten { moved: bool },
}

impl Ticket {
    /// No task reads the reply to its call.
    fn keep(&mut self, call: LaneCall) {
        (self.state, self.at) = (State::Forgotten { moved: call.moved }, call.at as u32);
    }
}

/// A call in a lane.
#[derive(Clone, Copy)]
pub(crate) struct LaneCall {
    /// Its position in the ring.
    at: u64,
    ticket: Option<u8>,
    /// The other rank has taken it, and replies in the ticket slot.
    moved: bool,
}

impl LaneCall {
    /// Of a handler that is no task.
    pub(crate) fn is_inline(&self) -> bool {
        self.ticket.is_none()
    }
}

impl<K, F: Order> Lane<K, F> {
    pub(super) fn new(slots: Queue<K, F>, epoch: Epoch, peer: RankId) -> Self {
        Self { calls: CallQueue::new(slots, epoch), peer, tickets: [Ticket::default(); LANE_TICKETS as usize] }
    }

    /// Publishes a call of a handler that is a task or not. `None`: there is no room.
    pub(super) fn submit(
        &mut self,
        kept: &mut KeptReplies,
        key: HandlerKey,
        flags: u32,
        is_task: bool,
        deadline_us: u32,
        args: &[u8],
    ) -> Option<LaneCall> {
        self.sweep(kept);
        if !self.calls.requester.ring_has_room() {
            self.make_room(kept);
        }
        let ext = Ext { deadline_us, ..Ext::default() };
        if !is_task {
            let at = self.calls.submit(key, flags, ext, args)?;
            return Some(LaneCall { at, ticket: None, moved: false });
        }
        let index = self.tickets.iter().position(|ticket| ticket.state == State::Free)?;
        let word = self.word(index as u8, 1)?;
        let ext = Ext { ticket: index as u16, ticket_seq: word, chain: Ext::CHAINED, ..ext };
        // No cancellation of the last call is left. The other rank keeps the line unless it changes.
        if self.slot(index as u8)?.req_hdr() != 0 {
            self.slot(index as u8)?.set_req_hdr(0);
        }
        let at = self.calls.submit(key, flags | ReqHdr::TICKET | ReqHdr::UNORDERED, ext, args)?;
        let ticket = self.tickets.get_mut(index)?;
        (ticket.count, ticket.state) = (ticket.count.wrapping_add(1), State::Taken);
        Some(LaneCall { at, ticket: Some(index as u8), moved: false })
    }

    /// Is the reply there that ends the call?
    #[inline(never)]
    pub(super) fn is_answered(&mut self, call: &mut LaneCall, kept: &mut KeptReplies) -> bool {
        let Some(ticket) = call.ticket else { return self.calls.is_answered(call.at) };
        if !call.moved {
            match self.calls.reply(call.at).or_else(|| kept.header((self.peer, call.at))) {
                // One that was kept is malformed, or there is none yet: one that comes now is looked at next time.
                None => return self.calls.is_released(call.at),
                Some(hdr) if !hdr.has(RepHdr::TAKEN) => return true,
                Some(_) => {}
            }
            self.calls.close(call.at);
            kept.drop((self.peer, call.at));
            call.moved = true;
        }
        self.ticket_reply(ticket).is_some()
    }

    /// [`Self::is_answered`] within so many looks.
    pub(super) fn is_answered_within(&mut self, call: &mut LaneCall, kept: &mut KeptReplies, looks: u32) -> bool {
        for _ in 0..looks {
            if self.is_answered(call, kept) {
                return true;
            }
            core::hint::spin_loop();
        }
        false
    }

    /// Copies the reply to the front of `to` and ends the call, if the reply is there.
    #[inline(never)]
    pub(super) fn read(&mut self, call: &mut LaneCall, kept: &mut KeptReplies, to: &mut [u8]) -> Answer {
        if !self.is_answered(call, kept) {
            return Answer::None;
        }
        let answer = match call.ticket.filter(|_| call.moved) {
            Some(ticket) => match (self.slot(ticket), self.ticket_reply(ticket)) {
                (Some(slot), Some(hdr)) => self.calls.read_from(slot, self.number(ticket), hdr, to),
                _ => Answer::Corrupt,
            },
            None => kept.take((self.peer, call.at), to).unwrap_or_else(|| self.calls.read(call.at, to)),
        };
        self.release(*call, kept);
        answer
    }

    /// No task reads its reply. It is cancelled, unless it is to run.
    pub(super) fn forget(&mut self, mut call: LaneCall, kept: &mut KeptReplies, runs: bool) {
        if self.is_answered(&mut call, kept) {
            return self.release(call, kept);
        }
        if !runs {
            self.cancel(call);
        }
        match call.ticket.and_then(|ticket| self.tickets.get_mut(usize::from(ticket))) {
            Some(ticket) => ticket.keep(call),
            None if runs => self.calls.forget(call.at),
            None => self.calls.close(call.at),
        }
    }

    /// Asks the other rank to stop the call.
    pub(super) fn cancel(&mut self, call: LaneCall) {
        match call.ticket {
            // The other rank looks there when it begins the task, and while that waits.
            Some(ticket) => {
                if let Some(slot) = self.slot(ticket) {
                    slot.set_req_hdr(ReqHdr::CANCEL);
                }
            }
            None => self.calls.cancel(call.at),
        }
    }

    /// Frees what forgotten calls had, when their replies are there.
    #[inline(never)]
    fn sweep(&mut self, kept: &mut KeptReplies) {
        for i in 0..self.tickets.len() {
            let Some(Ticket { state: State::Forgotten { moved }, at, .. }) = self.tickets.get(i).copied() else {
                continue;
            };
            // The ring has fewer slots than positions have the same lower half.
            let next = self.calls.requester.next_position();
            let at = next - u64::from((next as u32).wrapping_sub(at));
            let mut call = LaneCall { at, ticket: Some(i as u8), moved };
            if self.is_answered(&mut call, kept) {
                self.release(call, kept);
            } else if let Some(ticket) = self.tickets.get_mut(i) {
                ticket.keep(call);
            }
        }
        self.calls.is_quiet();
    }

    /// Moves replies that no task has read out of the ring.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, kept: &mut KeptReplies) {
        while let Some(at) = self.calls.requester.oldest()
            && let Some(hdr) = self.calls.reply(at)
        {
            // One that no task reads may have come since the last look.
            if !self.calls.is_quiet() && self.calls.requester.oldest() == Some(at) {
                let keep = |to: &mut [u8]| match hdr.has(RepHdr::TAKEN) {
                    true => Answer::Reply(hdr, 0),
                    false => self.calls.read(at, to),
                };
                if !kept.keep((self.peer, at), keep) {
                    return;
                }
                self.calls.close(at);
            }
        }
    }

    /// The reply was read, or is not wanted.
    fn release(&mut self, call: LaneCall, kept: &mut KeptReplies) {
        if !call.moved {
            self.calls.close(call.at);
            kept.drop((self.peer, call.at));
        }
        if let Some(ticket) = call.ticket.and_then(|ticket| self.tickets.get_mut(usize::from(ticket))) {
            // A call that was refused was no use.
            let count = ticket.count.wrapping_sub(u32::from(!call.moved));
            *ticket = Ticket { count, ..Ticket::default() };
        }
    }

    /// The word that the reply of a ticket's present use carries, or of one `ahead`.
    fn word(&self, ticket: u8, ahead: u32) -> Option<u32> {
        let count = self.tickets.get(usize::from(ticket))?.count.wrapping_add(ahead);
        Some(seq(self.calls.requester.tag(), count, Queue::<K, F>::COUNT_BITS))
    }

    fn ticket_reply(&self, ticket: u8) -> Option<RepHdr> {
        self.slot(ticket)?.rep_hdr_of(self.word(ticket, 0)?).map(RepHdr)
    }

    fn slot(&self, ticket: u8) -> Option<impl SlotAccess + use<'_, K, F>> {
        self.calls.requester.slots().ticket_slot(ticket.into())
    }

    fn number(&self, ticket: u8) -> u32 {
        1 + self.calls.requester.slots().ring_len() + u32::from(ticket)
    }
}
