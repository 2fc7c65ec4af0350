//! One host queue (abi §12): what a task has asked of the host, and when the host is notified of it.

use super::call_queue::CallQueue;
use super::{QueueNotifier, WaitWord};
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::window::{KeptWord, Queue};

pub(super) struct HostQueue<K, F> {
    pub(super) calls: CallQueue<K, F>,
    /// The host's wait word of this queue.
    wait: KeptWord<K>,
    notifier: QueueNotifier,
}

impl<K, F: Order> HostQueue<K, F> {
    pub(super) fn new(slots: Queue<K, F>, wait: KeptWord<K>, epoch: Epoch) -> Self {
        Self { calls: CallQueue::new(slots, epoch), wait, notifier: QueueNotifier::new() }
    }

    /// Must the host be notified of a message here?
    #[inline(always)]
    pub(super) fn needs_notify(&mut self) -> bool {
        (&self.wait).is_odd() && self.sleeps()
    }

    #[cold]
    #[inline(never)]
    fn sleeps(&mut self) -> bool {
        let newest = self.calls.requester.next_position().checked_sub(1);
        self.notifier.needs_notify(&self.wait, newest, |x| self.calls.is_answered(x))
    }
}
