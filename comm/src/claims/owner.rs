//! How a task claims, and what it has claimed ends.

use super::{ClaimedRange, WRITES, address, any, claimed_at, here};
use crate::fault::Fault;
use crate::shared::SHARED;
use core::sync::atomic::Ordering::{Relaxed, Release};
use hamr_shared_abi::status::Status;
use hamr_shared_abi::window::{Claim, ClaimError, LentHeap};

/// A task that claims.
pub(crate) struct Owner<'a> {
    pub(crate) heap: &'a LentHeap<'a>,
    /// From 0 on.
    pub(crate) place: usize,
    /// The address of its `TaskSlot`.
    pub(crate) slot: usize,
    /// Of the source.
    pub(crate) line: u32,
}

/// Counts them anew, and those that are claimed next.
fn count(ranges: &[ClaimedRange], next: u32) {
    // Release: behind the changes of ranges.
    SHARED.claimed.store(ranges.iter().filter(|range| range.is_claimed()).count() as u32 + next, Release);
}

impl Owner<'_> {
    /// Claims a range of the heap, which no other task has: its number, from 1 on.
    pub(crate) fn claim(&self, range: Claim) -> Result<u16, Fault> {
        let outside = || ClaimError::Outside { end: range.off.saturating_add(range.bytes), heap: self.heap.len() };
        let from = self.heap.address(range.off, range.bytes).ok_or_else(outside)?;
        let how = if range.writable { WRITES } else { 0 };
        here(true, |ranges| self.add(ranges, (from, from + range.bytes as usize), how))
    }

    /// Claims a resource whose holder is at this address, which no task has, if `take` does: its number.
    pub(crate) fn claim_resource(&self, at: usize, take: impl FnOnce() -> Result<(), Fault>) -> Result<u16, Fault> {
        here(true, |ranges| {
            if let Some(range) = claimed_at(ranges, at) {
                return Err(Fault::new(Status::RESOURCE_BUSY, [range.owner(), 0, 0]));
            }
            let added = self.add(ranges, (at, at + 1), WRITES)?;
            take().inspect_err(|_| free(ranges, added)).map(|()| added)
        })
    }

    /// The task has words in this range of the heap, until it ends: of all of them one range.
    #[cfg(feature = "world")]
    pub(crate) fn note_words(&self, off: u64, bytes: u64) -> Result<(), Fault> {
        let Some(from) = self.heap.address(off, bytes) else { return Ok(()) };
        let to = from + bytes as usize;
        here(true, |ranges| {
            let mut words =
                ranges.iter().filter(|range| range.is_claimed() && range.place.load(Relaxed) & super::WORDS != 0);
            let of = (self.slot, address(self.heap));
            let own = words.find(|range| (range.slot.load(Relaxed), range.heap.load(Relaxed)) == of);
            let Some(range) = own else { return self.add(ranges, (from, to), WRITES | super::WORDS).map(drop) };
            range.to.fetch_max(to, Relaxed);
            range.from.fetch_min(from, Relaxed);
            Ok(())
        })
    }

    fn add(&self, ranges: &[ClaimedRange], (from, to): (usize, usize), how: u32) -> Result<u16, Fault> {
        let found = (1..=u16::MAX).zip(ranges).find(|(_, range)| !range.is_claimed());
        let (number, range) = found.ok_or_else(|| Fault::claimed_buffer(0, ranges.len() as u64, 0))?;
        range.to.store(to, Relaxed);
        range.heap.store(address(self.heap), Relaxed);
        range.slot.store(self.slot, Relaxed);
        range.place.store((self.place as u32 + 1) | how, Relaxed);
        range.line.store(self.line, Relaxed);
        count(ranges, 1);
        // Last: a call that is aborted before this has claimed nothing.
        range.from.store(from, Release);
        Ok(number)
    }
}

/// The range is claimed no more.
fn free(ranges: &[ClaimedRange], number: u16) {
    if let Some(range) = usize::from(number).checked_sub(1).and_then(|at| ranges.get(at)) {
        range.from.store(0, Relaxed);
    }
    count(ranges, 0);
}

/// These ranges are claimed no more; `also` is done together with that.
pub(crate) fn remove(numbers: &[u16], also: impl FnOnce()) {
    here(false, |ranges| {
        also();
        numbers.iter().for_each(|number| free(ranges, *number));
    });
}

/// The task in this slot is gone, however it ended.
pub(crate) fn release(slot: usize) {
    if any() {
        here(false, |ranges| {
            for range in ranges.iter().filter(|range| range.slot.load(Relaxed) == slot) {
                range.from.store(0, Relaxed);
            }
            count(ranges, 0);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;
    use crate::testing;

    /// A task that is ended behind any of the stores of a claim leaves nothing claimed, and what it has counted too
    /// many is gone with it.
    #[test]
    fn a_claim_that_was_ended_behind_any_store_ends_with_its_task() {
        let mut heap = testing::Heap::new(4096);
        let (buffer, other) = (heap.zeroed::<u8>(64).parts(), heap.zeroed::<u8>(64).parts());
        let cx = heap.context();
        let [ended, next] =
            [(1, 0x1000), (2, 0x2000)].map(|(place, slot)| Owner { heap: &cx.heap, place, slot, line: 7 });
        let claim = |owner: &Owner<'_>, off| owner.claim(Claim { off, bytes: 64, writable: true }).expect("free");
        let seen = || check(&cx.heap, (buffer.off, 64), true, 0).map_err(|fault| fault.status);
        // What is stored: count and range, the count alone, nothing.
        for (counted, stored) in [(true, true), (true, false), (false, false)] {
            let number = claim(&ended, buffer.off);
            here(false, |ranges| {
                if !stored {
                    ranges[usize::from(number) - 1].from.store(0, Relaxed);
                }
                if !counted {
                    count(ranges, 0);
                }
            });
            assert_eq!(any(), counted);
            release(ended.slot);
            let claimed = claim(&next, other.off);
            assert_eq!((any(), seen()), (true, Ok(())), "a task that is gone has it: {counted}, {stored}");
            remove(&[claimed], || ());
            assert_eq!((any(), seen()), (false, Ok(())), "a task that is gone has it: {counted}, {stored}");
        }
    }
}
