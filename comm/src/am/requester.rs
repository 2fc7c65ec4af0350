//! The requesting end of one queue pair: which slot a message may use, and when it is free again
//! (rules 7, 11, 12).
//!
//! The state here is private to the requester; nothing in it is ever read from the window. A slot
//! of the ring is named by its position `x`, counted from 0 over the whole epoch; `x / N + 1` is
//! the count its words carry.

use super::{SlotAccess, Slots};
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::slot::{INLINE_WORDS, RepHdr, ReqHdr, SeqCounter, pair, seq};
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::window::Queue;

/// A message is in the hot slot that has not been released.
const BUSY: u8 = 1;
/// Ring slots between the reply that is read and the one that is prefetched. A line comes from a far core in
/// the time of several calls; one that is fetched before its reply is written has to be fetched twice.
const AHEAD: u64 = 6;
/// A ring message was submitted since the ring was last seen answered.
const RING: u8 = 2;

/// A message in the hot slot, between [`Requester::call_hot`] and its reply.
#[must_use]
pub struct InHot {
    counter: SeqCounter,
    seq: u32,
}

impl InHot {
    /// The pair of a reply with this header.
    #[inline(always)]
    pub fn reply_pair(&self, hdr: RepHdr) -> u64 {
        pair(hdr.0, self.seq)
    }
}

/// The requester's state (see the module).
pub struct Requester<S> {
    slots: S,
    tag: u8,
    ring_bits: u32,
    /// Of the word that the hot slot's current (or next) message carries.
    hot: SeqCounter,
    /// Why the hot slot may not be used: [`BUSY`], [`RING`], or nothing. One word, so that a call
    /// that finds it open tests once.
    hot_closed: u8,
    /// Ring messages submitted.
    submitted: u64,
    /// Ring slots below this position have their replies and are released.
    released: u64,
    /// Ring messages below this position, or that of `released`, are known to be answered.
    answered: u64,
}

impl<K, F: Order> Requester<Queue<K, F>> {
    /// See [`Queue::use_two_lines`].
    pub fn use_two_lines(&mut self, on: bool) {
        self.slots.use_two_lines(on);
    }
}

impl<S: Slots> Requester<S> {
    /// The end of a queue pair at the start of `epoch`.
    pub fn new(slots: S, epoch: Epoch) -> Self {
        let ring_bits = slots.ring_len().trailing_zeros();
        let tag = epoch.tag();
        Self {
            slots,
            tag,
            ring_bits,
            hot: SeqCounter::first(tag, S::COUNT_BITS),
            hot_closed: 0,
            submitted: 0,
            released: 0,
            answered: 0,
        }
    }

    /// The slots.
    #[inline(always)]
    pub fn slots(&self) -> &S {
        &self.slots
    }

    /// Uses other slots of the same numbers from now on, and returns the former ones.
    pub fn replace_slots(&mut self, slots: S) -> S {
        core::mem::replace(&mut self.slots, slots)
    }

    /// Starts over in a new epoch: every slot is free, counts begin at 1. The caller has ended its
    /// outstanding calls.
    pub fn enter(&mut self, epoch: Epoch) {
        self.tag = epoch.tag();
        self.hot = SeqCounter::first(self.tag, S::COUNT_BITS);
        self.hot_closed = 0;
        (self.submitted, self.released, self.answered) = (0, 0, 0);
    }

    /// The tag that replies of this epoch carry.
    pub fn tag(&self) -> u8 {
        self.tag
    }

    // --- the hot slot ---

    /// May the hot slot be used now? Rule 7: it is free and every earlier message of the stream has
    /// been answered.
    #[inline(always)]
    pub fn hot_is_open(&mut self) -> bool {
        self.hot_is_known_open() || self.hot_reopens()
    }

    /// [`Self::hot_is_open`] without a look into the window: false also when the ring's replies
    /// were not all seen yet.
    #[inline(always)]
    pub fn hot_is_known_open(&self) -> bool {
        self.hot_closed == 0
    }

    #[cold]
    #[inline(never)]
    fn hot_reopens(&mut self) -> bool {
        if self.hot_closed == RING && self.ring_is_answered() {
            self.hot_closed = 0;
        }
        self.hot_closed == 0
    }

    fn ring_is_answered(&mut self) -> bool {
        self.answered.max(self.released) == self.submitted || self.newest_is_answered()
    }

    // Slots of the ring are answered in ring order, but for those of unordered tasks, so the reply to the
    // newest implies all others that are in order.
    fn newest_is_answered(&mut self) -> bool {
        let answered = self.ring_reply(self.submitted - 1).is_some();
        if answered {
            self.answered = self.submitted;
        }
        answered
    }

    /// The word that the hot slot's current (or next) message carries.
    #[inline(always)]
    pub fn hot_seq(&self) -> u32 {
        self.hot.word(S::COUNT_BITS)
    }

    /// Is a message in the hot slot that has not been released?
    #[inline(always)]
    pub fn hot_is_busy(&self) -> bool {
        self.hot_closed & BUSY != 0
    }

    /// Publishes a message in the hot slot: words beyond those of the slot go to its second line.
    /// Only after [`Self::hot_is_open`].
    #[inline(always)]
    pub fn submit_hot(&mut self, hdr: ReqHdr, words: &[u64]) {
        let (first, second) = words.split_at(words.len().min(INLINE_WORDS));
        self.publish_hot(hdr, first, bytemuck::cast_slice(second), self.hot_seq());
        self.hot_closed |= BUSY;
    }

    // The second line before P1, as the first: R1 then sees both (rule 3).
    #[inline(always)]
    fn publish_hot(&self, hdr: ReqHdr, first: &[u64], second: &[u8], seq: u32) {
        self.slots.write_second(second);
        let slot = self.slots.hot();
        slot.write_request(first);
        slot.publish_request(hdr.0, seq);
    }

    /// Publishes a message in the hot slot for a caller that polls for its reply before it does
    /// anything else: `first` in the slot, `second` in its second line. Only after
    /// [`Self::hot_is_open`]. The state is already that behind the reply, so that nothing is left to
    /// do when that comes; [`Self::leave_in_hot`] goes back.
    #[inline(always)]
    pub fn call_hot(&mut self, hdr: ReqHdr, first: &[u64], second: &[u8]) -> InHot {
        let called = InHot { counter: self.hot, seq: self.hot_seq() };
        self.publish_hot(hdr, first, second, called.seq);
        self.hot = self.hot.next(S::COUNT_BITS);
        called
    }

    /// The reply to that message has not come, or was not read: the slot is busy with it.
    #[inline(always)]
    pub fn leave_in_hot(&mut self, called: InHot) {
        self.hot = called.counter;
        self.hot_closed |= BUSY;
    }

    /// The reply of the message in the hot slot, when it is there.
    #[inline(always)]
    pub fn hot_reply(&self) -> Option<RepHdr> {
        self.slots.hot().rep_hdr_of(self.hot_seq()).map(RepHdr)
    }

    /// Releases the hot slot, after its reply was read.
    #[inline(always)]
    pub fn release_hot(&mut self) {
        self.hot = self.hot.next(S::COUNT_BITS);
        self.hot_closed &= !BUSY;
    }

    // --- the ring ---

    /// The word of the message at `x`, and of its reply.
    #[inline(always)]
    pub fn ring_seq(&self, x: u64) -> u32 {
        seq(self.tag, ((x >> self.ring_bits) as u32).wrapping_add(1), S::COUNT_BITS)
    }

    /// Is the next slot free?
    #[inline(always)]
    pub fn ring_has_room(&self) -> bool {
        self.in_ring() < u64::from(self.slots.ring_len())
    }

    /// Messages in the ring that are not released.
    #[inline(always)]
    pub fn in_ring(&self) -> u64 {
        self.submitted - self.released
    }

    /// The position that the next message takes.
    #[inline(always)]
    pub fn next_position(&self) -> u64 {
        self.submitted
    }

    /// The oldest position not yet released, or `None` when all are.
    #[inline(always)]
    pub fn oldest(&self) -> Option<u64> {
        (self.released < self.submitted).then_some(self.released)
    }

    /// Publishes a message in the next ring slot and returns its position. Only after
    /// [`Self::ring_has_room`].
    #[inline(always)]
    pub fn submit_ring(&mut self, hdr: ReqHdr, words: &[u64]) -> u64 {
        let x = self.submitted;
        let slot = self.slots.ring(x as u32);
        slot.write_request(words);
        slot.publish_request(hdr.0, self.ring_seq(x));
        self.submitted = x + 1;
        self.hot_closed |= RING;
        x
    }

    /// The reply of the message at `x`, when it is there. `x` is at or behind [`Self::oldest`].
    #[inline(always)]
    pub fn ring_reply(&self, x: u64) -> Option<RepHdr> {
        self.slots.ring(x as u32).rep_hdr_of(self.ring_seq(x)).map(RepHdr)
    }

    /// Releases the oldest slot, after its reply was read or moved to its completion entry (rule
    /// 12).
    #[inline(always)]
    pub fn release_oldest(&mut self) {
        self.released += 1;
    }

    /// The reply of the message at `x` is read now, and those behind it soon.
    #[inline(always)]
    pub fn prefetch_behind(&self, x: u64) {
        self.slots.prefetch_reply((x + AHEAD) as u32);
    }

    /// Releases the slots from the oldest on as long as `is_done` says so of their positions, and at
    /// most so many.
    #[inline(always)]
    pub fn release_while(&mut self, most: u32, mut is_done: impl FnMut(&Self, u64) -> bool) {
        let (mut x, end) = (self.released, self.submitted.min(self.released + u64::from(most)));
        while x < end && is_done(self, x) {
            x += 1;
        }
        self.released = x;
    }

    /// True when nothing is unanswered: what a flush waits for.
    pub fn is_quiet(&mut self) -> bool {
        (!self.hot_is_busy() || self.hot_reply().is_some()) && self.ring_is_answered()
    }
}
