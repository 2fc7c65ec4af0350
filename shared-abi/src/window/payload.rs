//! The payload of a request: 64-bit atomics where the processor has them, otherwise halves (abi §4).

#![expect(unsafe_code)]
// UNSAFETY: as in `window`, whose contracts these are.

use core::marker::PhantomData;
use core::ptr::NonNull;
#[cfg(not(target_has_atomic = "64"))]
use core::sync::atomic::AtomicU32;
use core::sync::atomic::{Ordering, compiler_fence};

use crate::slot::{INLINE_WORDS, SECOND_WORDS, SLOT_BYTES};

/// The payload of one request, to be copied out once: words in a slot whose published word was
/// observed, or a private copy of them; or bytes in its chunk. Two scalars, which are passed in registers.
#[derive(Clone, Copy)]
pub struct Payload<'q> {
    /// 48 bytes, 8-aligned; with SECOND, 64 more from the 64th on; with CHUNK, a chunk.
    at: NonNull<u8>,
    /// [`Self::len`], and [`Self::SECOND`] or [`Self::CHUNK`].
    bits: u32,
    _words: PhantomData<&'q ()>,
}

const _: () = assert!(align_of::<u64>() == 8);

impl<'q> Payload<'q> {
    /// There is a second line.
    const SECOND: u32 = 1 << 31;
    /// All bytes are in a chunk.
    const CHUNK: u32 = 3 << 30;
    /// Are there such payloads? Bare images, which are small, copy the bytes out before.
    pub const IN_CHUNKS: bool = cfg!(not(hamr_bare));

    #[inline(always)]
    const fn bits(len: usize) -> u32 {
        len as u32 & !Self::SECOND
    }

    /// The request in the slot whose half is at `at`; `second`: with the line behind it.
    ///
    /// # Safety
    /// 64 bytes from `at`, with `second` 128, are a slot's, and mapped for `'q`.
    #[inline(always)]
    pub(super) unsafe fn of_slot(at: NonNull<u8>, len: usize, second: bool) -> Self {
        let second = if second { Self::SECOND } else { 0 };
        Self { at, bits: Self::bits(len) | second, _words: PhantomData }
    }

    /// The request in a chunk; `len` is less than a gibibyte.
    ///
    /// # Safety
    /// `len` bytes from `at` are mapped for `'q`.
    #[inline(always)]
    pub(super) unsafe fn of_chunk(at: NonNull<u8>, len: usize) -> Self {
        Self { at, bits: Self::bits(len) | Self::CHUNK, _words: PhantomData }
    }

    /// A private copy of one line.
    pub fn private(words: &'q mut [u64; INLINE_WORDS], len: usize) -> Self {
        Self { at: NonNull::from_mut(words).cast(), bits: Self::bits(len), _words: PhantomData }
    }

    /// Bytes that the message has, wherever they are: its sender's word, that no access here goes
    /// by.
    #[inline(always)]
    pub fn len(self) -> usize {
        (if self.bits & Self::SECOND == 0 { self.bits } else { self.bits & !Self::CHUNK }) as usize
    }

    /// Has the message `len` bytes, of which none are in a second line? One comparison.
    #[inline(always)]
    pub fn is_one_line_of(self, len: usize) -> bool {
        self.bits == len as u32
    }

    /// The same of a message in two lines.
    #[inline(always)]
    pub fn is_two_lines_of(self, len: usize) -> bool {
        self.bits == len as u32 | Self::SECOND
    }

    /// The message has no bytes.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Is there a second line?
    #[inline(always)]
    pub fn has_second_line(self) -> bool {
        self.bits & Self::CHUNK == Self::SECOND
    }

    /// The bytes in the chunk, if they are there.
    #[inline(always)]
    pub fn in_chunk(self) -> Option<Unread<'q>> {
        let is_there = Self::IN_CHUNKS && self.bits & Self::CHUNK == Self::CHUNK;
        is_there.then(|| Unread { at: self.at, len: self.len(), is_private: false, _bytes: PhantomData })
    }

    /// Copies the first words out, at most [`INLINE_WORDS`].
    #[inline(always)]
    pub fn read(self, words: &mut [u64]) {
        read_words::<INLINE_WORDS>(self.at, words);
    }

    /// Copies the first words of the second line out, at most [`SECOND_WORDS`]; none where there is
    /// no such line.
    #[inline(always)]
    pub fn read_second(self, words: &mut [u64]) {
        if self.has_second_line() {
            // SAFETY: only `of_slot` sets SECOND, whose caller states that there are 128 bytes.
            let second = unsafe { self.at.add(SLOT_BYTES) };
            read_words::<SECOND_WORDS>(second, words);
        }
    }
}

/// Bytes that are read front to back, each once: private ones, or those of a chunk, which a peer may write meanwhile.
pub struct Unread<'q> {
    /// `len` readable bytes.
    at: NonNull<u8>,
    len: usize,
    is_private: bool,
    _bytes: PhantomData<&'q [u8]>,
}

impl<'q> Unread<'q> {
    /// Private ones.
    #[inline(always)]
    pub fn private(bytes: &'q [u8]) -> Self {
        Self { at: NonNull::from_ref(bytes).cast(), len: bytes.len(), is_private: true, _bytes: PhantomData }
    }

    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// There are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes so many off the front, if there are.
    #[inline(always)]
    pub fn split_front(&mut self, n: usize) -> Option<Self> {
        let rest = self.len.checked_sub(n)?;
        let front = Self { len: n, ..*self };
        // SAFETY: n of the bytes from `at`, of which there are `len`.
        (self.at, self.len) = (unsafe { self.at.add(n) }, rest);
        Some(front)
    }

    /// Copies `N` off the front, if there are.
    #[inline(always)]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, mut array) = (self.split_front(N)?, [0; N]);
        front.copy(&mut array);
        // Others are in registers.
        if N > size_of::<u128>() {
            compiler_fence(Ordering::Acquire);
        }
        Some(array)
    }

    /// Copies them to `to`, or as many as that has room for.
    #[inline(always)]
    pub fn copy_to(self, to: &mut [u8]) {
        self.copy(to);
        // The compiler does not read them again in place of the copy.
        compiler_fence(Ordering::Acquire);
    }

    #[inline(always)]
    fn copy(self, to: &mut [u8]) {
        // SAFETY: there are `len` readable bytes, and to.len() writable ones, which are private: the two do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(self.at.as_ptr(), to.as_mut_ptr(), self.len.min(to.len())) };
    }

    /// Where they are, if they are private.
    #[inline(always)]
    pub fn as_private(&self) -> Option<&'q [u8]> {
        // SAFETY: `private` made it of a slice for `'q`, of which these bytes are a part.
        self.is_private.then(|| unsafe { core::slice::from_raw_parts(self.at.as_ptr(), self.len) })
    }
}

#[cfg(target_has_atomic = "64")]
#[inline(always)]
fn payload_word(line: NonNull<u8>, i: usize) -> &'static core::sync::atomic::AtomicU64 {
    // SAFETY: callers pass i below the words of payload that the line has.
    let at = unsafe { line.add(i * 8) };
    // SAFETY: a line is 64-aligned and a private copy 8-aligned, and payload is only accessed as
    // 64-bit atomics on this target. The reference ends with the caller's statement, within the
    // borrow of the line or of the copy.
    unsafe { core::sync::atomic::AtomicU64::from_ptr(at.as_ptr().cast()) }
}

// The functions below: WORDS is how many words of payload the line at `line` has, INLINE_WORDS or
// SECOND_WORDS; what is longer is cut.

#[cfg(target_has_atomic = "64")]
#[inline(always)]
pub(super) fn read_words<const WORDS: usize>(line: NonNull<u8>, words: &mut [u64]) {
    for (i, word) in words.iter_mut().take(WORDS).enumerate() {
        *word = payload_word(line, i).load(Ordering::Relaxed);
    }
}

#[cfg(target_has_atomic = "64")]
#[inline(always)]
pub(super) fn write_words<const WORDS: usize>(line: NonNull<u8>, words: impl IntoIterator<Item = u64>) {
    words
        .into_iter()
        .take(WORDS)
        .enumerate()
        .for_each(|(i, word)| payload_word(line, i).store(word, Ordering::Relaxed));
}

#[cfg(not(target_has_atomic = "64"))]
fn payload_word(line: NonNull<u8>, i: usize) -> &'static AtomicU32 {
    // SAFETY: callers pass i below twice the words of payload that the line has.
    let at = unsafe { line.add(i * 4) };
    // SAFETY: a line is 64-aligned and a private copy 8-aligned, and payload is only accessed as
    // 32-bit atomics on this target.
    unsafe { AtomicU32::from_ptr(at.as_ptr().cast()) }
}

#[cfg(not(target_has_atomic = "64"))]
pub(super) fn read_words<const WORDS: usize>(line: NonNull<u8>, words: &mut [u64]) {
    for (i, word) in words.iter_mut().take(WORDS).enumerate() {
        let low = payload_word(line, 2 * i).load(Ordering::Relaxed);
        let high = payload_word(line, 2 * i + 1).load(Ordering::Relaxed);
        *word = u64::from(high) << 32 | u64::from(low);
    }
}

#[cfg(not(target_has_atomic = "64"))]
pub(super) fn write_words<const WORDS: usize>(line: NonNull<u8>, words: impl IntoIterator<Item = u64>) {
    for (i, word) in words.into_iter().take(WORDS).enumerate() {
        payload_word(line, 2 * i).store(word as u32, Ordering::Relaxed);
        payload_word(line, 2 * i + 1).store((word >> 32) as u32, Ordering::Relaxed);
    }
}
