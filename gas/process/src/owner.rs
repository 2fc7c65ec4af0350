//! The owner's side of a remote registration cache.

use std::ops::Range;

use hamr_gas::firehose::Pinner;

use crate::exposed::Exposed;
use crate::lock::Locker;

/// Memory that others copy to, and what of it is pinned for them.
#[derive(Debug)]
pub struct Owner {
    exposed: Exposed,
    locker: Locker,
}

impl Owner {
    /// Exposes so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { exposed: Exposed::new(bytes), locker: Locker::new() }
    }

    /// The memory.
    pub fn exposed(&self) -> &Exposed {
        &self.exposed
    }

    /// Another process's move: unpins, then pins. Whether the range to pin is exposed, and is pinned now.
    pub fn moved(&mut self, unpin: &[Range<u64>], pin: Option<Range<u64>>) -> bool {
        for range in unpin {
            self.locker.unpin(range.clone(), ());
        }
        let all = self.exposed.range();
        let Some(pin) = pin else { return true };
        let is_exposed = all.start <= pin.start && pin.start < pin.end && pin.end <= all.end;
        is_exposed && self.locker.pin(pin).is_ok()
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
            assert!(!owner.moved(&[], Some(range)));
        }
        assert!(owner.moved(&[], Some(start..end)));
        assert!(owner.moved(&[start..end, 0..4096], Some(start..start + 4096)));
    }
}
