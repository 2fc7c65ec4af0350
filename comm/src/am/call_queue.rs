//! A device's end of a queue pair in which it calls others.
//!
//! Only the ring is used. A task that waits for each reply has one message in it at a time, which
//! costs the same crossings as a hot slot and needs no order between the two.

use super::{Requester, SlotAccess, Slots};
use crate::task::Answer;
use hamr_shared_abi::ids::{Epoch, HandlerKey};
use hamr_shared_abi::slot::{Descriptor, Ext, INLINE_BYTES, INLINE_WORDS, Place, RepHdr, ReqHdr};
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::window::Queue;
use zerocopy::IntoBytes;

pub(super) struct CallQueue<K, F> {
    pub(super) requester: Requester<Queue<K, F>>,
    /// Bit x mod 64: no task reads the reply at position x (any more).
    closed: u64,
}

const fn bit(x: u64) -> u64 {
    1 << (x & 63)
}

impl<K, F: Order> CallQueue<K, F> {
    pub(super) fn new(slots: Queue<K, F>, epoch: Epoch) -> Self {
        Self { requester: Requester::new(slots, epoch), closed: 0 }
    }

    /// Publishes a call, with `ext` if that is not empty; its position. `None`: the ring is full.
    #[inline(never)]
    pub(super) fn submit(&mut self, key: HandlerKey, flags: u32, ext: Ext, args: &[u8]) -> Option<u64> {
        if !self.requester.ring_has_room() {
            return None;
        }
        let mut words = [0; INLINE_WORDS];
        let (mut flags, mut at) = (flags, 0);
        let ext: [u64; 2] = zerocopy::transmute!(ext);
        if ext != [0; 2] {
            (words[0], words[1]) = (ext[0], ext[1]);
            (flags, at) = (flags | ReqHdr::EXT, size_of::<Ext>());
        }
        let bytes: &mut [u8; INLINE_BYTES] = bytemuck::must_cast_mut(&mut words);
        let hdr = if let Some(to) = bytes.get_mut(at..at + args.len()) {
            to.copy_from_slice(args);
            ReqHdr::inline(key, at + args.len())
        } else {
            // The caller has checked that the chunk is long enough.
            self.requester.slots().write_request_chunk(self.slot(self.requester.next_position()), &[args])?;
            let described = Descriptor { off: 0, len: args.len() as u64 };
            bytes.get_mut(at..at + 16)?.copy_from_slice(described.as_bytes());
            ReqHdr::inline(key, at + 16).in_chunk()
        };
        Some(self.requester.submit_ring(hdr.with(flags), &words))
    }

    /// No task reads the reply at `x`, which is not cancelled for that.
    pub(super) fn forget(&mut self, x: u64) {
        self.closed |= bit(x);
    }

    /// The number of the slot of position `x`.
    fn slot(&self, x: u64) -> u32 {
        1 + (x as u32 & (self.requester.slots().ring_len() - 1))
    }

    /// Is the reply at `x` there?
    #[inline(never)]
    pub(super) fn is_answered(&self, x: u64) -> bool {
        self.is_released(x) || self.requester.ring_reply(x).is_some()
    }

    /// Does the reply at `x`, which no task has read, come within so many looks?
    #[cfg(all(feature = "tasks", feature = "world"))]
    pub(super) fn is_answered_within(&self, x: u64, looks: u32) -> bool {
        let (slot, seq) = (self.requester.slots().ring(x as u32), self.requester.ring_seq(x));
        for _ in 0..looks {
            if slot.rep_seq() == seq {
                return true;
            }
            core::hint::spin_loop();
        }
        false
    }

    /// Is the slot of position `x` free again?
    pub(super) fn is_released(&self, x: u64) -> bool {
        self.requester.oldest().is_none_or(|oldest| x < oldest)
    }

    /// The header of the reply at `x`, if it is there and was not released.
    #[cfg(all(feature = "tasks", feature = "world"))]
    pub(super) fn reply(&self, x: u64) -> Option<RepHdr> {
        self.requester.ring_reply(x)
    }

    /// Copies the reply at `x` to the front of `to`, if it is there.
    pub(super) fn read(&self, x: u64, to: &mut [u8]) -> Answer {
        let Some(hdr) = self.requester.ring_reply(x) else { return Answer::None };
        self.read_from(self.requester.slots().ring(x as u32), self.slot(x), hdr, to)
    }

    /// Copies the reply in a slot, with that number, to the front of `to`.
    #[inline(never)]
    pub(super) fn read_from(&self, slot: impl SlotAccess, number: u32, hdr: RepHdr, to: &mut [u8]) -> Answer {
        let mut words = [0; INLINE_WORDS];
        slot.read_reply(&mut words);
        let broken = hdr.has(RepHdr::RESERVED | RepHdr::AM_REPLY | RepHdr::TAKEN);
        let read = match hdr.place() {
            _ if broken => None,
            Place::Inline => to.get_mut(..hdr.len()).and_then(|to| {
                to.copy_from_slice(bytemuck::cast_slice(&words).get(..hdr.len())?);
                Some(hdr.len())
            }),
            Place::Chunk => usize::try_from(words[1]).ok().and_then(|len| {
                self.requester.slots().read_reply_chunk(number, to.get_mut(..len)?)?;
                Some(len)
            }),
            Place::Buffer | Place::TwoLines => None,
        };
        read.map_or(Answer::Corrupt, |len| Answer::Reply(hdr, len))
    }

    /// The reply at `x` was read.
    pub(super) fn release(&mut self, x: u64) {
        if self.requester.oldest() == Some(x) && self.closed == 0 {
            self.requester.release_oldest();
        } else {
            self.close(x);
        }
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
}
