//! What the protocol needs of a queue pair. Two implementations: the window's [`Queue`], and typed slots in the model tests.

use hamr_shared_abi::slot::COUNT_BITS;
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::window::{Queue, Slot};

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
    /// Ticket slot `t`.
    fn ticket_slot(&self, t: u32) -> Option<Self::Slot<'_>>;
}

/// One slot. Words are published and observed in the order that rule 3 asks for; the labels P1, R1, P2, R2 pair them.
pub trait SlotAccess: Copy {
    /// R1.
    fn req_seq(self) -> u32;
    /// The request's header, once R1 matched.
    fn req_hdr(self) -> u32;
    /// P1, behind the payload.
    fn publish_request(self, hdr: u32, seq: u32);
    /// R2.
    fn rep_seq(self) -> u32;
    /// The reply's header, once R2 matched.
    fn rep_hdr(self) -> u32;
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

impl<K, F: Order> Slots for Queue<K, F> {
    const COUNT_BITS: u32 = COUNT_BITS;
    type Slot<'a>
        = Slot<'a, F>
    where
        Self: 'a;
    #[inline(always)]
    fn ring_len(&self) -> u32 {
        Queue::ring_len(self)
    }
    #[inline(always)]
    fn hot(&self) -> Slot<'_, F> {
        Queue::hot(self)
    }
    #[inline(always)]
    fn ring(&self, i: u32) -> Slot<'_, F> {
        Queue::ring(self, i)
    }
    #[inline(always)]
    fn ticket_slot(&self, t: u32) -> Option<Slot<'_, F>> {
        Queue::ticket_slot(self, t)
    }
}

macro_rules! forward {
    ($($name:ident($($arg:ident: $t:ty),*) $(-> $r:ty)?;)*) => {
        impl<F: Order> SlotAccess for Slot<'_, F> {
            $(#[inline(always)] fn $name(self $(, $arg: $t)*) $(-> $r)? { Slot::$name(self $(, $arg)*) })*
        }
    };
}
forward! {
    req_seq() -> u32;
    req_hdr() -> u32;
    publish_request(hdr: u32, seq: u32);
    rep_seq() -> u32;
    rep_hdr() -> u32;
    publish_reply(hdr: u32, seq: u32);
    write_request(words: &[u64]);
    read_request(words: &mut [u64]);
    write_reply(words: &[u64]);
    read_reply(words: &mut [u64]);
    set_req_hdr(hdr: u32);
}
