//! What tasks have claimed (`task::Claim`): one short list, which a handler looks at when it is not empty,
//! since few claims are held at a time.

use crate::fault::Fault;
use crate::shared::SHARED;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use hamr_shared_abi::status::Status;
use hamr_shared_abi::window::LentHeap;

#[cfg(feature = "tasks")]
mod owner;
#[cfg_attr(hamr_bare, path = "claims/bare.rs")]
mod ranges;

#[cfg(feature = "tasks")]
pub(crate) use owner::{Owner, release, remove};
#[cfg(hamr_bare)]
pub use ranges::use_claimed_ranges;

use ranges::here;

/// Tasks of this build can claim.
pub(crate) const ARE_THERE: bool = true;

/// Room for one claimed range of bytes: of buffers of any device of this program, or of a resource.
///
/// A device is polled by one thread at a time, and ranges are read and changed by `here`: loads and
/// stores need no order.
pub struct ClaimedRange {
    /// Addresses, which tell the heaps of several devices apart. 0: free.
    from: AtomicUsize,
    to: AtomicUsize,
    /// The address of the heap of the task's device.
    heap: AtomicUsize,
    /// The address of the task's `TaskSlot`.
    #[cfg(feature = "tasks")]
    slot: AtomicUsize,
    /// The number of its place, from 1 on, and the highest bit: the task writes to the range.
    place: AtomicU32,
    line: AtomicU32,
}

const WRITES: u32 = 1 << 31;
/// Beside `WRITES`: the task has words of the range, which last as long as it. Only references that last as long,
/// too, are refused for them.
const WORDS: u32 = 1 << 30;
/// In the place of a task: who asks makes references that last across waits ([`Task::claim_segment`]).
///
/// [`Task::claim_segment`]: crate::Task::claim_segment
#[cfg(feature = "world")]
pub(crate) const FOR_REFERENCES: u32 = u32::MAX;

impl ClaimedRange {
    /// Room for a range.
    pub const fn free() -> Self {
        Self {
            from: AtomicUsize::new(0),
            to: AtomicUsize::new(0),
            heap: AtomicUsize::new(0),
            #[cfg(feature = "tasks")]
            slot: AtomicUsize::new(0),
            place: AtomicU32::new(0),
            line: AtomicU32::new(0),
        }
    }

    fn is_claimed(&self) -> bool {
        self.from.load(Relaxed) != 0
    }

    /// The place of the task that has it, from 1 on, and the line of the claim above 32 bits.
    fn owner(&self) -> u64 {
        u64::from(self.place.load(Relaxed) & !(WRITES | WORDS)) | u64::from(self.line.load(Relaxed)) << 32
    }
}

/// Is anything claimed? Where this says no, no range says yes: a task may be ended at any instruction, so the count
/// rises before a range is claimed, and falls after the change. What ended tasks have counted too many, [`release`]
/// corrects.
#[inline(always)]
pub(crate) fn any() -> bool {
    SHARED.claimed.load(Relaxed) != 0
}

/// Checks that no task but the one in `place`, from 1 on, has claimed these bytes of the heap, which are
/// read, and written if it `writes`. Bytes outside of the heap are refused elsewhere.
#[cold]
#[inline(never)]
pub(crate) fn check(heap: &LentHeap<'_>, bytes: (u64, u64), writes: bool, place: u32) -> Result<(), Fault> {
    #[cfg(feature = "modules")]
    if let Some(image) = crate::shared::IMAGE.get() {
        return (image.check)(heap, bytes, writes, place);
    }
    check_here(heap, bytes, writes, place)
}

/// [`check()`] of an image, which its modules ask.
pub(crate) fn check_here(heap: &LentHeap<'_>, (off, bytes): (u64, u64), writes: bool, place: u32) -> Result<(), Fault> {
    let (Some(base), Some(from)) = (heap.address(0, 0), heap.address(off, bytes)) else { return Ok(()) };
    let to = from + bytes as usize;
    here(false, |ranges| {
        for range in ranges.iter().filter(|range| range.is_claimed()) {
            let by = range.place.load(Relaxed);
            let (first, end) = (range.from.load(Relaxed), range.to.load(Relaxed));
            let apart = bytes == 0 || end <= from || to <= first;
            #[cfg(feature = "world")]
            if !apart && by & WORDS != 0 {
                if place == FOR_REFERENCES {
                    return Err(Fault::has_words());
                }
                continue;
            }
            if !apart && by & !WRITES != place && (writes || by & WRITES != 0) {
                return Err(Fault::claimed_buffer(range.owner(), (first - base) as u64, (end - base) as u64));
            }
        }
        Ok(())
    })
}

impl Fault {
    /// A buffer that a task has claimed: its place from 1 on, and the line of the claim above 32 bits.
    pub(crate) const fn claimed_buffer(owner: u64, from: u64, to: u64) -> Self {
        Self::new(Status::BUFFER_BUSY, [owner, from, to])
    }
}

/// Who has claimed a resource.
pub(crate) enum Holder {
    /// The task that asks.
    Own,
    /// Another one, as [`ClaimedRange::owner`] says.
    Other(u64),
    /// None.
    None,
}

fn claimed_at(ranges: &[ClaimedRange], at: usize) -> Option<&ClaimedRange> {
    ranges.iter().find(|range| range.from.load(Relaxed) == at)
}

/// Runs `f` with who has the resource whose holder is at this address; the task in `place` asks, from 1 on.
/// No claim begins or ends meanwhile.
pub(crate) fn with_holder<R>(heap: &LentHeap<'_>, at: usize, place: u32, f: impl FnOnce(Holder) -> R) -> R {
    here(false, |ranges| {
        f(claimed_at(ranges, at).map_or(Holder::None, |range| {
            let is_own = range.place.load(Relaxed) & !WRITES == place && range.heap.load(Relaxed) == address(heap);
            if is_own { Holder::Own } else { Holder::Other(range.owner()) }
        }))
    })
}

/// Runs `f` if no task has the resource whose holder is at this address. No claim begins meanwhile.
pub(crate) fn if_unclaimed<R>(at: usize, f: impl FnOnce() -> R) -> Option<R> {
    here(false, |ranges| claimed_at(ranges, at).is_none().then(f))
}

fn address(heap: &LentHeap<'_>) -> usize {
    heap.address(0, 0).unwrap_or_default()
}
