//! The slots and chunks of a queue pair: atomics on words and payload, copies of chunks (abi §4).

#![expect(unsafe_code)]
// UNSAFETY: as in `window`, whose contracts these are.

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use super::payload::{read_words, write_words};
use super::{LentHeap, Loan, OutOfWindow, Payload, SlotAccess, Slots, Window};
use crate::queue::QueueDescriptor;
use crate::slot::{
    COUNT_BITS, INLINE_WORDS, REP_HDR, REQ_HDR, SECOND_BYTES, SECOND_WORDS, SLOT_BYTES, pair, pair_hdr, pair_seq,
};
use crate::split::Split;
use crate::sync::{Coherent, Order};

impl<K> Window<K> {
    /// The slots and chunks of one queue pair, in coherent memory.
    pub fn queue(&self, descriptor: &QueueDescriptor) -> Result<Queue<K>, OutOfWindow>
    where
        K: Clone,
    {
        self.queue_ordered(descriptor)
    }

    /// The same with the fences of another kind of memory.
    // One copy: an image opens queue pairs of both directions.
    #[inline(never)]
    pub fn queue_ordered<F: Order>(&self, d: &QueueDescriptor) -> Result<Queue<K, F>, OutOfWindow>
    where
        K: Clone,
    {
        let refuse = |off| OutOfWindow { off, want: SLOT_BYTES as u64, len: self.len };
        if !d.is_well_formed() {
            return Err(refuse(d.req_base));
        }
        let lent = self.lend();
        let chunks_len = u64::from(d.slots()) * d.chunk_pair();
        let chunks = self.at_aligned(d.chunks, chunks_len, SLOT_BYTES as u64)?;
        let req = lent.side(d, d.req_base)?;
        let (rep, rep_chunks) = match d.rep_base.wrapping_sub(d.req_base) {
            distance if Split::IS_SUPPORTED => {
                let from = d.chunks.wrapping_add(distance);
                (lent.side(d, d.rep_base)?, self.at_aligned(from, chunks_len, SLOT_BYTES as u64)?)
            }
            0 => (req, chunks),
            _ => return Err(refuse(d.rep_base)),
        };
        Ok(Queue {
            req,
            rep,
            cursor: [req[1], rep[1]],
            second_fits: lent.second_line_fits(d),
            two_lines: false,
            ring_mask: d.ring_len - 1,
            ticket_slots: d.ticket_slots,
            chunks: [chunks, rep_chunks],
            req_chunk: d.req_chunk,
            rep_chunk: d.rep_chunk,
            keep: self.keep.clone(),
            _order: PhantomData,
        })
    }
}

impl Window<Loan> {
    /// The hot slot, the first ring slot and the first ticket slot of one side of a queue pair,
    /// from `base`.
    #[inline(never)]
    fn side(&self, d: &QueueDescriptor, base: u64) -> Result<[NonNull<u8>; 3], OutOfWindow> {
        let lines = |off: u32, count: u32| {
            let refuse = OutOfWindow { off: base, want: SLOT_BYTES as u64, len: self.len };
            let at = base.checked_add(u64::from(off)).ok_or(refuse)?;
            self.at_aligned(at, u64::from(count) * SLOT_BYTES as u64, SLOT_BYTES as u64)
        };
        Ok([lines(d.hot, 1)?, lines(d.ring, d.ring_len)?, lines(d.tickets, d.ticket_slots)?])
    }

    /// Do the two lines of the hot slot, of requests, lie in the region?
    fn second_line_fits(&self, d: &QueueDescriptor) -> bool {
        d.req_base.checked_add(u64::from(d.hot)).is_some_and(|at| self.at(at, 2 * SLOT_BYTES as u64).is_ok())
    }
}

/// The slots and chunks of one queue pair. `F` is the kind of memory. A clone is another view of
/// the same slots; the protocol decides which view is used.
#[derive(Clone)]
pub struct Queue<K, F = Coherent> {
    // Hot slot, first ring slot, first ticket slot; the reply slots are the same when coherent.
    req: [NonNull<u8>; 3],
    rep: [NonNull<u8>; 3],
    // The request half and the reply half of some ring slot.
    cursor: [NonNull<u8>; 2],
    // The 64 bytes behind the request half of the hot slot lie in the region.
    second_fits: bool,
    // They are the slot's second line; only with `second_fits`.
    two_lines: bool,
    ring_mask: u32,
    ticket_slots: u32,
    // Of requests and of replies, which are the same when coherent.
    chunks: [NonNull<u8>; 2],
    req_chunk: u32,
    rep_chunk: u32,
    keep: K,
    _order: PhantomData<F>,
}

// SAFETY: as for `Window`: all access is by atomics or copies into memory that `keep` keeps mapped.
unsafe impl<K: Send, F> Send for Queue<K, F> {}
// SAFETY: as above.
unsafe impl<K: Sync, F> Sync for Queue<K, F> {}

impl<K, F: Order> Slots for Queue<K, F> {
    const COUNT_BITS: u32 = COUNT_BITS;
    type Slot<'a>
        = Slot<'a, F>
    where
        Self: 'a;

    #[inline(always)]
    fn ring_len(&self) -> u32 {
        self.ring_mask + 1
    }

    #[inline(always)]
    fn hot(&self) -> Slot<'_, F> {
        Slot { req: self.req[0], rep: self.rep[0], _queue: PhantomData }
    }

    #[inline(always)]
    fn ring(&self, i: u32) -> Slot<'_, F> {
        let off = (i & self.ring_mask) as usize * SLOT_BYTES;
        // SAFETY: the masked index is below ring_len, whose slots were checked to lie in the
        // region.
        let req = unsafe { self.req[1].add(off) };
        // SAFETY: as above, from the reply base.
        let rep = unsafe { self.rep[1].add(off) };
        Slot { req, rep, _queue: PhantomData }
    }

    #[inline(always)]
    fn at_cursor(&self) -> Slot<'_, F> {
        Slot { req: self.cursor[0], rep: self.cursor[1], _queue: PhantomData }
    }

    #[inline(always)]
    fn move_cursor(&mut self, i: u32) {
        let Slot { req, rep, .. } = self.ring(i);
        self.cursor = [req, rep];
    }

    #[inline(always)]
    fn prefetch_reply(&self, i: u32) {
        prefetch(self.ring(i).rep);
    }

    #[inline(always)]
    fn write_second(&self, bytes: &[u8]) {
        if let Some(second) = self.second() {
            let len = bytes.len().min(SECOND_BYTES);
            // SAFETY: `second` has SECOND_BYTES writable bytes, of which these are some, and `bytes` is
            // private. Not words: the processor stores a whole line in a few wide stores.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), second.as_ptr(), len) };
        }
    }

    #[inline(always)]
    fn read_second(&self, words: &mut [u64]) {
        if let Some(second) = self.second() {
            read_words::<SECOND_WORDS>(second, words);
        }
    }

    #[inline(always)]
    fn ticket_slot(&self, t: u32) -> Option<Slot<'_, F>> {
        if t >= self.ticket_slots {
            return None;
        }
        let off = t as usize * SLOT_BYTES;
        // SAFETY: t < ticket_slots, whose slots were checked to lie in the region.
        let req = unsafe { self.req[2].add(off) };
        // SAFETY: as above, from the reply base.
        let rep = unsafe { self.rep[2].add(off) };
        Some(Slot { req, rep, _queue: PhantomData })
    }
}

impl<K, F: Order> Queue<K, F> {
    /// Gives the hot slot a second line from now on, or takes it away: with TWO_LINES accepted, for
    /// a stream of the host (abi §4.7). Where it would leave the region, there is none.
    pub fn use_two_lines(&mut self, on: bool) {
        self.two_lines = on && self.second_fits;
    }

    /// Has the hot slot a second line?
    #[inline(always)]
    pub fn has_two_lines(&self) -> bool {
        self.two_lines
    }

    /// The payload of the request in both lines of the hot slot, where it has two; `len` as of
    /// [`Payload::len`].
    #[inline(always)]
    pub fn hot_payload(&self, len: usize) -> Payload<'_> {
        // SAFETY: the hot slot was checked to lie in the region, which `keep` keeps mapped; with
        // `two_lines` the line behind it was, too.
        unsafe { Payload::of_slot(self.req[0], len, self.two_lines) }
    }

    /// Copies the first `len` bytes of the second line, whose slot's published word was observed, to
    /// `off` in the heap. `None`: there is no such line, or they leave it or the heap; nothing was
    /// copied.
    pub fn copy_second(&self, heap: &LentHeap<'_>, off: u64, len: u64) -> Option<()> {
        let from = self.second().filter(|_| len <= SECOND_BYTES as u64)?;
        let to = heap.at(off, len)?;
        let (from_at, to_at) = (from.addr().get(), to.addr().get());
        if from_at.abs_diff(to_at) < SECOND_BYTES {
            return None;
        }
        // SAFETY: `second` has SECOND_BYTES readable bytes, and `at` checked that `len` are writable;
        // they do not overlap (checked above), and the borrow of the heap excludes views.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), len as usize) };
        Some(())
    }

    /// The hot slot's last line: its second one, if it has two.
    #[inline(always)]
    pub fn last_line(&self) -> Line<'_> {
        Line { at: self.second().unwrap_or(self.req[0]), _queue: PhantomData }
    }

    #[inline(always)]
    fn second(&self) -> Option<NonNull<u8>> {
        // SAFETY: `two_lines` implies that 128 bytes from the hot slot were checked to lie in the
        // region.
        self.two_lines.then(|| unsafe { self.req[0].add(SLOT_BYTES) })
    }

    /// Ticket slots.
    pub fn ticket_slots(&self) -> u32 {
        self.ticket_slots
    }

    /// What keeps the region mapped.
    pub fn keep(&self) -> &K {
        &self.keep
    }

    /// Bytes of a request chunk.
    pub fn req_chunk_len(&self) -> usize {
        self.req_chunk as usize
    }

    /// Bytes of a reply chunk.
    pub fn rep_chunk_len(&self) -> usize {
        self.rep_chunk as usize
    }

    fn chunk(&self, half: usize, slot: u32, skip: u32, size: u32, want: usize) -> Option<NonNull<u8>> {
        let slots = 2 + self.ring_mask + self.ticket_slots;
        if slot >= slots || want > size as usize {
            return None;
        }
        let pair = self.req_chunk as usize + self.rep_chunk as usize;
        // SAFETY: slot < slots and `slots` chunk pairs from either of `chunks` were checked to lie in the
        // region; skip < pair.
        Some(unsafe { self.chunks[half].add(slot as usize * pair + skip as usize) })
    }

    /// Copies argument bytes, one piece behind the other, into the request chunk of slot `slot`; `None` when they do
    /// not fit.
    pub fn write_request_chunk(&self, slot: u32, pieces: &[&[u8]]) -> Option<()> {
        let mut skip = 0;
        for from in pieces {
            let at = self.chunk(0, slot, skip, self.req_chunk.checked_sub(skip)?, from.len())?;
            // SAFETY: `chunk` checked that from.len() bytes fit behind those of the pieces before; `from` is private.
            unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), at.as_ptr(), from.len()) };
            skip += from.len() as u32;
        }
        Some(())
    }

    /// The payload in the request chunk of slot `slot`; `None` when it is shorter.
    #[inline(always)]
    pub fn chunk_payload(&self, slot: u32, len: usize) -> Option<Payload<'_>> {
        let at = self.chunk(0, slot, 0, self.req_chunk, len)?;
        // SAFETY: `chunk` checked that `len` bytes are there, at most 16 KiB; `keep` keeps them mapped.
        Some(unsafe { Payload::of_chunk(at, len) })
    }

    /// Copies argument bytes out of the request chunk of slot `slot`; `None` when it is shorter.
    pub fn read_request_chunk(&self, slot: u32, to: &mut [u8]) -> Option<()> {
        let at = self.chunk(0, slot, 0, self.req_chunk, to.len())?;
        // SAFETY: `chunk` checked that to.len() bytes are there; `to` is private.
        unsafe { core::ptr::copy_nonoverlapping(at.as_ptr(), to.as_mut_ptr(), to.len()) };
        Some(())
    }

    /// Copies result bytes into the reply chunk of slot `slot`; `None` when they do not fit.
    pub fn write_reply_chunk(&self, slot: u32, from: &[u8]) -> Option<()> {
        let at = self.chunk(1, slot, self.req_chunk, self.rep_chunk, from.len())?;
        // SAFETY: as in `write_request_chunk`.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), at.as_ptr(), from.len()) };
        Some(())
    }

    /// Copies result bytes out of the reply chunk of slot `slot`; `None` when it is shorter.
    pub fn read_reply_chunk(&self, slot: u32, to: &mut [u8]) -> Option<()> {
        let at = self.chunk(1, slot, self.req_chunk, self.rep_chunk, to.len())?;
        // SAFETY: as in `read_request_chunk`.
        unsafe { core::ptr::copy_nonoverlapping(at.as_ptr(), to.as_mut_ptr(), to.len()) };
        Some(())
    }
}

/// Asks the processor for the cache line at `at`. Images for QEMU do without.
#[inline(always)]
fn prefetch(at: NonNull<u8>) {
    #[cfg(all(target_arch = "x86_64", not(hamr_bare)))]
    // SAFETY: a prefetch accesses no memory as far as the program can tell, and never faults.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.as_ptr().cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(hamr_bare))))]
    let _ = at;
}

/// A cache line of a queue pair.
#[derive(Clone, Copy)]
pub struct Line<'q> {
    at: NonNull<u8>,
    _queue: PhantomData<&'q ()>,
}

impl Line<'_> {
    /// It is read soon: the processor may fetch it.
    #[inline(always)]
    pub fn prefetch(self) {
        prefetch(self.at);
    }
}

/// One slot: its request half and its reply half, the same 64 bytes when coherent.
pub struct Slot<'q, F> {
    req: NonNull<u8>,
    rep: NonNull<u8>,
    _queue: PhantomData<(&'q (), F)>,
}

impl<F> Clone for Slot<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<F> Copy for Slot<'_, F> {}

impl<'q, F: Order> Slot<'q, F> {
    /// The request's header as a word, for a handler that asks whether it was cancelled.
    #[inline(always)]
    pub fn req_hdr_word(self) -> HdrWord<'q> {
        HdrWord { at: self.req, _queue: PhantomData }
    }

    /// R2 with the header, as one [`pair`]: for a requester that expects one header more than any
    /// other.
    #[inline(always)]
    pub fn rep_pair(self) -> u64 {
        Self::observe_pair(self.rep, REP_HDR)
    }

    /// The request's payload in the slot, for the code that decodes it; `len` as of
    /// [`Payload::len`].
    #[inline(always)]
    pub fn payload(self, len: usize) -> Payload<'q> {
        // SAFETY: a slot's half is a slot's 64 bytes, mapped for as long as its queue.
        unsafe { Payload::of_slot(self.req, len, false) }
    }

    /// All words of the request's payload, once R1 matched.
    #[inline(always)]
    pub fn request_words(self) -> [u64; INLINE_WORDS] {
        all_words(self.req)
    }

    /// Those of the reply's, once R2 matched.
    #[inline(always)]
    pub fn reply_words(self) -> [u64; INLINE_WORDS] {
        all_words(self.rep)
    }

    /// R1 with the header, as one [`pair`]: for a responder that expects one header more than any
    /// other.
    #[inline(always)]
    pub fn req_pair(self) -> u64 {
        Self::observe_pair(self.req, REQ_HDR)
    }

    // The functions below: `hdr` is REP_HDR or REQ_HDR, whose word is behind it. In memory that is
    // PAIRED both are one 64-bit atomic and accessed as nothing else; elsewhere two of 32 bits, the
    // word loaded before the header and stored after it.

    #[inline(always)]
    fn observe_pair(half: NonNull<u8>, hdr: usize) -> u64 {
        #[cfg(target_has_atomic = "64")]
        if F::PAIRED {
            return pair_at(half, hdr).load(Ordering::Acquire);
        }
        let seq = F::observe(word_at(half, hdr + 4));
        pair(word_at(half, hdr).load(Ordering::Relaxed), seq)
    }

    #[inline(always)]
    fn hdr_of(half: NonNull<u8>, hdr: usize, seq: u32) -> Option<u32> {
        if F::PAIRED {
            let pair = Self::observe_pair(half, hdr);
            return (pair_seq(pair) == seq).then_some(pair_hdr(pair));
        }
        (Self::observe_seq(half, hdr) == seq).then(|| Self::load_hdr(half, hdr))
    }

    #[inline(always)]
    fn observe_seq(half: NonNull<u8>, hdr: usize) -> u32 {
        #[cfg(target_has_atomic = "64")]
        if F::PAIRED {
            return pair_seq(pair_at(half, hdr).load(Ordering::Acquire));
        }
        F::observe(word_at(half, hdr + 4))
    }

    #[inline(always)]
    fn load_hdr(half: NonNull<u8>, hdr: usize) -> u32 {
        #[cfg(target_has_atomic = "64")]
        if F::PAIRED {
            return pair_hdr(pair_at(half, hdr).load(Ordering::Relaxed));
        }
        word_at(half, hdr).load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn publish_pair(half: NonNull<u8>, hdr: usize, value: u32, seq: u32) {
        #[cfg(target_has_atomic = "64")]
        if F::PAIRED {
            return pair_at(half, hdr).store(pair(value, seq), Ordering::Release);
        }
        word_at(half, hdr).store(value, Ordering::Relaxed);
        F::publish(word_at(half, hdr + 4), seq);
    }
}

impl<F: Order> SlotAccess for Slot<'_, F> {
    // Request word (Acquire). R1: pairs with P1 in `publish_request`.
    #[inline(always)]
    fn req_seq(self) -> u32 {
        Self::observe_seq(self.req, REQ_HDR)
    }

    // Request header (relaxed): valid once R1 saw the expected word. Only CANCEL changes
    // afterwards.
    #[inline(always)]
    fn req_hdr(self) -> u32 {
        Self::load_hdr(self.req, REQ_HDR)
    }

    // R1 and the header.
    #[inline(always)]
    fn req_hdr_of(self, seq: u32) -> Option<u32> {
        Self::hdr_of(self.req, REQ_HDR, seq)
    }

    // Reply word (Acquire). R2: pairs with P2 in `publish_reply`.
    #[inline(always)]
    fn rep_seq(self) -> u32 {
        Self::observe_seq(self.rep, REP_HDR)
    }

    // Reply header (relaxed): valid once R2 saw the expected word.
    #[inline(always)]
    fn rep_hdr(self) -> u32 {
        Self::load_hdr(self.rep, REP_HDR)
    }

    // R2 and the header.
    #[inline(always)]
    fn rep_hdr_of(self, seq: u32) -> Option<u32> {
        Self::hdr_of(self.rep, REP_HDR, seq)
    }

    // P1: header and request word (Release), which hand the payload to the responder. Pairs with
    // R1.
    #[inline(always)]
    fn publish_request(self, hdr: u32, seq: u32) {
        Self::publish_pair(self.req, REQ_HDR, hdr, seq);
    }

    // P2: header and reply word (Release), which hand the payload back. Pairs with R2.
    #[inline(always)]
    fn publish_reply(self, hdr: u32, seq: u32) {
        Self::publish_pair(self.rep, REP_HDR, hdr, seq);
    }

    // Rewrites the requester's own header to add CANCEL (the responder may or may not see it). A
    // pair is published a second time: an R1 that finds only this store gets the payload by it.
    #[inline(always)]
    fn set_req_hdr(self, hdr: u32) {
        #[cfg(target_has_atomic = "64")]
        if F::PAIRED {
            let at = pair_at(self.req, REQ_HDR);
            let seq = pair_seq(at.load(Ordering::Relaxed));
            return at.store(pair(hdr, seq), Ordering::Release);
        }
        word_at(self.req, REQ_HDR).store(hdr, Ordering::Relaxed);
    }

    #[inline(always)]
    fn read_request(self, words: &mut [u64]) {
        read_words::<INLINE_WORDS>(self.req, words);
    }

    #[inline(always)]
    fn read_reply(self, words: &mut [u64]) {
        read_words::<INLINE_WORDS>(self.rep, words);
    }

    #[inline(always)]
    fn write_request(self, words: &[u64]) {
        write_words::<INLINE_WORDS>(self.req, words.iter().copied());
    }

    #[inline(always)]
    fn write_reply(self, words: &[u64]) {
        write_words::<INLINE_WORDS>(self.rep, words.iter().copied());
    }
}

/// The payload of a slot's half.
#[inline(always)]
fn all_words(half: NonNull<u8>) -> [u64; INLINE_WORDS] {
    let mut words = [0; INLINE_WORDS];
    read_words::<INLINE_WORDS>(half, &mut words);
    words
}

/// The header of one request, for its handler.
#[derive(Clone, Copy)]
pub struct HdrWord<'q> {
    /// The slot's request half.
    at: NonNull<u8>,
    _queue: PhantomData<&'q ()>,
}

impl HdrWord<'_> {
    /// Where its slot is in this program.
    pub fn address(self) -> usize {
        self.at.addr().get()
    }

    /// Relaxed load: CANCEL may be set in it or not.
    #[inline(always)]
    pub fn load(self) -> u32 {
        // In memory that is not PAIRED too: no side stores a request's words in one width and loads
        // them in another.
        #[cfg(target_has_atomic = "64")]
        return pair_hdr(pair_at(self.at, REQ_HDR).load(Ordering::Relaxed));
        #[cfg(not(target_has_atomic = "64"))]
        word_at(self.at, REQ_HDR).load(Ordering::Relaxed)
    }
}

#[inline(always)]
fn word_at<'q>(half: NonNull<u8>, off: usize) -> &'q AtomicU32 {
    // SAFETY: a slot has 64 bytes, and callers pass an offset of a header or of its word.
    let at = unsafe { half.add(off) };
    // SAFETY: slots are 64-aligned and `off` is a multiple of 4. The reference ends with the
    // caller's statement, within the slot's borrow; S5 says in which width who accesses it.
    unsafe { AtomicU32::from_ptr(at.as_ptr().cast()) }
}

#[cfg(target_has_atomic = "64")]
#[inline(always)]
fn pair_at<'q>(half: NonNull<u8>, hdr: usize) -> &'q core::sync::atomic::AtomicU64 {
    // SAFETY: callers pass REP_HDR or REQ_HDR: the header and the word behind it end at 64.
    let at = unsafe { half.add(hdr) };
    // SAFETY: slots are 64-aligned and both offsets are multiples of 8; otherwise as in `word_at`.
    unsafe { core::sync::atomic::AtomicU64::from_ptr(at.as_ptr().cast()) }
}
