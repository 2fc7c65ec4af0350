//! The device's end of one host queue (abi §12): what a task has asked of the host, and when the
//! host is notified of it.
//!
//! Only the ring is used. A task that waits for each reply has one message in it at a time, which
//! costs the same crossings as a hot slot and needs no order between the two.

use super::{Requester, SlotAccess, Slots};
use crate::task::{Answer, Marks};
use hamr_shared_abi::ids::{Epoch, HandlerKey};
use hamr_shared_abi::slot::{Descriptor, Ext, INLINE_BYTES, INLINE_WORDS, Place, RepHdr, ReqHdr};
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::window::{KeptWord, Queue};
use zerocopy::IntoBytes;

pub(super) struct HostQueue<K, F> {
    requester: Requester<Queue<K, F>>,
    /// Bit x mod 64: no task reads the reply at position x (any more).
    closed: u64,
    /// The host's wait word of this queue.
    wait: KeptWord<K>,
    /// The odd value that the host was notified for last, and the newest message then.
    notified: u32,
    notified_at: u64,
}

const fn bit(x: u64) -> u64 {
    1 << (x & 63)
}

impl<K, F: Order> HostQueue<K, F> {
    #[inline(never)]
    pub(super) fn new(slots: Queue<K, F>, wait: KeptWord<K>, epoch: Epoch) -> Self {
        Self { requester: Requester::new(slots, epoch), closed: 0, wait, notified: 0, notified_at: 0 }
    }

    /// Publishes a call; its position. `None`: the ring is full.
    #[inline(never)]
    pub(super) fn submit(&mut self, key: HandlerKey, flags: u32, deadline_us: u32, args: &[u8]) -> Option<u64> {
        if !self.requester.ring_has_room() {
            return None;
        }
        let mut words = [0; INLINE_WORDS];
        let (mut flags, mut at) = (flags, 0);
        if deadline_us != 0 {
            let ext: [u64; 2] = zerocopy::transmute!(Ext { deadline_us, ..Ext::default() });
            (words[0], words[1]) = (ext[0], ext[1]);
            (flags, at) = (flags | ReqHdr::EXT, size_of::<Ext>());
        }
        let bytes: &mut [u8; INLINE_BYTES] = bytemuck::must_cast_mut(&mut words);
        let hdr = if let Some(to) = bytes.get_mut(at..at + args.len()) {
            to.copy_from_slice(args);
            ReqHdr::inline(key, at + args.len())
        } else {
            // The caller has checked that the chunk is long enough.
            self.requester.slots().write_request_chunk(self.slot(self.requester.next_position()), args)?;
            let described = Descriptor { off: 0, len: args.len() as u64 };
            bytes.get_mut(at..at + 16)?.copy_from_slice(described.as_bytes());
            ReqHdr::inline(key, at + 16).in_chunk()
        };
        Some(self.requester.submit_ring(hdr.with(flags), &words))
    }

    /// Publishes a message without a result. False: the ring is full.
    pub(super) fn send(&mut self, key: HandlerKey, args: &[u8]) -> bool {
        let sent = self.submit(key, ReqHdr::ONE_WAY, 0, args);
        sent.inspect(|x| self.closed |= bit(*x)).is_some()
    }

    /// The number of the slot of position `x`.
    fn slot(&self, x: u64) -> u32 {
        1 + (x as u32 & (self.requester.slots().ring_len() - 1))
    }

    /// Is the reply at `x` there?
    #[inline(never)]
    pub(super) fn is_answered(&self, x: u64) -> bool {
        self.requester.oldest().is_none_or(|oldest| x < oldest) || self.requester.ring_reply(x).is_some()
    }

    /// Copies the reply at `x` to the front of `to`, if it is there.
    #[inline(never)]
    pub(super) fn read(&self, x: u64, to: &mut [u8]) -> Answer {
        let Some(hdr) = self.requester.ring_reply(x) else { return Answer::None };
        let slots = self.requester.slots();
        let mut words = [0; INLINE_WORDS];
        slots.ring(x as u32).read_reply(&mut words);
        let broken = hdr.has(RepHdr::RESERVED | RepHdr::AM_REPLY | RepHdr::TAKEN);
        let read = match hdr.place() {
            _ if broken => None,
            Place::Inline => to.get_mut(..hdr.len()).and_then(|to| {
                to.copy_from_slice(bytemuck::cast_slice(&words).get(..hdr.len())?);
                Some(hdr.len())
            }),
            Place::Chunk => usize::try_from(words[1]).ok().and_then(|len| {
                slots.read_reply_chunk(self.slot(x), to.get_mut(..len)?)?;
                Some(len)
            }),
            Place::Buffer | Place::TwoLines => None,
        };
        read.map_or(Answer::Corrupt, |len| Answer::Reply(hdr, len))
    }

    /// No task reads the reply at `x`, or it was read. A message without one is cancelled (rule 17).
    #[inline(never)]
    pub(super) fn close(&mut self, x: u64) {
        if self.requester.oldest().is_none_or(|oldest| x < oldest) || self.closed & bit(x) != 0 {
            return;
        }
        self.cancel(x);
        self.closed |= bit(x);
        self.is_quiet();
    }

    /// Asks the host to stop the call at `x`.
    #[inline(never)]
    pub(super) fn cancel(&mut self, x: u64) {
        if !self.is_answered(x) {
            let slot = self.requester.slots().ring(x as u32);
            slot.set_req_hdr(slot.req_hdr() | ReqHdr::CANCEL);
        }
    }

    /// No task reads any of the replies.
    pub(super) fn close_all(&mut self) {
        self.mark(Marks { dropped: u64::MAX, ..Marks::default() });
    }

    /// What a task says of its calls.
    #[inline(never)]
    pub(super) fn mark(&mut self, marks: Marks) {
        for x in self.outstanding() {
            if marks.cancelled & bit(x) != 0 {
                self.cancel(x);
            }
            if marks.dropped & bit(x) != 0 {
                self.close(x);
            }
        }
    }

    /// The calls whose replies are there and not read yet; [`Marks::done`].
    #[inline(never)]
    pub(super) fn done(&self) -> u64 {
        self.outstanding().filter(|x| self.is_answered(*x)).fold(0, |done, x| done | bit(x))
    }

    fn outstanding(&self) -> core::ops::Range<u64> {
        let next = self.requester.next_position();
        self.requester.oldest().unwrap_or(next)..next
    }

    /// Frees the slots whose replies are there and were read, or are not wanted. Are all free?
    #[inline(never)]
    pub(super) fn is_quiet(&mut self) -> bool {
        while let Some(x) = self.requester.oldest() {
            if self.closed & bit(x) == 0 || self.requester.ring_reply(x).is_none() {
                return false;
            }
            self.closed &= !bit(x);
            self.requester.release_oldest();
        }
        true
    }

    /// Rules 21 and 22 of abi §12: must the host be notified of a message here? Again for the same
    /// odd value, when all messages that it was notified of have replies: it may have taken them
    /// before the notification came.
    #[inline(never)]
    pub(super) fn needs_notify(&mut self) -> bool {
        let word = self.wait.word().load();
        let Some(newest) = self.requester.next_position().checked_sub(1).filter(|_| word & 1 != 0) else {
            return false;
        };
        if self.is_answered(newest) || word == self.notified && !self.is_answered(self.notified_at) {
            return false;
        }
        (self.notified, self.notified_at) = (word, newest);
        true
    }
}
