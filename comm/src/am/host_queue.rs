//! One host queue (abi §12): what a task has asked of the host, and when the host is notified of it.

use super::call_queue::CallQueue;
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::window::{KeptWord, Queue};

pub(super) struct HostQueue<K, F> {
    pub(super) calls: CallQueue<K, F>,
    /// The host's wait word of this queue.
    wait: KeptWord<K>,
    /// The odd value that the host was notified for last, and the newest message then.
    notified: u32,
    notified_at: u64,
}

impl<K, F: Order> HostQueue<K, F> {
    #[inline(never)]
    pub(super) fn new(slots: Queue<K, F>, wait: KeptWord<K>, epoch: Epoch) -> Self {
        Self { calls: CallQueue::new(slots, epoch), wait, notified: 0, notified_at: 0 }
    }

    /// Have all messages replies?
    pub(super) fn is_answered(&self) -> bool {
        self.calls.requester.next_position().checked_sub(1).is_none_or(|newest| self.calls.is_answered(newest))
    }

    /// Rules 21 and 22 of abi §12: must the host be notified of a message here? Again for the same
    /// odd value, when all messages that it was notified of have replies: it may have taken them
    /// before the notification came.
    #[inline(never)]
    pub(super) fn needs_notify(&mut self) -> bool {
        let (word, calls) = (self.wait.word().load(), &self.calls);
        let Some(newest) = calls.requester.next_position().checked_sub(1).filter(|_| word & 1 != 0) else {
            return false;
        };
        if calls.is_answered(newest) || word == self.notified && !calls.is_answered(self.notified_at) {
            return false;
        }
        (self.notified, self.notified_at) = (word, newest);
        true
    }
}
