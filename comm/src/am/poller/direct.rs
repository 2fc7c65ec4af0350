//! Calls that a task makes on its own stack, without the serve loop between call and reply.
//!
//! Hosted images only: a bare-metal task may be abandoned at any instruction, and here it changes queues.

use super::super::activity::Activity;
use super::super::task_slot::TaskCalls;
use super::super::{Found, Tasks};
use super::Poller;
use super::calls::Calls;
use crate::task::wait::{Message, Wait};
use crate::task::{Answer, DirectCalls};
use hamr_shared_abi::sync::Order;

/// Says of each call whether its reply is looked for, by what became of the ones before.
///
/// A reply that did not come within the looks, since it is far or its handler calls this side, leaves out 1, 3, 7 and so
/// on to 63 of the calls behind it.
#[derive(Default)]
pub(super) struct Nearness {
    /// Calls that are left out from now on.
    left_out: u32,
    /// Calls that were left out behind the last look in vain.
    before: u32,
    /// The call that was published last was left out, or looked for in vain.
    is_decided: bool,
}

impl Nearness {
    const MOST: u32 = 63;

    /// Takes the next call: is its reply looked for? A second time for the same call, it is not.
    #[inline]
    pub(super) fn take(&mut self) -> bool {
        if core::mem::take(&mut self.is_decided) {
            return false;
        }
        let looks = self.left_out == 0;
        self.left_out = self.left_out.saturating_sub(1);
        looks
    }

    /// Notes what became of a look.
    #[inline]
    pub(super) fn note(&mut self, came: bool) {
        self.before = if came { 0 } else { (2 * self.before + 1).min(Self::MOST) };
        self.left_out = self.before;
    }
}

/// Lends a task what it needs to call.
pub(super) struct Direct<'d, K, F> {
    pub(super) calls: &'d mut Calls<K, F>,
    pub(super) own: &'d mut TaskCalls,
    pub(super) near: &'d mut Nearness,
    pub(super) place: usize,
    pub(super) looks: u32,
    /// Calls until others have a turn.
    pub(super) left: &'d mut u32,
    /// Counts a stretch of the task that begins behind a reply.
    pub(super) activity: &'d Activity,
    pub(super) running: (u32, Found),
}

impl<K, F: Order> DirectCalls for Direct<'_, K, F> {
    #[inline(never)]
    fn call(&mut self, message: &Message, scratch: &mut [u8]) -> Option<Result<Answer, u32>> {
        // Its other calls, and calls of tasks, are the serve loop's.
        if *self.left == 0 || self.own.used != 0 || message.is_task {
            return None;
        }
        if !self.near.take() {
            self.near.is_decided = true;
            return None;
        }
        *self.left -= 1;
        let mut call = self.calls.submit(self.place, message, 0, scratch.get(..usize::from(message.len))?)?;
        let came = self.calls.comes_within(self.place, &mut call, self.looks) == Some(true);
        self.near.note(came);
        if came {
            self.activity.begin(self.running.0, self.running.1);
            return Some(Ok(self.calls.read(self.place, call, scratch)));
        }
        self.near.is_decided = true;
        let handle = self.own.free()?;
        self.own.put(handle, call);
        Some(Err(handle))
    }
}

impl<K: Clone, F: Order> Poller<'_, K, F> {
    /// The task in this place is the only one, and waits for a reply: does that come at once?
    pub(super) fn reply_is_near(&mut self, index: usize) -> bool {
        let Tasks { slots, live, .. } = &mut self.dispatcher.tasks;
        let Some(slot) = slots.get_mut(index).filter(|_| *live == 1) else { return false };
        let Wait::Reply { call, .. } = slot.wait else { return false };
        let Some(call) = slot.calls.get_mut(call).filter(|_| self.near.take()) else { return false };
        let came = self.calls.comes_within(index, call, self.extra_polls);
        came.into_iter().for_each(|came| self.near.note(came));
        came == Some(true)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Nearness;

    /// Of so many calls, those whose reply was looked for, by the task or behind it by the serve loop.
    fn looks(near: &mut Nearness, calls: u32, comes: bool) -> u32 {
        let mut looks = 0;
        for _ in 0..calls {
            let looked = near.take();
            if looked {
                near.note(comes);
                looks += 1;
            }
            if !(looked && comes) {
                near.is_decided = true;
                assert!(!near.take(), "the same call once more");
            }
        }
        looks
    }

    #[test]
    fn replies_that_do_not_come_are_seldom_looked_for_and_those_that_do_always() {
        let mut near = Nearness::default();
        assert_eq!(looks(&mut near, 1000, true), 1000);
        // 1, 3, 7, 15, 31 and then 63 calls are left out between two looks.
        assert_eq!(looks(&mut near, 1 + 1 + 3 + 7 + 15 + 31 + 5, false), 6);
        assert_eq!(looks(&mut near, 64 * 100, false), 100);
        // The next look finds out that they come.
        assert!(looks(&mut near, Nearness::MOST + 100, true) >= 100);
    }
}
