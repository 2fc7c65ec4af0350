//! The call in the hot slot, and replies to earlier ones whose epochs are over.

use super::queue_end::QueueEnd;
use super::reply::ReplyCopy;
use super::uses::Uses;
use crate::memory::DeviceMemory;

/// The call in the hot slot (see the module).
pub(super) struct HotCall {
    /// What it needs. A call on the fast path keeps that to itself.
    pub(super) uses: Uses,
    /// The caller gave up the result.
    pub(super) is_abandoned: bool,
    /// Replies that were not read before their epoch was over, each with the word of its request.
    unread: Vec<(u32, ReplyCopy)>,
}

impl HotCall {
    pub(super) fn new() -> Self {
        Self { uses: Uses::default(), is_abandoned: false, unread: Vec::new() }
    }

    /// The reply is there, or will not come.
    pub(super) fn release(&mut self, end: &mut QueueEnd, memory: &DeviceMemory) {
        self.uses.release(memory);
        self.is_abandoned = false;
        end.req.release_hot();
    }

    /// Keeps the reply to the request with the word `seq`.
    pub(super) fn keep(&mut self, seq: u32, reply: ReplyCopy) {
        self.unread.push((seq, reply));
    }

    /// The reply to the request with the word `seq`, once.
    pub(super) fn take_unread(&mut self, seq: u32) -> Option<ReplyCopy> {
        let index = self.unread.iter().position(|(of, _)| *of == seq)?;
        Some(self.unread.swap_remove(index).1)
    }
}
