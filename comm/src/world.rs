//! What a handler sees of its world (abi §13): its rank, its segment, and the way out.

use crate::buffer::BufferPtr;
use crate::context::Context;
use core::marker::PhantomData;
use hamr_shared_abi::buffer::{BufferParts, WireBuffer};
use hamr_shared_abi::ids::NodeId;
pub use hamr_shared_abi::ids::RankId;

/// The rank that this image is, for as long as it runs.
#[cfg(hamr_bare)]
static RANK: spin::Once<Rank> = spin::Once::new();

#[cfg(not(hamr_bare))]
std::thread_local! {
    /// The rank that this thread serves: a program may have several, and a rank's handlers and tasks
    /// run on its own thread alone.
    static RANK: core::cell::Cell<Option<Rank>> = const { core::cell::Cell::new(None) };
}

/// What the runtime of an image states of its rank.
#[derive(Clone, Copy, Debug)]
pub struct Rank {
    /// Its number.
    pub me: RankId,
    /// Ranks of the world.
    pub size: u32,
    /// Bytes of its segment, at the end of its heap.
    pub segment: u64,
    /// Publishes the exit code and ends the rank.
    pub exit: fn(u8) -> !,
}

impl Rank {
    /// The image is this rank from now on; hosted, the thread that calls this.
    pub fn join(self) {
        #[cfg(hamr_bare)]
        RANK.call_once(|| self);
        #[cfg(not(hamr_bare))]
        RANK.set(Some(self));
    }

    fn here() -> Option<Self> {
        #[cfg(hamr_bare)]
        return RANK.get().copied();
        #[cfg(not(hamr_bare))]
        RANK.get()
    }
}

/// The world that the device is a rank of, for the time of a call.
pub struct WorldRef<'c> {
    rank: Rank,
    segment: BufferPtr<u8>,
    _call: PhantomData<&'c ()>,
}

impl Context<'_> {
    /// The world that this device is a rank of; `None` on a device that was opened alone.
    pub fn world(&self) -> Option<WorldRef<'_>> {
        let rank = Rank::here()?;
        let segment = segment(self.heap_len(), rank.segment, self.node());
        Some(WorldRef { rank, segment, _call: PhantomData })
    }
}

impl WorldRef<'_> {
    /// This device's rank.
    pub fn me(&self) -> RankId {
        self.rank.me
    }

    /// Ranks of the world.
    pub fn size(&self) -> u32 {
        self.rank.size
    }

    /// This rank's segment: memory of its own that no buffer of the launcher is in. It opens as a
    /// buffer does ([`Context::views`]), and keeps its content from call to call.
    pub fn segment(&self) -> BufferPtr<u8> {
        self.segment
    }

    /// Ends the world with an exit code: this rank at once, the others when their runtimes notice,
    /// whatever they are doing. The running call has no reply.
    pub fn exit(&self, code: u8) -> ! {
        (self.rank.exit)(code)
    }
}

/// The last bytes of a heap as a buffer of the node itself.
fn segment(heap: u64, bytes: u64, node: NodeId) -> BufferPtr<u8> {
    let len = bytes.min(heap);
    BufferPtr::from_wire(WireBuffer::pack(BufferParts { off: heap - len, index: 0, len, generation: 0, node }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Heap;

    #[test]
    fn a_device_alone_has_no_world() {
        let mut heap = Heap::new(64);
        assert!(heap.context().world().is_none());
    }

    #[test]
    fn a_segment_is_the_end_of_the_heap() {
        let parts = segment(4096, 1024, NodeId(3)).parts();
        assert_eq!((parts.off, parts.len, parts.node), (3072, 1024, NodeId(3)));
        let longer = segment(4096, u64::MAX, NodeId(3)).parts();
        assert_eq!((longer.off, longer.len), (0, 4096), "never outside of it");
    }
}
