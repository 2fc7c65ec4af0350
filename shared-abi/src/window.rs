//! The mapped region and the only raw memory access in the wire layers (abi §3, §4; `docs/unsafe.md` "window").
//!
//! Three kinds of access, and no other:
//! - control words: 32-bit atomics, one writer for life;
//! - payload words of a slot: relaxed atomics, by whoever owns the slot;
//! - bulk bytes (chunks, heap): `copy_nonoverlapping` into or out of private memory, or a [`Claimed`] view.
//!
//! A peer that breaks the ownership rules can garble the *values* that come out. It cannot move an access outside the
//! region: every offset is checked here against the length this side mapped, never against a length the peer wrote.
//!
//! `K` keeps the mapping alive: an `Arc` of it on a host, `()` on a device whose window is never unmapped.

#![expect(unsafe_code)]
// UNSAFETY: a window is raw memory that another program writes; someone has to turn offsets into pointers. It is done
// here, in one file, behind safe checked methods. The two contracts a caller must keep are on `Window::new`.

// Atomics over foreign bytes cannot be a model checker's: the model runs the protocol on typed slots instead.
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use bytemuck::Pod;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::queue::QueueDescriptor;
use crate::slot::{INLINE_WORDS, REP_HDR, REP_SEQ, REQ_HDR, REQ_SEQ, SLOT_BYTES};
use crate::sync::{Coherent, Order};

/// An access that does not lie in the region. Carries what was asked and what there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfWindow {
    /// First byte asked for.
    pub off: u64,
    /// Bytes asked for.
    pub want: u64,
    /// Bytes of the region.
    pub len: u64,
}

impl core::fmt::Display for OutOfWindow {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "{} bytes at offset {:#x} leave a region of {:#x} bytes (or are misaligned in it)",
            self.want, self.off, self.len
        )
    }
}

impl core::error::Error for OutOfWindow {}

/// A mapped region, seen by offset.
pub struct Window<K> {
    base: NonNull<u8>,
    len: u64,
    /// Bytes behind `len` that [`Self::take_tail`] took and [`Self::rejoin`] may give back.
    taken: u64,
    keep: K,
}

// SAFETY: the pointer is to memory that `keep` holds mapped and that every method accesses through atomics or copies;
// the region has no thread affinity. Racing bulk copies garble values only (see `docs/unsafe.md`, "racing copies").
unsafe impl<K: Send> Send for Window<K> {}
// SAFETY: as above; `&Window` offers nothing that `Window` does not.
unsafe impl<K: Sync> Sync for Window<K> {}

impl<K> Window<K> {
    /// Takes charge of `len` bytes at `base`.
    ///
    /// # Safety
    /// - `base..base + len` stays readable and writable as long as `keep` or a clone of it lives, and `base` is
    ///   aligned to 64.
    /// - No Rust reference of this program covers any of it, and no second `Window` of this program has its tail taken
    ///   ([`Self::take_tail`]) over the same bytes.
    pub unsafe fn new(base: NonNull<u8>, len: usize, keep: K) -> Self {
        debug_assert!(base.as_ptr().addr().is_multiple_of(SLOT_BYTES));
        Self { base, len: len as u64, taken: 0, keep }
    }

    /// Bytes of the region; what was taken by [`Self::take_tail`] no longer counts.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// A region of no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    fn at(&self, off: u64, want: u64) -> Result<NonNull<u8>, OutOfWindow> {
        if off > self.len || want > self.len - off {
            return Err(OutOfWindow { off, want, len: self.len });
        }
        // SAFETY: off <= len and the region is one mapping (contract of `new`), so the sum stays inside or one past it.
        Ok(unsafe { self.base.add(off as usize) })
    }

    #[inline(always)]
    fn at_aligned(&self, off: u64, want: u64, align: u64) -> Result<NonNull<u8>, OutOfWindow> {
        if !off.is_multiple_of(align) {
            return Err(OutOfWindow { off, want, len: self.len });
        }
        self.at(off, want)
    }

    /// The control word at `off`, a multiple of 4.
    pub fn word(&self, off: u64) -> Result<Word<'_>, OutOfWindow> {
        let at = self.at_aligned(off, 4, 4)?;
        Ok(Word { at, _window: PhantomData })
    }

    /// `count` consecutive control words from `off`, a multiple of 4.
    pub fn words(&self, off: u64, count: u64) -> Result<Words<'_>, OutOfWindow> {
        let bytes = count.checked_mul(4).ok_or(OutOfWindow { off, want: u64::MAX, len: self.len })?;
        let at = self.at_aligned(off, bytes, 4)?;
        Ok(Words { at, count: count as usize, _window: PhantomData })
    }

    /// Copies bytes out into private memory.
    #[inline(always)]
    pub fn read_bytes(&self, off: u64, to: &mut [u8]) -> Result<(), OutOfWindow> {
        let at = self.at(off, to.len() as u64)?;
        // SAFETY: `at` has to.len() readable bytes (checked above), `to` is private memory of the caller and no
        // reference covers the region (contract of `new`), so the two do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(at.as_ptr(), to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Copies bytes in.
    #[inline(always)]
    pub fn write_bytes(&self, off: u64, from: &[u8]) -> Result<(), OutOfWindow> {
        let at = self.at(off, from.len() as u64)?;
        // SAFETY: as in `read_bytes`, the other way round; the region is writable.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), at.as_ptr(), from.len()) };
        Ok(())
    }

    /// Copies inside the region; the two ranges may overlap.
    pub fn copy_within(&self, from: u64, to: u64, bytes: u64) -> Result<(), OutOfWindow> {
        let src = self.at(from, bytes)?;
        let dst = self.at(to, bytes)?;
        // SAFETY: both ranges were checked; `copy` allows overlap.
        unsafe { core::ptr::copy(src.as_ptr(), dst.as_ptr(), bytes as usize) };
        Ok(())
    }

    /// Fills a range with zeros.
    pub fn zero(&self, off: u64, bytes: u64) -> Result<(), OutOfWindow> {
        let at = self.at(off, bytes)?;
        // SAFETY: the range was checked and is writable.
        unsafe { core::ptr::write_bytes(at.as_ptr(), 0, bytes as usize) };
        Ok(())
    }

    /// Copies a wire struct out. Validate the copy, then use the copy.
    pub fn read<T: FromBytes + IntoBytes>(&self, off: u64) -> Result<T, OutOfWindow> {
        let mut value = T::new_zeroed();
        self.read_bytes(off, value.as_mut_bytes())?;
        Ok(value)
    }

    /// Copies a wire struct in.
    pub fn write<T: IntoBytes + Immutable>(&self, off: u64, value: &T) -> Result<(), OutOfWindow> {
        self.write_bytes(off, value.as_bytes())
    }

    /// The slots and chunks of one queue pair, in coherent memory.
    pub fn queue(&self, descriptor: &QueueDescriptor) -> Result<Queue<K>, OutOfWindow>
    where
        K: Clone,
    {
        self.queue_ordered(descriptor)
    }

    /// The same with the fences of another kind of memory.
    pub fn queue_ordered<F: Order>(&self, d: &QueueDescriptor) -> Result<Queue<K, F>, OutOfWindow>
    where
        K: Clone,
    {
        let refuse = |off| OutOfWindow { off, want: SLOT_BYTES as u64, len: self.len };
        if !d.is_well_formed() {
            return Err(refuse(d.req_base));
        }
        let lines = |base: u64, off: u32, count: u32| {
            let at = base.checked_add(u64::from(off)).ok_or(refuse(base))?;
            self.at_aligned(at, u64::from(count) * SLOT_BYTES as u64, SLOT_BYTES as u64)
        };
        let side =
            |base| Ok([lines(base, d.hot, 1)?, lines(base, d.ring, d.ring_len)?, lines(base, d.side, d.side_len)?]);
        let chunks = self.at_aligned(d.chunks, u64::from(d.slots()) * d.chunk_pair(), SLOT_BYTES as u64)?;
        Ok(Queue {
            req: side(d.req_base)?,
            rep: side(d.rep_base)?,
            ring_mask: d.ring_len - 1,
            side_len: d.side_len,
            chunks,
            req_chunk: d.req_chunk,
            rep_chunk: d.rep_chunk,
            keep: self.keep.clone(),
            _order: PhantomData,
        })
    }

    /// Splits everything from `off` on away as a [`Heap`], whose views are Rust references; afterwards this window ends
    /// at `off`, so the two cannot alias. `off` is a multiple of 64.
    pub fn take_tail(&mut self, off: u64) -> Result<Heap<K>, OutOfWindow>
    where
        K: Clone,
    {
        let len = self.len.saturating_sub(off);
        let base = self.at_aligned(off, len, SLOT_BYTES as u64)?;
        self.len = off;
        self.taken += len;
        Ok(Heap { region: Window { base, len, taken: 0, keep: () }, keep: self.keep.clone() })
    }
}

impl<K> Window<K> {
    /// Undoes [`Self::take_tail`]: the heap is consumed, so its views are gone. A heap of another window is dropped.
    pub fn rejoin(&mut self, heap: Heap<K>) {
        // Two mappings may happen to be neighbours; only what was taken from this one is still kept mapped by it.
        let is_next =
            self.base.as_ptr().addr().checked_add(self.len as usize) == Some(heap.region.base.as_ptr().addr());
        if is_next && heap.region.len <= self.taken {
            self.len += heap.region.len;
            self.taken -= heap.region.len;
        }
    }
}

// A second heap over the same bytes would hand out aliasing views.
static_assertions::assert_not_impl_any!(Heap<()>: Clone, Copy);
static_assertions::assert_not_impl_any!(LentHeap<'static>: Clone, Copy);
static_assertions::assert_impl_all!(Window<()>: Send, Sync);
static_assertions::assert_impl_all!(Queue<()>: Send, Sync);

/// One 32-bit control word.
#[derive(Clone, Copy)]
pub struct Word<'w> {
    at: NonNull<u8>,
    _window: PhantomData<&'w ()>,
}

impl<'w> Word<'w> {
    #[inline(always)]
    fn atomic(self) -> &'w AtomicU32 {
        // SAFETY: `at` is 4-aligned and inside the region for 'w (checked when made); the word is only ever accessed as a
        // 32-bit atomic by this program (S5: no mixed sizes).
        unsafe { AtomicU32::from_ptr(self.at.as_ptr().cast()) }
    }

    /// Relaxed load.
    #[inline(always)]
    pub fn load(self) -> u32 {
        self.atomic().load(Ordering::Relaxed)
    }

    /// Acquire load: pairs with the writer's [`Self::publish`].
    #[inline(always)]
    pub fn observe(self) -> u32 {
        self.atomic().load(Ordering::Acquire)
    }

    /// Relaxed store, by the word's one writer.
    #[inline(always)]
    pub fn store(self, value: u32) {
        self.atomic().store(value, Ordering::Relaxed);
    }

    /// Release store, by the word's one writer: pairs with the reader's [`Self::observe`].
    #[inline(always)]
    pub fn publish(self, value: u32) {
        self.atomic().store(value, Ordering::Release);
    }
}

/// Consecutive 32-bit words, checked once.
#[derive(Clone, Copy)]
pub struct Words<'w> {
    at: NonNull<u8>,
    count: usize,
    _window: PhantomData<&'w ()>,
}

impl<'w> Words<'w> {
    /// How many.
    pub fn len(self) -> usize {
        self.count
    }

    /// None.
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Word `i`, or `None` past the end.
    #[inline(always)]
    pub fn get(self, i: usize) -> Option<Word<'w>> {
        if i >= self.count {
            return None;
        }
        // SAFETY: i < count, and count words from `at` lie in the region (checked when made).
        let at = unsafe { self.at.add(i * 4) };
        Some(Word { at, _window: PhantomData })
    }
}

/// The slots and chunks of one queue pair. `F` is the kind of memory.
pub struct Queue<K, F = Coherent> {
    // Hot line, first ring line, first side line; the reply lines are the same when coherent.
    req: [NonNull<u8>; 3],
    rep: [NonNull<u8>; 3],
    ring_mask: u32,
    side_len: u32,
    chunks: NonNull<u8>,
    req_chunk: u32,
    rep_chunk: u32,
    keep: K,
    _order: PhantomData<F>,
}

// SAFETY: as for `Window`: all access is by atomics or copies into memory that `keep` holds.
unsafe impl<K: Send, F> Send for Queue<K, F> {}
// SAFETY: as above.
unsafe impl<K: Sync, F> Sync for Queue<K, F> {}

impl<K, F: Order> Queue<K, F> {
    /// Ring lines, a power of two.
    #[inline(always)]
    pub fn ring_len(&self) -> u32 {
        self.ring_mask + 1
    }

    /// Side lines.
    pub fn side_len(&self) -> u32 {
        self.side_len
    }

    /// What keeps the region mapped.
    pub fn keep(&self) -> &K {
        &self.keep
    }

    /// The hot line.
    #[inline(always)]
    pub fn hot(&self) -> Line<'_, F> {
        Line { req: self.req[0], rep: self.rep[0], _queue: PhantomData }
    }

    /// Ring line `i mod ring_len`.
    #[inline(always)]
    pub fn ring(&self, i: u32) -> Line<'_, F> {
        let off = (i & self.ring_mask) as usize * SLOT_BYTES;
        // SAFETY: the masked index is below ring_len, whose lines were checked to lie in the region.
        let req = unsafe { self.req[1].add(off) };
        // SAFETY: as above, from the reply base.
        let rep = unsafe { self.rep[1].add(off) };
        Line { req, rep, _queue: PhantomData }
    }

    /// Side line `t`, or `None` past the last.
    #[inline(always)]
    pub fn side(&self, t: u32) -> Option<Line<'_, F>> {
        if t >= self.side_len {
            return None;
        }
        let off = t as usize * SLOT_BYTES;
        // SAFETY: t < side_len, whose lines were checked to lie in the region.
        let req = unsafe { self.req[2].add(off) };
        // SAFETY: as above, from the reply base.
        let rep = unsafe { self.rep[2].add(off) };
        Some(Line { req, rep, _queue: PhantomData })
    }

    /// Bytes of a request chunk.
    pub fn req_chunk_len(&self) -> usize {
        self.req_chunk as usize
    }

    /// Bytes of a reply chunk.
    pub fn rep_chunk_len(&self) -> usize {
        self.rep_chunk as usize
    }

    fn chunk(&self, slot: u32, skip: u32, size: u32, want: usize) -> Option<NonNull<u8>> {
        let slots = 2 + self.ring_mask + self.side_len;
        if slot >= slots || want > size as usize {
            return None;
        }
        let pair = self.req_chunk as usize + self.rep_chunk as usize;
        // SAFETY: slot < slots and `slots` chunk pairs from `chunks` were checked to lie in the region; skip < pair.
        Some(unsafe { self.chunks.add(slot as usize * pair + skip as usize) })
    }

    /// Copies argument bytes into the request chunk of slot `slot`; `None` when they do not fit.
    pub fn write_request_chunk(&self, slot: u32, from: &[u8]) -> Option<()> {
        let at = self.chunk(slot, 0, self.req_chunk, from.len())?;
        // SAFETY: `chunk` checked that from.len() bytes fit; `from` is private.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), at.as_ptr(), from.len()) };
        Some(())
    }

    /// Copies argument bytes out of the request chunk of slot `slot`; `None` when it is shorter.
    pub fn read_request_chunk(&self, slot: u32, to: &mut [u8]) -> Option<()> {
        let at = self.chunk(slot, 0, self.req_chunk, to.len())?;
        // SAFETY: `chunk` checked that to.len() bytes are there; `to` is private.
        unsafe { core::ptr::copy_nonoverlapping(at.as_ptr(), to.as_mut_ptr(), to.len()) };
        Some(())
    }

    /// Copies result bytes into the reply chunk of slot `slot`; `None` when they do not fit.
    pub fn write_reply_chunk(&self, slot: u32, from: &[u8]) -> Option<()> {
        let at = self.chunk(slot, self.req_chunk, self.rep_chunk, from.len())?;
        // SAFETY: as in `write_request_chunk`.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), at.as_ptr(), from.len()) };
        Some(())
    }

    /// Copies result bytes out of the reply chunk of slot `slot`; `None` when it is shorter.
    pub fn read_reply_chunk(&self, slot: u32, to: &mut [u8]) -> Option<()> {
        let at = self.chunk(slot, self.req_chunk, self.rep_chunk, to.len())?;
        // SAFETY: as in `read_request_chunk`.
        unsafe { core::ptr::copy_nonoverlapping(at.as_ptr(), to.as_mut_ptr(), to.len()) };
        Some(())
    }
}

/// One slot: its request half and its reply half, the same 64 bytes when coherent.
pub struct Line<'q, F> {
    req: NonNull<u8>,
    rep: NonNull<u8>,
    _queue: PhantomData<(&'q (), F)>,
}

impl<F> Clone for Line<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<F> Copy for Line<'_, F> {}

impl<'q, F: Order> Line<'q, F> {
    #[inline(always)]
    fn word(half: NonNull<u8>, off: usize) -> &'q AtomicU32 {
        // SAFETY: a slot has 64 bytes and `off` is one of the header constants below 64.
        let at = unsafe { half.add(off) };
        // SAFETY: lines are 64-aligned and `off` is a multiple of 4; the word is only accessed as a 32-bit atomic.
        unsafe { AtomicU32::from_ptr(at.as_ptr().cast()) }
    }

    /// Request word (Acquire). R1: pairs with P1 in [`Self::publish_request`].
    #[inline(always)]
    pub fn req_seq(self) -> u32 {
        let seq = Self::word(self.req, REQ_SEQ).load(Ordering::Acquire);
        F::after_observe();
        seq
    }

    /// Request header (relaxed): valid once R1 saw the expected word. Only CANCEL changes afterwards.
    #[inline(always)]
    pub fn req_hdr(self) -> u32 {
        Self::word(self.req, REQ_HDR).load(Ordering::Relaxed)
    }

    /// Reply word (Acquire). R2: pairs with P2 in [`Self::publish_reply`].
    #[inline(always)]
    pub fn rep_seq(self) -> u32 {
        let seq = Self::word(self.rep, REP_SEQ).load(Ordering::Acquire);
        F::after_observe();
        seq
    }

    /// Reply header (relaxed): valid once R2 saw the expected word.
    #[inline(always)]
    pub fn rep_hdr(self) -> u32 {
        Self::word(self.rep, REP_HDR).load(Ordering::Relaxed)
    }

    /// P1: header, then the request word (Release), which hands the payload to the responder. Pairs with R1.
    #[inline(always)]
    pub fn publish_request(self, hdr: u32, seq: u32) {
        Self::word(self.req, REQ_HDR).store(hdr, Ordering::Relaxed);
        F::before_publish();
        Self::word(self.req, REQ_SEQ).store(seq, Ordering::Release);
    }

    /// P2: header, then the reply word (Release), which hands the payload back. Pairs with R2.
    #[inline(always)]
    pub fn publish_reply(self, hdr: u32, seq: u32) {
        Self::word(self.rep, REP_HDR).store(hdr, Ordering::Relaxed);
        F::before_publish();
        Self::word(self.rep, REP_SEQ).store(seq, Ordering::Release);
    }

    /// The request's header as a word, for a handler that asks whether it was cancelled.
    pub fn req_hdr_word(self) -> Word<'q> {
        // SAFETY: a slot has 64 bytes and REQ_HDR is below 64 and a multiple of 4.
        let at = unsafe { self.req.add(REQ_HDR) };
        Word { at, _window: PhantomData }
    }

    /// Rewrites the requester's own header to add CANCEL (relaxed; the responder may or may not see it).
    pub fn set_req_hdr(self, hdr: u32) {
        Self::word(self.req, REQ_HDR).store(hdr, Ordering::Relaxed);
    }

    /// Copies `words.len()` (at most 6) payload words of the request half out.
    #[inline(always)]
    pub fn read_request(self, words: &mut [u64]) {
        read_words(self.req, words);
    }

    /// Copies `words.len()` (at most 6) payload words of the reply half out.
    #[inline(always)]
    pub fn read_reply(self, words: &mut [u64]) {
        read_words(self.rep, words);
    }

    /// Writes `words.len()` (at most 6) payload words of the request half, before P1.
    #[inline(always)]
    pub fn write_request(self, words: &[u64]) {
        write_words(self.req, words);
    }

    /// Writes `words.len()` (at most 6) payload words of the reply half, before P2.
    #[inline(always)]
    pub fn write_reply(self, words: &[u64]) {
        write_words(self.rep, words);
    }
}

#[cfg(target_has_atomic = "64")]
#[inline(always)]
fn payload_word(half: NonNull<u8>, i: usize) -> &'static core::sync::atomic::AtomicU64 {
    // SAFETY: callers pass i < INLINE_WORDS, so the word lies in the slot's 48 payload bytes.
    let at = unsafe { half.add(i * 8) };
    // SAFETY: the slot is 64-aligned, and payload is only accessed as 64-bit atomics on this target. The reference is
    // used up inside the caller's statement, while the slot's borrow is alive.
    unsafe { core::sync::atomic::AtomicU64::from_ptr(at.as_ptr().cast()) }
}

#[cfg(target_has_atomic = "64")]
#[inline(always)]
fn read_words(half: NonNull<u8>, words: &mut [u64]) {
    for (i, word) in words.iter_mut().take(INLINE_WORDS).enumerate() {
        *word = payload_word(half, i).load(Ordering::Relaxed);
    }
}

#[cfg(target_has_atomic = "64")]
#[inline(always)]
fn write_words(half: NonNull<u8>, words: &[u64]) {
    for (i, word) in words.iter().take(INLINE_WORDS).enumerate() {
        payload_word(half, i).store(*word, Ordering::Relaxed);
    }
}

#[cfg(not(target_has_atomic = "64"))]
fn payload_word(half: NonNull<u8>, i: usize) -> &'static AtomicU32 {
    // SAFETY: callers pass i < 2 * INLINE_WORDS, so the word lies in the slot's 48 payload bytes.
    let at = unsafe { half.add(i * 4) };
    // SAFETY: the slot is 64-aligned, and payload is only accessed as 32-bit atomics on this target.
    unsafe { AtomicU32::from_ptr(at.as_ptr().cast()) }
}

#[cfg(not(target_has_atomic = "64"))]
fn read_words(half: NonNull<u8>, words: &mut [u64]) {
    for (i, word) in words.iter_mut().take(INLINE_WORDS).enumerate() {
        let low = payload_word(half, 2 * i).load(Ordering::Relaxed);
        let high = payload_word(half, 2 * i + 1).load(Ordering::Relaxed);
        *word = u64::from(high) << 32 | u64::from(low);
    }
}

#[cfg(not(target_has_atomic = "64"))]
fn write_words(half: NonNull<u8>, words: &[u64]) {
    for (i, word) in words.iter().take(INLINE_WORDS).enumerate() {
        payload_word(half, 2 * i).store(*word as u32, Ordering::Relaxed);
        payload_word(half, 2 * i + 1).store((*word >> 32) as u32, Ordering::Relaxed);
    }
}

/// A range of a window for copies only: what a host keeps at hand for transfers, without asking its link for the window.
pub struct Copies<K> {
    region: Window<()>,
    #[expect(dead_code, reason = "keeps the region mapped")]
    keep: K,
}

impl<K: Clone> Window<K> {
    /// The range `off..off + len`, for copies.
    pub fn copies(&self, off: u64, len: u64) -> Result<Copies<K>, OutOfWindow> {
        let base = self.at(off, len)?;
        Ok(Copies { region: Window { base, len, taken: 0, keep: () }, keep: self.keep.clone() })
    }
}

impl<K> Copies<K> {
    /// Copies bytes out, from an offset in the range.
    #[inline(always)]
    pub fn read_bytes(&self, off: u64, to: &mut [u8]) -> Result<(), OutOfWindow> {
        self.region.read_bytes(off, to)
    }

    /// Copies bytes in.
    #[inline(always)]
    pub fn write_bytes(&self, off: u64, from: &[u8]) -> Result<(), OutOfWindow> {
        self.region.write_bytes(off, from)
    }

    /// Copies inside the range; source and destination may overlap.
    pub fn copy_within(&self, from: u64, to: u64, bytes: u64) -> Result<(), OutOfWindow> {
        self.region.copy_within(from, to, bytes)
    }
}

/// The heap as a device sees it: the one place where window memory becomes Rust references, and only through
/// `&mut self`, so the borrow checker keeps them apart.
pub struct Heap<K> {
    region: Window<()>,
    keep: K,
}

/// A heap for the time of a borrow, without the type of what keeps it mapped: one pointer, made at every call. Opaque, so
/// that it cannot be swapped with another heap's.
pub struct LentHeap<'h> {
    region: &'h mut Window<()>,
}

/// A range that a handler wants to see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Bytes from the start of the heap.
    pub off: u64,
    /// Bytes.
    pub bytes: u64,
    /// Written to; such a range may overlap no other.
    pub writable: bool,
}

/// Why a claim is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimError {
    /// Claim `which` leaves the heap.
    Outside {
        /// Position in the list of claims.
        which: usize,
        /// What it asked.
        claim: Claim,
        /// Bytes of the heap.
        heap: u64,
    },
    /// Two claims overlap and one of them is writable.
    Overlap {
        /// Positions in the list of claims.
        first: usize,
        /// The later one.
        second: usize,
    },
    /// The range does not start at a multiple of the element's alignment, or is no whole number of elements.
    Misaligned {
        /// Bytes from the start of the heap.
        off: u64,
        /// Alignment needed.
        align: u64,
    },
}

/// A checked range, exclusive for `'h`.
pub struct Claimed<'h> {
    at: NonNull<u8>,
    bytes: usize,
    off: u64,
    writable: bool,
    _heap: PhantomData<&'h mut ()>,
}

impl<K> Heap<K> {
    /// Bytes.
    pub fn len(&self) -> u64 {
        self.region.len
    }

    /// No bytes.
    pub fn is_empty(&self) -> bool {
        self.region.len == 0
    }

    /// What keeps it mapped.
    pub fn keep(&self) -> &K {
        &self.keep
    }

    /// The same heap for the time of the borrow.
    #[inline(always)]
    pub fn lend(&mut self) -> LentHeap<'_> {
        LentHeap { region: &mut self.region }
    }

    /// Copies bytes out of the heap.
    pub fn read_bytes(&self, off: u64, to: &mut [u8]) -> Result<(), OutOfWindow> {
        self.region.read_bytes(off, to)
    }

    /// Copies bytes into the heap.
    pub fn write_bytes(&self, off: u64, from: &[u8]) -> Result<(), OutOfWindow> {
        self.region.write_bytes(off, from)
    }
}

impl LentHeap<'_> {
    /// Bytes.
    pub fn len(&self) -> u64 {
        self.region.len
    }

    /// No bytes.
    pub fn is_empty(&self) -> bool {
        self.region.len == 0
    }

    /// Checks `N` ranges together: each inside the heap, and no writable one overlapping another.
    pub fn claim<const N: usize>(&mut self, claims: [Claim; N]) -> Result<[Claimed<'_>; N], ClaimError> {
        for (second, b) in claims.iter().enumerate() {
            if self.region.at(b.off, b.bytes).is_err() {
                return Err(ClaimError::Outside { which: second, claim: *b, heap: self.region.len });
            }
            for (first, a) in claims.iter().take(second).enumerate() {
                // Both lie inside the heap or the loop has ended, so neither sum overflows.
                let apart = a.off + a.bytes <= b.off || b.off + b.bytes <= a.off || a.bytes == 0 || b.bytes == 0;
                if !apart && (a.writable || b.writable) {
                    return Err(ClaimError::Overlap { first, second });
                }
            }
        }
        Ok(claims.map(|c| {
            // SAFETY: the loop above checked that c.off is inside the region.
            let at = unsafe { self.region.base.add(c.off as usize) };
            Claimed { at, bytes: c.bytes as usize, off: c.off, writable: c.writable, _heap: PhantomData }
        }))
    }

    /// Copies bytes out of the heap.
    pub fn read_bytes(&self, off: u64, to: &mut [u8]) -> Result<(), OutOfWindow> {
        self.region.read_bytes(off, to)
    }

    /// Copies bytes into the heap.
    pub fn write_bytes(&self, off: u64, from: &[u8]) -> Result<(), OutOfWindow> {
        self.region.write_bytes(off, from)
    }

    /// Words of the heap for signalling between the two sides while a handler runs. `&self`: a word is an atomic, but a
    /// view must not be alive over it, which `claim`'s `&mut self` ensures.
    pub fn words(&self, off: u64, count: u64) -> Result<Words<'_>, OutOfWindow> {
        self.region.words(off, count)
    }
}

impl<'h> Claimed<'h> {
    fn elements<T: Pod>(&self) -> Result<usize, ClaimError> {
        let align = align_of::<T>();
        let size = size_of::<T>();
        let whole = size != 0 && self.bytes.is_multiple_of(size);
        if !whole || !self.at.as_ptr().addr().is_multiple_of(align) {
            return Err(ClaimError::Misaligned { off: self.off, align: align as u64 });
        }
        Ok(self.bytes / size)
    }

    /// The range as elements to read.
    pub fn shared<T: Pod>(self) -> Result<&'h [T], ClaimError> {
        let n = self.elements::<T>()?;
        // SAFETY: in the region for 'h (claimed), aligned and whole (elements), any bytes are a T (Pod); no `&mut` view
        // overlaps it (claim), and the peer keeps off while the call runs (abi §5; a peer that does not garbles values).
        Ok(unsafe { core::slice::from_raw_parts(self.at.as_ptr().cast(), n) })
    }

    /// The range as elements to write; refused unless it was claimed writable.
    pub fn exclusive<T: Pod>(self) -> Result<&'h mut [T], ClaimError> {
        let n = self.elements::<T>()?;
        if !self.writable {
            return Err(ClaimError::Overlap { first: 0, second: 0 });
        }
        // SAFETY: as in `shared`; a writable claim overlaps no other claim, so this is the only reference to the range.
        Ok(unsafe { core::slice::from_raw_parts_mut(self.at.as_ptr().cast(), n) })
    }
}

#[cfg(not(any(target_os = "none", hamr_bare)))]
mod private {
    //! Windows over private memory: for tests, and for the loopback link.

    extern crate alloc;
    use super::{NonNull, SLOT_BYTES, Window};
    use alloc::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
    use alloc::sync::Arc;

    /// Keeps private memory alive.
    #[derive(Clone)]
    pub struct Private(#[expect(dead_code, reason = "held for its Drop")] Arc<Block>);

    struct Block {
        base: NonNull<u8>,
        layout: Layout,
    }

    // SAFETY: the block is plain memory without thread affinity; access is governed by `Window`.
    unsafe impl Send for Block {}
    // SAFETY: as above.
    unsafe impl Sync for Block {}

    impl Drop for Block {
        fn drop(&mut self) {
            // SAFETY: allocated with this layout in `private` and freed nowhere else.
            unsafe { dealloc(self.base.as_ptr(), self.layout) };
        }
    }

    /// Keeps a region alive without saying how: for code that works over several kinds of mapping.
    #[derive(Clone)]
    pub struct Shared(#[expect(dead_code, reason = "held for its Drop")] Arc<dyn core::any::Any + Send + Sync>);

    impl<K: Send + Sync + 'static> Window<K> {
        /// The same window with its keeper's type erased.
        pub fn share(self) -> Window<Shared> {
            Window { base: self.base, len: self.len, taken: self.taken, keep: Shared(Arc::new(self.keep)) }
        }
    }

    fn block(len: u64) -> (NonNull<u8>, usize, Private) {
        let bytes = (len.max(1) as usize).next_multiple_of(SLOT_BYTES);
        let layout = match Layout::from_size_align(bytes, 4096) {
            Ok(layout) => layout,
            Err(_) => panic!("a private window of {len} bytes exceeds the address space"),
        };
        // SAFETY: the size is at least 64.
        let raw = unsafe { alloc_zeroed(layout) };
        let Some(base) = NonNull::new(raw) else { handle_alloc_error(layout) };
        (base, bytes, Private(Arc::new(Block { base, layout })))
    }

    impl Window<Private> {
        /// A window of `len` zero bytes (rounded up to 64) in private memory.
        pub fn private(len: u64) -> Self {
            let (base, bytes, keep) = block(len);
            // SAFETY: the block lives as long as `keep` or a clone, is page-aligned, and this is its only Window.
            unsafe { Window::new(base, bytes, keep) }
        }
    }

    impl Window<Shared> {
        /// Two windows over the same private memory, for a link inside one process. Only the second may have its tail
        /// taken; copies through the first must not meet a view of that heap, which a loopback link ensures by running
        /// the device only while the host waits.
        pub fn private_pair(len: u64) -> (Self, Self) {
            let (base, bytes, keep) = block(len);
            // SAFETY: as in `private`; the twin is the device's half, and this one never has its tail taken by the
            // loopback link, the only user.
            let host = unsafe { Window::new(base, bytes, keep.clone()) };
            // SAFETY: as above, seen from the other half.
            let device = unsafe { Window::new(base, bytes, keep) };
            (host.share(), device.share())
        }
    }
}

#[cfg(not(any(target_os = "none", hamr_bare)))]
pub use private::{Private, Shared};

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn nothing_outside_the_region_is_reachable() {
        let w = Window::private(128);
        assert_eq!(w.read_bytes(120, &mut [0; 9]), Err(OutOfWindow { off: 120, want: 9, len: 128 }));
        assert!(w.write_bytes(u64::MAX, &[1]).is_err());
        assert!(w.word(126).is_err());
        assert!(w.word(3).is_err());
        assert!(w.word(124).is_ok());
        assert!(w.words(0, u64::MAX / 2).is_err());
        assert!(w.copy_within(0, 120, 9).is_err());
    }

    #[test]
    fn a_taken_tail_leaves_the_window() {
        let mut w = Window::private(256);
        let heap = w.take_tail(128).expect("aligned");
        assert_eq!((w.len(), heap.len()), (128, 128));
        assert!(w.write_bytes(128, &[1]).is_err());
        assert!(heap.write_bytes(127, &[1]).is_ok());
        let foreign = Window::private(256).take_tail(0).expect("aligned");
        w.rejoin(foreign);
        assert_eq!(w.len(), 128);
        w.rejoin(heap);
        assert_eq!(w.len(), 256);
    }

    #[test]
    fn claims_are_checked_together() {
        let mut w = Window::private(4096 + 256);
        let mut tail = w.take_tail(4096).expect("aligned");
        let mut heap = tail.lend();
        let c = |off, bytes, writable| Claim { off, bytes, writable };
        assert!(matches!(heap.claim([c(0, 300, false)]), Err(ClaimError::Outside { which: 0, .. })));
        assert!(matches!(heap.claim([c(u64::MAX, 2, false)]), Err(ClaimError::Outside { .. })));
        assert!(matches!(
            heap.claim([c(0, 64, false), c(32, 64, true)]),
            Err(ClaimError::Overlap { first: 0, second: 1 })
        ));
        assert!(heap.claim([c(0, 64, false), c(32, 64, false)]).is_ok());
        let [a, b] = heap.claim([c(0, 64, false), c(64, 64, true)]).expect("disjoint");
        b.exclusive::<u64>().expect("aligned").fill(7);
        assert_eq!(a.shared::<u64>().expect("aligned").len(), 8);
        let [odd] = heap.claim([c(4, 8, false)]).expect("inside");
        assert!(matches!(odd.shared::<u64>(), Err(ClaimError::Misaligned { off: 4, align: 8 })));
    }

    #[test]
    fn a_plan_reads_back_as_it_was_written() {
        use crate::layout::{Layout, Plan};
        use crate::preamble::{BYTE_ORDER, MAGIC, Preamble};
        let plan = Plan { heap: 4096, ..Plan::default() };
        let layout = Layout::plan(&plan).expect("default plan");
        let w = Window::private(layout.window_len());
        layout.write(&plan, &w).expect("fits");
        let preamble = Preamble {
            magic: MAGIC,
            byte_order: BYTE_ORDER,
            window_len: w.len(),
            sections: layout.sections().len() as u32,
            queues: layout.queues(),
            ..Preamble::new_zeroed()
        };
        let read = Layout::read(&preamble, &w).expect("own layout");
        assert_eq!(read, layout);
        for q in 0..layout.queues() {
            let d = read.queue(&w, q).expect("own descriptor");
            assert!(w.queue(&d).is_ok());
        }
        assert!(read.queue(&w, layout.queues()).is_err());
    }
}
