//! A claim of the rank's segment that lasts across waits: what a program of an upper layer has its
//! arrays in.
//!
//! Bytes that are claimed are taken out of the heap meanwhile. So views, words, puts and copies of them by any
//! handler of the rank are refused by the check that every access has, and a second claim is refused. What
//! lasts across waits beside that, and does not ask the heap again, is in the list of claims, which a claim
//! asks: those of buffers, and tasks that have words of the segment. What is in front of the claim stays as it
//! was. Other ranks reach all of the segment, always.

#![expect(unsafe_code)]
// UNSAFETY: bytes leave the heap, and come back to it (contract "claims of segments").

use super::piece::Memory;
use crate::buffer::BufferPtr;
use crate::claims::{self, Owner};
use crate::fault::Fault;
use crate::task::Task;
use crate::world::{Rank, WorldRef};
use core::panic::Location;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use hamr_shared_abi::window::LentHeap;

/// The rank's segment, from some offset to its end. It is released when this is dropped, and at the end of the
/// task at the latest.
pub struct SegmentClaim<'t> {
    task: &'t Task<'t>,
    at: NonNull<u8>,
    bytes: usize,
    from: u64,
}

impl Task<'_> {
    /// Claims the rank's segment from byte `from`, a multiple of 64, to its end.
    ///
    /// # Errors
    /// The device is no rank; a program has the segment, or a task a part of it, or words of it
    /// ([`Task::words`]), this one, too; it is shorter than `from`.
    pub fn claim_segment(&self, from: u64) -> Result<SegmentClaim<'_>, Fault> {
        let rank = Rank::here().ok_or_else(|| Fault::msg("this device is no rank"))?;
        let (at, bytes) = self.lent(|slice| {
            let heap = &mut slice.cx.heap;
            if heap.taken().is_some() {
                return Err(Fault::claimed());
            }
            let bytes = rank.segment.min(heap.len()).checked_sub(from).filter(|_| from.is_multiple_of(64));
            let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes != 0);
            let short = || Fault::msg("the segment is too short");
            let bytes = bytes.ok_or_else(short)?;
            let off = heap.len() - bytes as u64;
            claims::check(heap, (off, bytes as u64), true, claims::FOR_REFERENCES)?;
            Ok((heap.take_from(off, slice.place).ok_or_else(short)?, bytes))
        })?;
        Ok(SegmentClaim { task: self, at, bytes, from })
    }

    /// Notes that the task is about to have these words, where they are of the segment. They last as long as the
    /// task, and store without asking the heap: no reference to the segment's bytes is made meanwhile.
    #[track_caller]
    pub(crate) fn note_words(&self, ptr: BufferPtr<u32>) -> Result<(), Fault> {
        let Some(rank) = Rank::here() else { return Ok(()) };
        let line = Location::caller().line();
        self.lent(|slice| {
            let heap = &slice.cx.heap;
            let from = ptr.parts().off.max(rank.segment_off(heap.len()));
            match ptr.parts().off.saturating_add(ptr.bytes()).saturating_sub(from) {
                0 => Ok(()),
                bytes => Owner { heap, place: slice.place, slot: slice.slot, line }.note_words(from, bytes),
            }
        })
    }
}

impl Fault {
    /// A view that reaches past the heap, or into what is claimed of it.
    #[cold]
    pub(crate) fn beyond_heap(end: u64, heap: u64) -> Self {
        if end <= heap { Self::claimed() } else { Self::outside_heap(end, heap) }
    }

    /// The segment is claimed.
    pub(crate) fn claimed() -> Self {
        Self::msg("a program has the segment")
    }

    /// A task has words of the segment.
    #[cold]
    pub(crate) fn has_words() -> Self {
        Self::msg("a task has words of the segment, until it ends")
    }
}

/// Bytes of a line.
const LINE: u64 = 64;

/// A note of what programs of the rank leave in its segment for later ones. Nothing enforces it: a handler
/// that has no claim may view, and so write, all of the segment.
impl WorldRef<'_> {
    /// How much of this rank's segment is kept, in bytes from its start: 0 at first, then as
    /// [`Self::keep`] said last.
    pub fn kept(&self) -> u64 {
        u64::from(self.rank.calls.kept.load(Ordering::Relaxed)) * LINE
    }

    /// Says how much of this rank's segment is kept, in bytes from its start, rounded up to 64.
    pub fn keep(&self, bytes: u64) {
        self.rank.calls.kept.store(u32::try_from(bytes.div_ceil(LINE)).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Keeps nothing any more. What was named before is of an earlier [generation](Self::kept_generation).
    pub fn free_kept(&self) {
        self.keep(0);
        // One thread of the rank runs programs.
        self.rank.calls.kept_generation.store(self.kept_generation().wrapping_add(1), Ordering::Relaxed);
    }

    /// What is kept from here on is of a generation that another rank has begun.
    pub fn begin_generation(&self, generation: u32) {
        self.rank.calls.kept_generation.store(generation, Ordering::Relaxed);
    }

    /// Steps with each [`Self::free_kept`] on this rank, from a random number of the world on.
    pub fn kept_generation(&self) -> u32 {
        self.rank.calls.kept_generation.load(Ordering::Relaxed)
    }
}

impl SegmentClaim<'_> {
    /// All of it.
    pub fn memory(&mut self) -> Memory<'_> {
        // SAFETY: the bytes are mapped as long as the epoch lasts, and so the task, which `self`
        // borrows. They are taken out of the heap, so no view, copy or word made since reaches them; views
        // made before have ended with the slice of their task, and of words made before there were none
        // (`claims::check`). `self` is borrowed mutably as long as the memory lives, so there is no other. It
        // begins at a multiple of 64, as heap and segment do.
        unsafe { Memory::new(self.at, self.bytes, self.from) }
    }
}

impl Drop for SegmentClaim<'_> {
    fn drop(&mut self) {
        self.task.lent(|slice| {
            let heap = &mut slice.cx.heap;
            // It is another heap where a handler has exchanged the context: the end of the task finds the rank's.
            if heap.taken() == Some(self.at) {
                // SAFETY: what was made of the bytes borrowed `self`.
                unsafe { heap.give_back() };
            }
        });
    }
}

/// The task in this place has ended, however it did: by its return, or because it was left where it stood.
#[inline(always)]
pub(crate) fn release(heap: &mut LentHeap<'_>, place: usize) {
    if heap.last_taker() == place {
        // SAFETY: memory and pieces borrow a claim, which borrows the task: nothing of them is used behind its
        // end, nor on a stack that was left for good.
        unsafe { heap.give_back() };
    }
}
