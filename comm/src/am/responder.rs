//! The answering end of one queue pair: which message runs next (rules 4, 6, 8, 9).

use super::{SlotAccess, Slots};
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::slot::{INLINE_WORDS, PUT_ARGS, next_seq, pair, pair_seq, seq};
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::window::{LentHeap, Queue, Slot};

/// The responder's state (see the module). Indices are private shadows: no write of the peer moves
/// them. Of a responder and its clone only one may go on.
#[derive(Clone)]
pub struct Responder<S> {
    slots: S,
    ring_bits: u32,
    next: Expected,
    seen: Seen,
}

/// The slots in which the next messages come, and their words. A copy serves for looks at a queue that another
/// thread may take over meanwhile.
#[derive(Clone, Copy)]
pub struct Expected {
    /// The word of the next message in the hot slot.
    pub hot: u32,
    /// The next ring slot, and the word of the message there.
    pub ring: (u32, u32),
}

impl Expected {
    /// Is one of the messages there?
    pub fn is_there(&self, slots: &impl Slots) -> bool {
        slots.hot().req_seq() == self.hot || slots.ring(self.ring.0).req_seq() == self.ring.1
    }
}

/// What a look that found nothing saw in the hot slot and in the next ring slot: pairs whose words are
/// not the expected ones. A slot that still has its pair has no new message, so that a look at an idle
/// slot is one comparison. Images, which are small, do without.
#[derive(Clone)]
struct Seen {
    #[cfg(not(hamr_bare))]
    hot: u64,
    #[cfg(not(hamr_bare))]
    ring: u64,
}

impl Seen {
    /// Of a slot that was not looked at since another word is expected in it. No message has this header.
    #[cfg(not(hamr_bare))]
    const NOTHING: u64 = pair(u32::MAX, u32::MAX);

    const fn new() -> Self {
        Self {
            #[cfg(not(hamr_bare))]
            hot: Self::NOTHING,
            #[cfg(not(hamr_bare))]
            ring: Self::NOTHING,
        }
    }

    /// Another word is expected in the hot slot.
    #[inline(always)]
    fn forget_hot(&mut self) {
        #[cfg(not(hamr_bare))]
        {
            self.hot = Self::NOTHING;
        }
    }

    /// The next ring slot is another one.
    #[inline(always)]
    fn forget_ring(&mut self) {
        #[cfg(not(hamr_bare))]
        {
            self.ring = Self::NOTHING;
        }
    }
}

/// A message that is there: its slot's number in the queue pair (0 hot, `1 + i` ring), the word it
/// carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Slot number (abi §4.5).
    pub slot: u32,
    /// The word of the request, which the reply repeats.
    pub seq: u32,
}

/// The hot slot alone, for code that serves it message by message.
pub(super) struct HotSlot<'r, K, F> {
    pub(super) slot: Slot<'r, F>,
    pub(super) slots: &'r Queue<K, F>,
    /// The next ring slot, and the word expected there.
    ring: Slot<'r, F>,
    ring_seq: u32,
}

impl<K, F: Order> HotSlot<'_, K, F> {
    /// Polls until the word of a pair is that of `expected`, or the pair changes; with a pause behind
    /// each of `polls` polls, and no longer than the next ring slot stays as it is and has no message: a
    /// caller that does not wait for each result is served by rounds, without delay. Returns the last
    /// pair. Not inlined: the code that serves needs the registers.
    #[inline(never)]
    pub(super) fn wait(&self, expected: u64, mut polls: u32) -> u64 {
        let (mut found, ring, last) = (self.slot.req_pair(), self.ring.req_pair(), self.slots.last_line());
        if pair_seq(found) == pair_seq(expected) || pair_seq(ring) == self.ring_seq {
            return found;
        }
        // What has not changed since is not expected either, so that a look is one comparison.
        while polls != 0 && self.ring.req_pair() == ring {
            polls -= 1;
            // A pause between two polls: a tight loop runs loads ahead of itself, which fetch the
            // cache line back before the host has written it.
            core::hint::spin_loop();
            // Of a message in two lines the second one comes in the time of the first.
            last.prefetch();
            let seen = core::mem::replace(&mut found, self.slot.req_pair());
            if found != seen {
                break;
            }
        }
        found
    }
}

impl<K, F: Order> Responder<Queue<K, F>> {
    /// The hot slot alone, and the word that its next message carries, to be moved [`Self::after`]
    /// each message.
    #[inline(always)]
    pub(super) fn hot_slot(&mut self) -> (HotSlot<'_, K, F>, &mut u32) {
        self.seen.forget_hot();
        let (slots, slot, ring) = (&self.slots, self.slots.hot(), self.slots.at_cursor());
        (HotSlot { slot, slots, ring, ring_seq: self.next.ring.1 }, &mut self.next.hot)
    }

    /// May a new message be in either slot? False: there is none. For many looks at a stream that seldom
    /// has one.
    #[cfg(not(hamr_bare))]
    #[inline(always)]
    pub(super) fn may_have_next(&self) -> bool {
        self.slots.hot().req_pair() != self.seen.hot || self.slots.at_cursor().req_pair() != self.seen.ring
    }

    /// Keeps what is in the slots without a new message, for [`Self::may_have_next`].
    #[inline(always)]
    pub(super) fn remember_idle(&mut self) {
        #[cfg(not(hamr_bare))]
        {
            let (hot, ring) = (self.slots.hot().req_pair(), self.slots.at_cursor().req_pair());
            if pair_seq(hot) != self.next.hot {
                self.seen.hot = hot;
            }
            if pair_seq(ring) != self.next.ring.1 {
                self.seen.ring = ring;
            }
        }
    }

    /// The word of the message after the one with `seq` in the hot slot.
    #[inline(always)]
    pub(super) fn after(seq: u32) -> u32 {
        next_seq(seq, <Queue<K, F> as Slots>::COUNT_BITS)
    }

    /// Is a new message in the hot slot? It is waited for as [`HotSlot::wait`] does.
    #[inline(always)]
    pub(super) fn wait_hot(&self, polls: u32) -> bool {
        if self.hot_is_next() {
            return true;
        }
        let (slots, slot, ring) = (&self.slots, self.slots.hot(), self.slots.at_cursor());
        polls != 0
            && !self.ring_is_next()
            && pair_seq(HotSlot { slot, slots, ring, ring_seq: self.next.ring.1 }.wait(pair(0, self.next.hot), polls))
                == self.next.hot
    }
}

impl<S: Slots> Responder<S> {
    /// The end of a queue pair at the start of `epoch`.
    pub fn new(mut slots: S, epoch: Epoch) -> Self {
        slots.move_cursor(0);
        // A power of two. The logarithm would panic for zero.
        let ring_bits = slots.ring_len().trailing_zeros();
        let first = seq(epoch.tag(), 1, S::COUNT_BITS);
        Self { slots, ring_bits, next: Expected { hot: first, ring: (0, first) }, seen: Seen::new() }
    }

    /// Goes on where its clone has come.
    pub(super) fn go_on_from(&mut self, clone: &Self) {
        self.next = clone.next;
        self.slots.move_cursor(self.next.ring.0);
        self.seen = Seen::new();
    }

    /// The slots.
    #[inline(always)]
    pub fn slots(&self) -> &S {
        &self.slots
    }

    /// The slot of a number from [`Found`]. A number past the ticket slots, which no code here
    /// makes, is some ring slot.
    // One copy in images, which are small. A call in the hot slot of the stream served last comes without.
    #[cfg_attr(hamr_bare, inline(never))]
    #[cfg_attr(not(hamr_bare), inline(always))]
    pub fn slot(&self, slot: u32) -> S::Slot<'_> {
        match slot.checked_sub(1) {
            None => self.slots.hot(),
            Some(i) if i >> self.ring_bits == 0 => self.slots.ring(i),
            Some(i) => self.slots.ticket_slot(i - (1 << self.ring_bits)).unwrap_or_else(|| self.slots.ring(i)),
        }
    }

    /// Clears the reply words of every slot (the responder's own), when an epoch is entered (rule
    /// 27).
    pub fn clear(&self) {
        let others = self.slots.ring_len() + 1;
        let mut slot = 0;
        while slot < others || self.slots.ticket_slot(slot - others).is_some() {
            self.slot(slot).publish_reply(0, 0);
            slot += 1;
        }
    }

    /// The message in the hot slot, if a new one is there; counts it as taken.
    #[inline(always)]
    pub fn next_hot(&mut self) -> Option<Found> {
        let seq_now = self.next.hot;
        if self.slots.hot().req_seq() != seq_now {
            return None;
        }
        self.next.hot = next_seq(seq_now, S::COUNT_BITS);
        self.seen.forget_hot();
        Some(Found { slot: 0, seq: seq_now })
    }

    /// Is a new message in the hot slot? It is not counted as taken.
    #[inline(always)]
    pub fn hot_is_next(&self) -> bool {
        self.slots.hot().req_seq() == self.next.hot
    }

    /// Where the next messages come.
    #[cfg(any(not(hamr_bare), feature = "driven"))]
    pub fn expected(&self) -> Expected {
        self.next
    }

    /// Is a new message in either slot? It is not counted as taken.
    #[inline(always)]
    pub fn has_next(&self) -> bool {
        self.hot_is_next() || self.ring_is_next()
    }

    /// Is a new message in the next ring slot? It is not counted as taken: rule 8 requires a check
    /// of the hot slot first.
    #[inline(always)]
    pub fn ring_is_next(&self) -> bool {
        self.slots.at_cursor().req_seq() == self.next.ring.1
    }

    /// Counts the message that [`Self::ring_is_next`] saw as taken.
    #[inline(always)]
    pub fn next_ring(&mut self) -> Found {
        let (at, seq) = self.next.ring;
        let found = Found { slot: 1 + at, seq };
        self.next.ring.0 += 1;
        if self.next.ring.0 >> self.ring_bits != 0 {
            self.next.ring = (0, next_seq(seq, S::COUNT_BITS));
        }
        self.slots.move_cursor(self.next.ring.0);
        self.seen.forget_ring();
        found
    }

    /// What [`Self::next`] would find. It is not counted as taken.
    pub fn upcoming(&self) -> Option<Found> {
        let hot = Found { slot: 0, seq: self.next.hot };
        if self.hot_is_next() {
            return Some(hot);
        }
        let ring = self.ring_is_next().then_some(Found { slot: 1 + self.next.ring.0, seq: self.next.ring.1 })?;
        // The hot slot is checked a second time, as in `next`.
        Some(if self.hot_is_next() { hot } else { ring })
    }

    /// Counts the message that [`Self::upcoming`] found as taken. Its reply may be published by
    /// now, and its slot may contain the next message already, so the slot is not read.
    pub fn advance(&mut self, found: Found) {
        if found.slot == 0 {
            self.next.hot = next_seq(found.seq, S::COUNT_BITS);
            self.seen.forget_hot();
        } else {
            self.next_ring();
        }
    }

    /// The next message of the stream in its order, or `None`. `hot_first` is false right after a
    /// hot message was answered: then other work comes before the hot slot (rule 8).
    #[inline(always)]
    pub fn next(&mut self, hot_first: bool) -> Option<Found> {
        if hot_first && let Some(found) = self.next_hot() {
            return Some(found);
        }
        if !self.ring_is_next() {
            return None;
        }
        // Without this second check a hot message sent before the ring message just seen would run
        // after it.
        if let Some(found) = self.next_hot() {
            return Some(found);
        }
        Some(self.next_ring())
    }
}

/// Copies the data of a message with PUT in the hot slot into the heap. False: it leaves its line
/// or the heap, and nothing was copied.
// Not inlined: an image has it once, and the code that serves other messages has only the call.
#[inline(never)]
pub(super) fn take_data<K, F: Order>(heap: &LentHeap<'_>, slots: &Queue<K, F>) -> bool {
    const { assert!(PUT_ARGS == (INLINE_WORDS - 2) * 8) };
    let mut words = [0; INLINE_WORDS];
    slots.hot().read_request(&mut words);
    let [.., off, len] = words;
    slots.copy_second(heap, off, len).is_some()
}
