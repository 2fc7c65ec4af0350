//! The owner's side of a remote registration cache.

use std::ops::Range;

use hamr_gas::firehose::Pinner;

use crate::exposed::Exposed;
use crate::lock::Locker;

/// Memory that others copy to, and what of it is pinned for them.
#[derive(Debug)]
pub struct Owner {
    /// Before the memory: it is unlocked while it is there.
    locker: Locker,
    exposed: Exposed,
    /// What is pinned, and for whom.
    pinned: Vec<(u32, Range<u64>)>,
}

impl Owner {
    /// Exposes so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { locker: Locker::new(), exposed: Exposed::new(bytes), pinned: Vec::new() }
    }

    /// The memory.
    pub fn exposed(&self) -> &Exposed {
        &self.exposed
    }

    /// A move of process `of`, a number of the program's own: unpins what is pinned for it, then pins. Whether the
    /// range to pin is exposed, and is pinned now.
    pub fn moved(&mut self, of: u32, unpin: &[Range<u64>], pin: Option<Range<u64>>) -> bool {
        for range in unpin {
            if let Some(at) = self.pinned.iter().position(|(owner, pinned)| *owner == of && pinned == range) {
                let (_, range) = self.pinned.swap_remove(at);
                self.locker.unpin(range, ());
            }
        }
        let all = self.exposed.range();
        let Some(pin) = pin else { return true };
        let is_exposed = all.start <= pin.start && pin.start < pin.end && pin.end <= all.end;
        let is_pinned = is_exposed && self.locker.pin(pin.clone()).is_ok();
        if is_pinned {
            self.pinned.push((of, pin));
        }
        is_pinned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exposed_memory_is_pinned() {
        let mut owner = Owner::new(2 * 4096);
        let all = owner.exposed().range();
        let (start, end) = (all.start, all.end);
        for range in [start - 4096..end, start..end + 4096, end..start, start..start, 0..u64::MAX] {
            assert!(!owner.moved(1, &[], Some(range)));
        }
        assert!(owner.moved(1, &[], Some(start..end)));
        assert!(owner.moved(1, &[start..end, 0..4096], Some(start..start + 4096)));
    }

    #[test]
    fn a_process_unpins_its_own_alone() {
        let mut owner = Owner::new(4096);
        let all = owner.exposed().range();
        assert!(owner.moved(1, &[], Some(all.clone())) && owner.moved(2, &[], Some(all.clone())));
        for _ in 0..2 {
            assert!(owner.moved(2, std::slice::from_ref(&all), None));
            assert_eq!(owner.pinned, [(1, all.clone())]);
        }
    }
}
