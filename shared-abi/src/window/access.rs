//! What the protocol needs of a queue pair. Two implementations: the window's
//! [`Queue`](super::Queue), and typed slots in the model tests.

/// The slots of one queue pair.
pub trait Slots {
    /// Bits of the count in a published word: 24, fewer only in models that explore the wrap.
    const COUNT_BITS: u32;
    /// One slot.
    type Slot<'a>: SlotAccess
    where
        Self: 'a;
    /// Ring slots, a power of two, at least 2.
    fn ring_len(&self) -> u32;
    /// The hot slot.
    fn hot(&self) -> Self::Slot<'_>;
    /// Ring slot `i mod ring_len`.
    fn ring(&self, i: u32) -> Self::Slot<'_>;
    /// The ring slot that [`Self::move_cursor`] was called for last, at first slot 0: found without
    /// its number, by a side that polls it.
    fn at_cursor(&self) -> Self::Slot<'_>;
    /// Moves the cursor to ring slot `i mod ring_len`.
    fn move_cursor(&mut self, i: u32);
    /// The reply in ring slot `i mod ring_len` is read soon: the processor may fetch it.
    #[inline(always)]
    fn prefetch_reply(&self, _i: u32) {}
    /// Payload of the hot slot's second line in, by the requester, before P1 of that slot (abi
    /// §4.7); what is longer is cut. Nothing where the slot has one line.
    fn write_second(&self, bytes: &[u8]);
    /// The same out, by the responder, after R1 and before P2.
    fn read_second(&self, words: &mut [u64]);
    /// Ticket slot `t`.
    fn ticket_slot(&self, t: u32) -> Option<Self::Slot<'_>>;
}

/// One slot. Words are published and observed in the order that rule 3 asks for; the labels P1, R1,
/// P2, R2 pair them.
pub trait SlotAccess: Copy {
    /// R1.
    fn req_seq(self) -> u32;
    /// The request's header, once R1 matched.
    fn req_hdr(self) -> u32;
    /// R1 and the header: that of the request with this word, when it is there.
    fn req_hdr_of(self, seq: u32) -> Option<u32>;
    /// P1, behind the payload.
    fn publish_request(self, hdr: u32, seq: u32);
    /// R2.
    fn rep_seq(self) -> u32;
    /// The reply's header, once R2 matched.
    fn rep_hdr(self) -> u32;
    /// R2 and the header: that of the reply with this word, when it is there.
    fn rep_hdr_of(self, seq: u32) -> Option<u32>;
    /// P2, behind the payload.
    fn publish_reply(self, hdr: u32, seq: u32);
    /// Payload in, by the requester, before P1.
    fn write_request(self, words: &[u64]);
    /// Payload out, by the responder, after R1.
    fn read_request(self, words: &mut [u64]);
    /// Payload in, by the responder, before P2.
    fn write_reply(self, words: &[u64]);
    /// Payload out, by the requester, after R2.
    fn read_reply(self, words: &mut [u64]);
    /// The requester's own header again, to set CANCEL.
    fn set_req_hdr(self, hdr: u32);
}
