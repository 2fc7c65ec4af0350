//! The record of a buffer: which one it is, where, and how many unanswered calls name it (see the
//! module above).

use super::copying::CopyLock;
use crate::BufferError;
use hamr_comm::abi::buffer::BufferParts;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// The record has a buffer whose owner still exists. Above every generation.
pub(super) const LIVE: u32 = 1 << 16;
/// One transfer that was submitted and has not ended. Counted above LIVE: the word differs from
/// that of every pointer then, so that calls and other transfers need no check of their own.
const TRANSFER: u32 = LIVE << 1;
/// What was put into the buffer is not there any more, as the device has other memory. Above all transfers, so that the word
/// differs from that of every pointer.
const LOST: u32 = 1 << 31;
/// No stream has named the buffer yet.
const NO_STREAM: u16 = u16::MAX;

/// Of one buffer at a time: its place, and its unanswered calls.
pub(crate) struct Record {
    /// Generation in the low 16 bits, LIVE above, then the number of submitted transfers.
    pub(super) generation: AtomicU32,
    /// The stream that counts in `own`: the first that named a buffer of this record. It stays the
    /// one.
    pub(super) first: AtomicU16,
    pub(super) copying: CopyLock,
    /// Unanswered calls of that stream that name the buffer; written by it alone.
    pub(super) own: AtomicU32,
    /// The same of all other streams.
    pub(super) others: AtomicU32,
    pub(super) off: AtomicU64,
    pub(super) bytes: AtomicU64,
}
// Two in a cache line.
const _: () = assert!(size_of::<Record>() == 32);

impl Record {
    pub(super) fn new() -> Self {
        Self {
            generation: AtomicU32::new(0),
            first: AtomicU16::new(NO_STREAM),
            copying: CopyLock::new(),
            own: AtomicU32::new(0),
            others: AtomicU32::new(0),
            off: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Is the record's buffer the one that the pointer was made for, and in no submitted transfer?
    #[inline(always)]
    pub(super) fn is_of(&self, p: BufferParts) -> bool {
        self.generation.load(Ordering::Acquire) == u32::from(p.generation) | LIVE
    }

    /// Counts a use of the record, which was the pointer's a moment ago.
    #[inline(always)]
    pub(super) fn count(&self, p: BufferParts, stream: u32) -> Option<&Self> {
        if u32::from(self.first.load(Ordering::Relaxed)) == stream {
            self.own.store(self.own.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            self.begin_use_as_other(stream);
        }
        // Dropped meanwhile (see the module's head): the count is on no buffer, or on another one.
        if !self.is_of(p) {
            self.dropped_meanwhile(stream);
            return None;
        }
        Some(self)
    }

    #[cold]
    #[inline(never)]
    fn dropped_meanwhile(&self, stream: u32) {
        self.end_use(stream);
    }

    /// The call of `stream` that [`Self::count`] counted was answered.
    #[inline(always)]
    pub(crate) fn end_use(&self, stream: u32) {
        // Release: the thread that frees the memory does so after the reply was seen. `first` has
        // the same value as when the use was counted.
        if u32::from(self.first.load(Ordering::Relaxed)) == stream {
            self.own.store(self.own.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Release);
        } else {
            self.others.fetch_sub(1, Ordering::Release);
        }
    }

    /// For a transfer that has the record's lock: is the buffer still the pointer's? If so, it is
    /// not freed before the lock is released (see [`DeviceMemory::release`]).
    #[inline(always)]
    pub(super) fn still(&self, p: BufferParts) -> Result<(), BufferError> {
        if self.is_still(p) { Ok(()) } else { Err(self.why_not(p)) }
    }

    /// [`Self::still`] without the reason.
    #[inline(always)]
    pub(super) fn is_still(&self, p: BufferParts) -> bool {
        self.generation.load(Ordering::SeqCst) == u32::from(p.generation) | LIVE
    }

    /// Why [`Self::is_of`] is false.
    #[cold]
    pub(super) fn why_not(&self, p: BufferParts) -> BufferError {
        let word = self.generation.load(Ordering::Relaxed);
        match is_alive(word, p) {
            true if word & LOST != 0 => BufferError::Lost,
            true => BufferError::InTransfer,
            false => freed(p),
        }
    }

    /// The device has other memory: a buffer is of no use until all of it is written.
    pub(super) fn lose(&self) {
        let if_live = |word: u32| (word & LIVE != 0).then_some(word | LOST);
        // Without one there is nothing to lose.
        let _ = self.generation.fetch_update(Ordering::SeqCst, Ordering::Relaxed, if_live);
    }

    /// Is it in the memory that it was put into?
    pub(super) fn is_kept(&self) -> Result<(), BufferError> {
        if self.generation.load(Ordering::SeqCst) & LOST == 0 { Ok(()) } else { Err(BufferError::Lost) }
    }

    /// For a put of all that has the record's lock: is the buffer still the pointer's, and lost?
    pub(super) fn still_lost(&self, p: BufferParts) -> Result<(), BufferError> {
        let is_so = self.generation.load(Ordering::SeqCst) == u32::from(p.generation) | LIVE | LOST;
        if is_so { Ok(()) } else { Err(self.why_not(p)) }
    }

    /// All of the buffer was written.
    pub(super) fn find_again(&self) {
        self.generation.fetch_and(!LOST, Ordering::SeqCst);
    }

    /// A transfer of the buffer is submitted. Until it ends, its memory is not freed, and calls and
    /// transfers that are not submitted are refused.
    pub(super) fn begin_transfer(&self, p: BufferParts) -> Result<(), BufferError> {
        let one_more = |word: u32| word.checked_add(TRANSFER).filter(|more| is_alive(word, p) && more & LOST == 0);
        // SeqCst, as in `DeviceMemory::release`: either that is seen here, or this there.
        let begun = self.generation.fetch_update(Ordering::SeqCst, Ordering::Relaxed, one_more);
        begun.map(drop).map_err(|_| self.why_not(p))
    }

    /// That transfer has ended.
    pub(super) fn end_transfer(&self) {
        // Release: pairs with the acquire in `is_in_use`, behind which the memory is freed.
        self.generation.fetch_sub(TRANSFER, Ordering::Release);
    }

    /// The owner drops the buffer: no pointer of this generation is valid any more.
    pub(super) fn drop_owner(&self) {
        self.generation.fetch_and(!LIVE, Ordering::SeqCst);
    }

    /// May its memory not be freed yet?
    pub(super) fn is_in_use(&self) -> bool {
        self.is_named() || self.copying.is_taken() || self.generation.load(Ordering::Acquire) & !LOST >= TRANSFER
    }

    /// Do unanswered calls name it, or is a thread seen to copy?
    #[inline(always)]
    pub(super) fn is_busy(&self) -> bool {
        self.is_named() || self.copying.is_seen_taken()
    }

    /// Does an unanswered call name it? Acquire: pairs with the release in
    /// [`DeviceMemory::end_use`].
    #[inline(always)]
    pub(super) fn is_named(&self) -> bool {
        self.own.load(Ordering::Acquire) != 0 || self.others.load(Ordering::Acquire) != 0
    }

    #[cold]
    #[inline(never)]
    pub(super) fn begin_use_as_other(&self, stream: u32) {
        // The first stream to come counts in a word of its own from now on.
        match self.first.compare_exchange(NO_STREAM, stream as u16, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => self.own.store(1, Ordering::Relaxed),
            Err(_) => {
                self.others.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Is the word of a record that of the pointer's buffer, whether or not transfers are submitted?
fn is_alive(word: u32, p: BufferParts) -> bool {
    word & (TRANSFER - 1) == u32::from(p.generation) | LIVE
}

/// The error of a pointer whose buffer was dropped.
pub(super) fn freed(p: BufferParts) -> BufferError {
    BufferError::Freed { index: p.index, generation: p.generation }
}
