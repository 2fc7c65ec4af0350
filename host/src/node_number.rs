//! Numbers of devices. A pointer carries its device's number, so no two devices whose memory exists
//! have the same one.

use crate::Error;
use hamr_comm::abi::ids::NodeId;
use hamr_qemu::origin::Origin;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The numbers of this process: its pointers name devices, and not runtimes.
static NUMBERS: Numbers = Numbers::new();

struct Numbers(Mutex<State>);

struct State {
    taken: BTreeSet<u16>,
    /// The last number given out. The next one is above it, so that a number stays unused as long
    /// as possible.
    last: u16,
}

/// One device's number, its own until this is dropped.
pub(crate) struct NodeNumber {
    id: NodeId,
    of: &'static Numbers,
    origin: Origin,
}

impl NodeNumber {
    /// For a device called `device`.
    pub(crate) fn take(device: &str) -> Result<Self, Error> {
        let id = NUMBERS.take();
        let id = id.ok_or_else(|| Error::TooManyDevices { device: device.into(), limit: NodeId::MAX.0 })?;
        Ok(Self { id, of: &NUMBERS, origin: Origin::here() })
    }

    pub(crate) fn id(&self) -> NodeId {
        self.id
    }
}

impl Drop for NodeNumber {
    fn drop(&mut self) {
        // In a copy of the process another thread may have the lock for good.
        if self.origin.is_here() {
            self.of.state().taken.remove(&self.id.0);
        }
    }
}

impl Numbers {
    const fn new() -> Self {
        Self(Mutex::new(State { taken: BTreeSet::new(), last: 0 }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no device has; 0 is the host.
    fn take(&self) -> Option<NodeId> {
        let mut state = self.state();
        let last = state.last;
        let free = (last + 1..=NodeId::MAX.0).chain(1..=last).find(|id| !state.taken.contains(id))?;
        state.taken.insert(free);
        state.last = free;
        Some(NodeId(free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_numbers_are_unique_and_rest() {
        static NUMBERS: Numbers = Numbers::new();
        let take = || NUMBERS.take().map(|id| NodeNumber { id, of: &NUMBERS, origin: Origin::here() });
        let mut all: Vec<_> = std::iter::from_fn(take).collect();
        let ids: BTreeSet<u16> = all.iter().map(|number| number.id().0).collect();
        assert_eq!(ids.into_iter().collect::<Vec<_>>(), (1..=NodeId::MAX.0).collect::<Vec<_>>());
        drop((all.remove(100), all.remove(7)));
        let again: Vec<_> = std::iter::from_fn(take).collect();
        assert_eq!(again.iter().map(|number| number.id().0).collect::<Vec<_>>(), [8, 101], "those that came back");
        drop(again);
        // Above the last one given out first, then from the beginning.
        assert_eq!(take().map(|number| number.id().0), Some(8));
        assert_eq!(take().map(|number| number.id().0), Some(101));
    }
}
