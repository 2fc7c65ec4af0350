//! A claim of the rank's segment that lasts across waits: what a program of an upper layer has its
//! arrays in.
//!
//! Bytes that are claimed are no part of the heap meanwhile. So views, puts and copies of them by other
//! handlers of the rank are refused by the check that every access has, and a second claim is refused
//! here. What is in front of the claim stays as it was. Other ranks reach all of the segment, always.

#![expect(unsafe_code)]
// UNSAFETY: bytes leave the heap, and come back to it (`docs/unsafe.md` "claims of segments").

use super::piece::Memory;
use super::{Rank, WorldRef};
use crate::claims;
use crate::fault::Fault;
use crate::task::Task;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use hamr_shared_abi::window::LentHeap;

/// The rank's segment, from some offset to its end. It is released when this is dropped, and when the
/// task is abandoned.
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
    /// The device is no rank; a program has the segment, or a task a part of it; it is shorter than `from`.
    pub fn claim_segment(&self, from: u64) -> Result<SegmentClaim<'_>, Fault> {
        let rank = Rank::here().ok_or_else(|| Fault::msg("this device is no rank"))?;
        if rank.claimed.bytes() != 0 {
            return Err(Fault::claimed());
        }
        let bytes = rank.segment.min(self.heap_len()).checked_sub(from).filter(|_| from.is_multiple_of(64));
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes != 0);
        let bytes = bytes.ok_or_else(|| Fault::msg("the segment is too short"))?;
        let (at, place) = self.lent(|slice| -> Result<_, Fault> {
            let off = slice.cx.heap_len() - bytes as u64;
            claims::check(&slice.cx.heap, (off, bytes as u64), true, 0)?;
            Ok((slice.cx.heap.take_end(bytes as u64), slice.place))
        })?;
        let at = at.ok_or_else(|| Fault::msg("the segment is too short"))?;
        rank.claimed.set(bytes, place);
        Ok(SegmentClaim { task: self, at, bytes, from })
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
        u64::from(self.rank.kept.load(Ordering::Relaxed)) * LINE
    }

    /// Says how much of this rank's segment is kept, in bytes from its start, rounded up to 64.
    pub fn keep(&self, bytes: u64) {
        self.rank.kept.store(u32::try_from(bytes.div_ceil(LINE)).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Keeps nothing any more. What was named before is of an earlier [generation](Self::kept_generation).
    pub fn free_kept(&self) {
        self.keep(0);
        // One thread of the rank runs programs.
        self.rank.kept_generation.store(self.kept_generation().wrapping_add(1), Ordering::Relaxed);
    }

    /// How often [`Self::free_kept`] was called on this rank.
    pub fn kept_generation(&self) -> u32 {
        self.rank.kept_generation.load(Ordering::Relaxed)
    }
}

impl SegmentClaim<'_> {
    /// All of it.
    pub fn memory(&mut self) -> Memory<'_> {
        // SAFETY: the bytes are mapped as long as the epoch lasts, and so the task, which `self`
        // borrows. They are no part of the heap, so no view of it covers them; `self` is borrowed
        // mutably as long as the memory lives, so there is no other. It begins at a multiple of 64, as
        // heap and segment do.
        unsafe { Memory::new(self.at, self.bytes, self.from) }
    }
}

impl Drop for SegmentClaim<'_> {
    fn drop(&mut self) {
        // SAFETY: what was made of the bytes borrowed `self`.
        self.task.lent(|slice| unsafe { release(&mut slice.cx.heap) });
    }
}

/// # Safety
/// What was made of the bytes that are claimed is not used any more.
unsafe fn release(heap: &mut LentHeap<'_>) {
    let Some(Rank { claimed, .. }) = Rank::here() else { return };
    let bytes = claimed.bytes();
    claimed.set(0, 0);
    // SAFETY: so many were taken, and nothing is claimed from now on; the rest is passed on.
    unsafe { heap.regain(bytes as u64) };
}

/// The task in this place was abandoned: on its stack, which nothing runs on any more, was its claim.
pub(crate) fn release_of_abandoned(heap: &mut LentHeap<'_>, place: usize) {
    let Some(Rank { claimed, .. }) = Rank::here() else { return };
    if claimed.bytes() != 0 && claimed.by() == place {
        // SAFETY: memory and pieces borrow the claim, whose stack was left for good.
        unsafe { release(heap) };
    }
}
