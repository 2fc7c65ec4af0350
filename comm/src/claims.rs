//! What tasks have claimed (`task::Claim`): one short list, which a handler looks at when it is not empty,
//! since few claims are held at a time.

use crate::fault::Fault;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use hamr_shared_abi::window::{Claim, LentHeap};

/// Ranges that are claimed at a time, at most: as many as a word has bits.
const RANGES: usize = 32;

/// What is claimed on the devices of this program. A device is polled by one thread at a time, and
/// ranges are read and changed by [`here`]: loads and stores need no order.
struct Claims {
    /// Bit i: range i is claimed.
    used: AtomicU32,
    ranges: [Range; RANGES],
}

/// One range, by addresses, which tell the heaps of several devices apart.
struct Range {
    from: AtomicUsize,
    to: AtomicUsize,
    /// The address of the task's `TaskSlot`.
    slot: AtomicUsize,
    /// The number of its place, from 1 on, and the highest bit: the task writes to the range.
    place: AtomicU32,
    line: AtomicU32,
}

const WRITES: u32 = 1 << 31;

impl Claims {
    fn used(&self) -> u32 {
        self.used.load(Relaxed)
    }

    /// The claimed ranges, each with its bit.
    fn all(&self) -> impl Iterator<Item = (u32, &Range)> {
        let bits = (0..RANGES as u32).map(|i| 1 << i);
        let used = self.used();
        bits.zip(&self.ranges).filter(move |(bit, _)| used & bit != 0)
    }

    fn remove(&self, ranges: u32) {
        self.used.store(self.used() & !ranges, Relaxed);
    }
}

static CLAIMS: Claims = Claims {
    used: AtomicU32::new(0),
    ranges: [const {
        Range {
            from: AtomicUsize::new(0),
            to: AtomicUsize::new(0),
            slot: AtomicUsize::new(0),
            place: AtomicU32::new(0),
            line: AtomicU32::new(0),
        }
    }; RANGES],
};

/// Runs `f` with all claims. Alone: a hosted program may have several devices. On bare metal there is one
/// thread, and no lock, which a call that is aborted would keep.
fn here<R>(f: impl FnOnce(&Claims) -> R) -> R {
    #[cfg(not(hamr_bare))]
    static LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    #[cfg(not(hamr_bare))]
    let _alone = LOCK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    f(&CLAIMS)
}

/// Is anything claimed?
#[inline(always)]
pub(crate) fn any() -> bool {
    CLAIMS.used() != 0
}

/// Checks that no task but the one in `place`, from 1 on, has claimed these bytes of the heap, which are
/// read, and written if it `writes`. Bytes outside of the heap are refused elsewhere.
#[cold]
#[inline(never)]
pub(crate) fn check(heap: &LentHeap<'_>, (off, bytes): (u64, u64), writes: bool, place: u32) -> Result<(), Fault> {
    let (Some(base), Some(from)) = (heap.address(0, 0), heap.address(off, bytes)) else { return Ok(()) };
    let to = from + bytes as usize;
    here(|claims| {
        for (_, range) in claims.all() {
            let owner = range.place.load(Relaxed);
            let (first, end) = (range.from.load(Relaxed), range.to.load(Relaxed));
            let apart = bytes == 0 || end <= from || to <= first;
            if !apart && owner & !WRITES != place && (writes || owner & WRITES != 0) {
                let owner = u64::from(owner & !WRITES) | u64::from(range.line.load(Relaxed)) << 32;
                return Err(Fault::claimed_buffer(owner, (first - base) as u64, (end - base) as u64));
            }
        }
        Ok(())
    })
}

/// Claims a range, which no other task has, for the task in this place, from 0 on, and slot: its bit.
pub(crate) fn add(heap: &LentHeap<'_>, range: Claim, (place, slot): (usize, usize), line: u32) -> Result<u32, Fault> {
    let outside = || Fault::outside_heap(range.off.saturating_add(range.bytes), heap.len());
    let from = heap.address(range.off, range.bytes).ok_or_else(outside)?;
    here(|claims| {
        let free = claims.used().trailing_ones();
        let entry = claims.ranges.get(free as usize).ok_or_else(|| Fault::claimed_buffer(0, RANGES as u64, 0))?;
        entry.from.store(from, Relaxed);
        entry.to.store(from + range.bytes as usize, Relaxed);
        entry.slot.store(slot, Relaxed);
        entry.place.store((place as u32 + 1) | if range.writable { WRITES } else { 0 }, Relaxed);
        entry.line.store(line, Relaxed);
        // Last: a call that is aborted before this has claimed nothing.
        claims.used.store(claims.used() | 1 << free, Relaxed);
        Ok(1 << free)
    })
}

/// These ranges are claimed no more.
pub(crate) fn remove(ranges: u32) {
    here(|claims| claims.remove(ranges));
}

/// The task in this slot is gone, however it ended.
pub(crate) fn release(slot: usize) {
    if any() {
        here(|claims| {
            let its = claims.all().filter(|(_, range)| range.slot.load(Relaxed) == slot);
            claims.remove(its.fold(0, |ranges, (bit, _)| ranges | bit));
        });
    }
}
