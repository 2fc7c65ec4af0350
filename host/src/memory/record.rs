//! The record of a buffer: which one it is, where, and how many unanswered calls name it (see the
//! module above).

use super::copying::CopyLock;
use crate::BufferError;
use hamr_comm::abi::buffer::BufferParts;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// The record has a buffer whose owner still exists. Above every generation.
pub(super) const LIVE: u32 = 1 << 16;
/// No stream has named the buffer yet.
const NO_STREAM: u16 = u16::MAX;

/// Of one buffer at a time: its place, and its unanswered calls.
pub(crate) struct Record {
    /// Generation in the low 16 bits, LIVE above.
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
    pub(super) const fn new() -> Self {
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

    /// Is the record's buffer the one that the pointer was made for?
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
        match self.generation.load(Ordering::SeqCst) == u32::from(p.generation) | LIVE {
            true => Ok(()),
            false => Err(BufferError::Freed { index: p.index, generation: p.generation }),
        }
    }

    /// May its memory not be freed yet?
    pub(super) fn is_in_use(&self) -> bool {
        self.is_named() || self.copying.is_taken()
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
