//! The call in the hot slot, and replies to earlier ones whose epochs are over.

use super::queue_end::QueueEnd;
use super::reply::ReplyCopy;
use super::uses::{InlineUses, Uses};
use crate::memory::DeviceMemory;

/// The call in the hot slot (see the module).
pub(super) struct HotCall {
    /// The buffers of a call on the fast path.
    pub(super) inline: InlineUses,
    /// What a call beyond the fast path needs.
    pub(super) uses: Uses,
    /// The caller gave up the result.
    pub(super) is_abandoned: bool,
    /// Replies that were not read before their epoch was over, each with the word of its request.
    unread: Vec<(u32, ReplyCopy)>,
}

impl HotCall {
    pub(super) fn new() -> Self {
        Self { inline: InlineUses::NONE, uses: Uses::default(), is_abandoned: false, unread: Vec::new() }
    }

    /// The call leaves the fast path.
    #[inline(always)]
    pub(super) fn leave_fast_path(&mut self, stream: u32) {
        self.uses = std::mem::replace(&mut self.inline, InlineUses::NONE).into_uses(stream);
    }

    /// The reply is there, or will not come.
    pub(super) fn release(&mut self, end: &mut QueueEnd, memory: &DeviceMemory) {
        let inline = std::mem::replace(&mut self.inline, InlineUses::NONE);
        inline.into_uses(end.number()).release(memory);
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
