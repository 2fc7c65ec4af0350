//! Pinning by `mlock` (contract "cross-memory attach").

#![expect(unsafe_code)]
// UNSAFETY: the system calls take addresses.

use std::ops::Range;
use std::ptr::without_provenance_mut;

use hamr_gas::firehose::{PinError, Pinner};
use rustix::mm::{mlock, munlock};

/// Keeps pages of this process in memory. The system does not count how often a page is locked; this does.
#[derive(Debug, Default)]
pub struct Locker {
    locked: Vec<Range<u64>>,
}

impl Locker {
    /// Nothing is locked.
    pub const fn new() -> Self {
        Self { locked: Vec::new() }
    }

    /// Unlocks the parts of `range` from `start` on that no other locked range has.
    fn unlock(&self, mut start: u64, end: u64) {
        while start < end {
            let covering = self.locked.iter().filter(|range| range.contains(&start)).map(|range| range.end).max();
            if let Some(covered) = covering {
                start = covered;
                continue;
            }
            let next = self.locked.iter().map(|range| range.start).filter(|next| *next > start).min();
            let stop = next.map_or(end, |next| next.min(end));
            // SAFETY: unlocking changes no byte of memory and no access to it, whatever is there.
            let _gone_memory_is_unlocked = unsafe { munlock(pointer(start), (stop - start) as usize) };
            start = stop;
        }
    }
}

impl Pinner for Locker {
    type Handle = ();

    fn pin(&mut self, range: Range<u64>) -> Result<(), PinError> {
        let len = usize::try_from(range.end - range.start).map_err(|_| PinError)?;
        // SAFETY: locking brings pages into memory and changes no byte and no access; where there is no memory, it
        // fails.
        unsafe { mlock(pointer(range.start), len) }.map_err(|_| PinError)?;
        self.locked.push(range);
        Ok(())
    }

    fn unpin(&mut self, range: Range<u64>, (): ()) {
        if let Some(place) = self.locked.iter().position(|locked| *locked == range) {
            self.locked.swap_remove(place);
            self.unlock(range.start, range.end);
        }
    }
}

impl Drop for Locker {
    fn drop(&mut self) {
        for range in std::mem::take(&mut self.locked) {
            self.unlock(range.start, range.end);
        }
    }
}

fn pointer(at: u64) -> *mut std::ffi::c_void {
    without_provenance_mut(at as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Exposed;

    /// Kilobytes of this process that are locked.
    fn locked() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").expect("of this process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).expect("the kernel says so");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    #[test]
    fn a_page_in_two_ranges_is_locked_until_both_are_unpinned() {
        let memory = Exposed::new(8 * 4096);
        let page = |n: u64| memory.address() + n * 4096;
        let before = locked();
        let mut locker = Locker::new();
        for range in [page(0)..page(4), page(2)..page(8)] {
            assert_eq!(locker.pin(range), Ok(()));
        }
        assert_eq!(locked() - before, 32);
        locker.unpin(page(0)..page(4), ());
        assert_eq!(locked() - before, 24);
        locker.unpin(page(0)..page(4), ());
        assert_eq!(locked() - before, 24, "it was unpinned before");
        locker.unpin(page(2)..page(8), ());
        assert_eq!(locked(), before);
    }

    #[test]
    fn what_is_given_back_to_the_program_is_not_locked() {
        let before = locked();
        let mut owner = crate::Owner::new(4 * 4096);
        let all = owner.exposed().range();
        assert!(owner.moved(1, &[], Some(all.clone())) && owner.moved(2, &[], Some(all)));
        assert_eq!(locked() - before, 16);
        drop(owner);
        assert_eq!(locked(), before);
    }

    #[test]
    fn where_there_is_no_memory_nothing_is_pinned() {
        assert_eq!(Locker::new().pin(0..4096), Err(PinError));
    }
}
