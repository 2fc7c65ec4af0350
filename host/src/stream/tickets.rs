//! The tickets of one queue pair: which ticket slots have a queued call, and how often each was
//! used.
//!
//! A ticket's count is part of the word that its reply carries. It must be one more than at the
//! last use that the device has answered there, or the word of an old reply would match.

use hamr_comm::abi::slot::ReqHdr;

#[derive(Clone, Copy, Default)]
struct Ticket {
    /// Uses in this epoch.
    count: u32,
    /// The ring's position at which its call was submitted.
    at: u64,
    /// The entry of its call.
    entry: u32,
    /// The header in its slot, which is not read: with split placement it is the device's memory.
    hdr: u32,
    taken: bool,
}

/// The tickets of one queue pair (see the module).
pub(super) struct Tickets {
    all: Box<[Ticket]>,
    taken: u32,
}

impl Tickets {
    pub(super) fn new(count: u32) -> Self {
        Self { all: vec![Ticket::default(); count as usize].into_boxed_slice(), taken: 0 }
    }

    /// Does the stream have no tickets at all?
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Has a call a ticket?
    pub(super) fn any(&self) -> bool {
        self.taken != 0
    }

    pub(super) fn len(&self) -> u32 {
        self.all.len() as u32
    }

    /// A free ticket, for a call at the ring's position `at`.
    pub(super) fn take(&mut self, at: u64) -> Option<u32> {
        let index = self.all.iter().position(|ticket| !ticket.taken)?;
        let ticket = self.all.get_mut(index)?;
        *ticket = Ticket { count: ticket.count.wrapping_add(1), at, taken: true, ..*ticket };
        self.taken += 1;
        Some(index as u32)
    }

    /// Its call has the entry `entry`.
    pub(super) fn set_entry(&mut self, index: u32, entry: u32) {
        if let Some(ticket) = self.all.get_mut(index as usize) {
            ticket.entry = entry;
        }
    }

    /// The entry of the call that has this ticket, if one has.
    pub(super) fn entry(&self, index: u32) -> Option<u32> {
        self.all.get(index as usize).filter(|ticket| ticket.taken).map(|ticket| ticket.entry)
    }

    /// Its slot is to have this header. False: it has.
    #[inline(always)]
    pub(super) fn set_header(&mut self, index: u32, hdr: ReqHdr) -> bool {
        self.all.get_mut(index as usize).is_some_and(|ticket| std::mem::replace(&mut ticket.hdr, hdr.0) != hdr.0)
    }

    /// Its header with CANCEL, which its slot is to have.
    pub(super) fn cancel(&mut self, index: u32) -> u32 {
        self.all.get_mut(index as usize).map_or(0, |ticket| {
            ticket.hdr |= ReqHdr::CANCEL;
            ticket.hdr
        })
    }

    /// The count in the word of its reply.
    pub(super) fn count(&self, index: u32) -> u32 {
        self.all.get(index as usize).map_or(0, |ticket| ticket.count)
    }

    /// The reply to its call was published in the ticket slot, or may still be.
    pub(super) fn free(&mut self, index: u32) {
        if let Some(ticket) = self.all.get_mut(index as usize) {
            self.taken -= u32::from(std::mem::take(&mut ticket.taken));
        }
    }

    /// The device did not take the call: no word was or will be written into the ticket slot. The
    /// next use has the same count, or the count could wrap to that of the reply in the slot.
    pub(super) fn free_unused(&mut self, index: u32) {
        if let Some(ticket) = self.all.get_mut(index as usize) {
            self.taken -= u32::from(std::mem::take(&mut ticket.taken));
            ticket.count = ticket.count.wrapping_sub(1);
        }
    }

    /// Does a call submitted before the ring's position `at` have a ticket?
    pub(super) fn any_before(&self, at: u64) -> bool {
        self.all.iter().any(|ticket| ticket.taken && ticket.at < at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_are_taken_up_to_their_number() {
        let mut tickets = Tickets::new(2);
        assert_eq!([7, 8, 9].map(|at| tickets.take(at)), [Some(0), Some(1), None]);
        tickets.set_entry(1, 40);
        assert_eq!([0, 1, 2].map(|t| tickets.entry(t)), [Some(0), Some(40), None]);
        tickets.free(0);
        assert_eq!((tickets.entry(0), tickets.take(9)), (None, Some(0)));
        assert!(Tickets::new(0).is_empty() && Tickets::new(0).take(0).is_none());
    }

    #[test]
    fn a_ticket_counts_each_use_that_the_device_saw() {
        let mut tickets = Tickets::new(1);
        for count in 1..4 {
            assert_eq!((tickets.take(0), tickets.count(0)), (Some(0), count));
            tickets.free(0);
        }
        tickets.take(0);
        tickets.free_unused(0);
        tickets.take(0);
        assert_eq!(tickets.count(0), 4, "the refused call was none");
    }

    #[test]
    fn a_header_is_written_when_it_changes() {
        let (mut tickets, hdr) = (Tickets::new(2), ReqHdr(7));
        assert_eq!([0, 0, 1].map(|t| tickets.set_header(t, hdr)), [true, false, true]);
        assert_eq!(tickets.cancel(0), hdr.0 | ReqHdr::CANCEL);
        assert_eq!(
            [0, 1, 2].map(|t| tickets.set_header(t, hdr)),
            [true, false, false],
            "CANCEL goes, and no slot is none"
        );
    }

    #[test]
    fn a_flush_waits_for_tickets_taken_before_it() {
        let mut tickets = Tickets::new(2);
        tickets.take(5);
        assert!(tickets.any() && tickets.any_before(6) && !tickets.any_before(5));
        tickets.free(0);
        assert!(!tickets.any_before(6) && !tickets.any());
    }
}
