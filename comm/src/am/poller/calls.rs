//! The queue pairs in which a device calls others: the host, and the ranks of its world.

use super::super::host_queue::HostQueue;
use super::super::task_slot::{TaskCall, TaskCalls, TaskSlot, handles};
#[cfg(all(feature = "tasks", feature = "world"))]
use super::super::{kept_replies::KeptReplies, lane::Lane};
use crate::task::wait::{Message, Wait};
use crate::task::{Answer, Marks};
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::layout::LayoutError;
use hamr_shared_abi::slot::{Ext, ReqHdr};
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::tasks::{MAX_TASKS, TasksLayout};
use hamr_shared_abi::window::Window;

pub(in super::super) struct Calls<K, F> {
    /// Of messages without a result, then of the task in each place; none where the host serves no
    /// calls.
    host: heapless::Vec<HostQueue<K, F>, { MAX_TASKS as usize + 1 }>,
    /// In the order of the ranks; none outside of a world.
    #[cfg(all(feature = "tasks", feature = "world"))]
    pub(super) lanes: crate::world::PerRank<Lane<K, F>>,
    #[cfg(all(feature = "tasks", feature = "world"))]
    kept: KeptReplies,
    /// The host has to be notified of a message.
    pub(super) notifies_host: bool,
    /// There was a message to the host in this epoch.
    has_asked: bool,
    /// There was one behind the last full fence with a look at the wait words.
    pub(super) asks: bool,
}

impl<K, F: Order> Calls<K, F> {
    pub(super) const fn new() -> Self {
        Self {
            host: heapless::Vec::new(),
            #[cfg(all(feature = "tasks", feature = "world"))]
            lanes: crate::world::PerRank::new(),
            #[cfg(all(feature = "tasks", feature = "world"))]
            kept: KeptReplies::new(),
            notifies_host: false,
            has_asked: false,
            asks: false,
        }
    }

    /// Opens the host queues of a checked section TASKS.
    pub(super) fn open_host(&mut self, tasks: &TasksLayout, window: &Window<K>, epoch: Epoch) -> Result<(), LayoutError>
    where
        K: Clone,
    {
        for queue in 0..tasks.queues() {
            let slots = window.queue_ordered(&tasks.queue(queue))?;
            let wait = window.keep_word(tasks.wait_word(queue))?;
            // No more than a layout has.
            let _ = self.host.push(HostQueue::new(slots, wait, epoch));
        }
        Ok(())
    }

    /// How many tasks can call the host; `None` where it serves no calls.
    pub(super) fn tasks(&self) -> Option<usize> {
        self.host.len().checked_sub(1)
    }

    /// Publishes a call of the task in this place, of which the target is notified.
    #[inline(never)]
    pub(super) fn submit(
        &mut self,
        place: usize,
        message: &Message,
        deadline_us: u32,
        args: &[u8],
    ) -> Option<TaskCall> {
        let call = match message.target.rank() {
            None => {
                let queue = self.host.get_mut(place + 1)?;
                let ext = Ext { deadline_us, ..Ext::default() };
                let at = queue.calls.submit(message.key, 0, ext, args)?;
                // A thread that waits for this task finds it soon, without a notification.
                (self.has_asked, self.asks) = (true, true);
                TaskCall::Host(at)
            }
            #[cfg(all(feature = "tasks", feature = "world"))]
            Some(rank) => {
                let lane = self.lanes.get_mut(rank.0 as usize)?;
                let call = lane.submit(&mut self.kept, message.key, 0, message.is_task, deadline_us, args)?;
                crate::world::announce_call(rank);
                TaskCall::Rank(rank, call)
            }
            #[cfg(not(all(feature = "tasks", feature = "world")))]
            Some(_) => return None,
        };
        Some(call)
    }

    /// Publishes a message without a result. False: there is no room.
    #[inline(never)]
    pub(super) fn send(&mut self, message: &Message, args: &[u8]) -> bool {
        match message.target.rank() {
            None => {
                let Some(queue) = self.host.first_mut() else { return true };
                let Some(at) = queue.calls.submit(message.key, ReqHdr::ONE_WAY, Ext::default(), args) else {
                    return false;
                };
                queue.calls.forget(at);
                (self.has_asked, self.asks) = (true, true);
                self.notifies_host |= queue.needs_notify();
            }
            #[cfg(all(feature = "tasks", feature = "world"))]
            Some(rank) => {
                let Some(lane) = self.lanes.get_mut(rank.0 as usize) else { return true };
                let Some(call) = lane.submit(&mut self.kept, message.key, ReqHdr::ONE_WAY, message.is_task, 0, args)
                else {
                    return false;
                };
                lane.forget(call, &mut self.kept, true);
                crate::world::announce_call(rank);
            }
            #[cfg(not(all(feature = "tasks", feature = "world")))]
            Some(_) => {}
        }
        true
    }

    /// Frees what messages without a result had. Do all to the host have replies?
    pub(super) fn sent_are_answered(&mut self) -> bool {
        self.host.first_mut().is_none_or(|queue| queue.calls.is_quiet())
    }

    #[inline(never)]
    fn is_answered(&mut self, place: usize, call: &mut TaskCall) -> bool {
        match call {
            TaskCall::Host(at) => self.host.get(place + 1).is_some_and(|queue| queue.calls.is_answered(*at)),
            #[cfg(all(feature = "tasks", feature = "world"))]
            TaskCall::Rank(rank, call) => {
                self.lanes.get_mut(rank.0 as usize).is_some_and(|lane| lane.is_answered(call, &mut self.kept))
            }
        }
    }

    /// Does the reply come within so many looks? `None`: it is not looked for, as another task has to write it.
    #[cfg(feature = "world")]
    pub(super) fn comes_within(&mut self, place: usize, call: &mut TaskCall, looks: u32) -> Option<bool> {
        match call {
            TaskCall::Host(at) => Some(self.host.get(place + 1)?.calls.is_answered_within(*at, looks)),
            TaskCall::Rank(rank, call) if call.is_inline() => {
                Some(self.lanes.get_mut(rank.0 as usize)?.is_answered_within(call, &mut self.kept, looks))
            }
            TaskCall::Rank(..) => None,
        }
    }

    /// Is the reply there that a task waits for? Then it goes on.
    // One copy in images, which are small.
    #[cfg_attr(hamr_bare, inline(never))]
    #[cfg_attr(not(hamr_bare), inline(always))]
    pub(super) fn has_reply(&mut self, place: usize, slot: &mut TaskSlot) -> bool {
        let Wait::Reply { call, until } = &mut slot.wait else { return false };
        let Some(call) = slot.calls.get_mut(*call) else { return false };
        let there = self.is_answered(place, call);
        if there {
            *until = Wait::OVER;
        }
        there
    }

    /// What a task that goes on is told: the reply that it waits for, copied to the front of `to`, and
    /// which of its calls have replies.
    #[inline(never)]
    pub(super) fn answer(
        &mut self,
        place: usize,
        wait: Wait,
        calls: &mut TaskCalls,
        to: &mut [u8],
        (answer, marks): (&mut Answer, &mut Marks),
    ) {
        if let Wait::Reply { call, .. } = wait
            && let Some(call) = calls.take(call)
        {
            *answer = self.read(place, call, to);
        }
        for handle in handles(calls.used) {
            if calls.get_mut(handle).is_some_and(|call| self.is_answered(place, call)) {
                marks.done |= 1 << handle;
            }
        }
    }

    /// The reply to a call; of one that is not there it is the end.
    pub(super) fn read(&mut self, place: usize, call: TaskCall, to: &mut [u8]) -> Answer {
        match call {
            TaskCall::Host(at) => {
                let Some(queue) = self.host.get_mut(place + 1) else { return Answer::None };
                let answer = queue.calls.read(at, to);
                match answer {
                    Answer::None => queue.calls.close(at),
                    _ => queue.calls.release(at),
                }
                answer
            }
            #[cfg(all(feature = "tasks", feature = "world"))]
            TaskCall::Rank(rank, mut call) => {
                let Some(lane) = self.lanes.get_mut(rank.0 as usize) else { return Answer::None };
                let answer = lane.read(&mut call, &mut self.kept, to);
                if matches!(answer, Answer::None) {
                    lane.forget(call, &mut self.kept, false);
                }
                answer
            }
        }
    }

    /// No task waits for the reply to a call, which is cancelled.
    fn forget(&mut self, place: usize, call: TaskCall) {
        match call {
            TaskCall::Host(at) => {
                if let Some(queue) = self.host.get_mut(place + 1) {
                    queue.calls.close(at);
                }
            }
            #[cfg(all(feature = "tasks", feature = "world"))]
            TaskCall::Rank(rank, call) => {
                if let Some(lane) = self.lanes.get_mut(rank.0 as usize) {
                    lane.forget(call, &mut self.kept, false);
                }
            }
        }
    }

    fn cancel(&mut self, place: usize, call: TaskCall) {
        match call {
            TaskCall::Host(at) => {
                if let Some(queue) = self.host.get_mut(place + 1) {
                    queue.calls.cancel(at);
                }
            }
            #[cfg(all(feature = "tasks", feature = "world"))]
            TaskCall::Rank(rank, call) => {
                if let Some(lane) = self.lanes.get_mut(rank.0 as usize) {
                    lane.cancel(call);
                }
            }
        }
    }

    /// What a task says of its calls.
    #[inline(never)]
    fn mark(&mut self, place: usize, calls: &mut TaskCalls, marks: Marks) {
        for handle in handles(calls.used & (marks.cancelled | marks.dropped)) {
            if marks.dropped >> handle & 1 == 0 {
                if let Some(call) = calls.get_mut(handle) {
                    self.cancel(place, *call);
                }
            } else if let Some(call) = calls.take(handle) {
                self.forget(place, call);
            }
        }
    }

    /// Does what a task asked for when it suspended; a call ends after so many microseconds, 0: never. The slot says
    /// what it waits for from now on and what it is told when it goes on, each written where it is read.
    #[inline(never)]
    pub(super) fn ask(
        &mut self,
        place: usize,
        slot: &mut TaskSlot,
        (wait, marks): (Wait, Marks),
        deadline_us: u32,
        scratch: &[u8],
    ) {
        (slot.wait, slot.answer) = (wait, Answer::None);
        if marks.any() {
            self.mark(place, &mut slot.calls, marks);
        }
        let (Wait::Call { message, .. } | Wait::Post { message }) = wait else { return };
        let args = scratch.get(..usize::from(message.len)).unwrap_or_default();
        let handle = slot.calls.free();
        let Some((handle, call)) = handle.and_then(|h| Some((h, self.submit(place, &message, deadline_us, args)?)))
        else {
            (slot.wait, slot.answer) = (Wait::Turn, Answer::Full);
            return;
        };
        slot.calls.put(handle, call);
        match wait {
            Wait::Call { until, .. } => slot.wait = Wait::Reply { call: handle, until },
            _ => (slot.wait, slot.answer) = (Wait::Turn, Answer::Submitted(handle)),
        }
    }

    /// The task in this place is gone: its calls are cancelled. Must the place wait for replies of the
    /// host? A thread of the host may serve its queue for the task's caller.
    #[cfg_attr(hamr_bare, inline(never))]
    #[cfg_attr(not(hamr_bare), inline(always))]
    pub(super) fn end(&mut self, place: usize, slot: &mut TaskSlot) -> bool {
        if slot.calls.used != 0 {
            self.mark(place, &mut slot.calls, Marks { dropped: u32::MAX, ..Marks::default() });
        }
        self.drains(place)
    }

    /// Are there messages of this place's last task without replies of the host?
    pub(super) fn drains(&mut self, place: usize) -> bool {
        self.host
            .get_mut(place + 1)
            .is_some_and(|queue| queue.calls.requester.oldest().is_some() && !queue.calls.is_quiet())
    }

    /// Rule 22 of abi §12: must the host be notified of a message in some queue? Behind a full fence.
    #[inline(never)]
    pub(super) fn host_misses_a_message(&mut self) -> bool {
        self.asks = false;
        self.has_asked && self.host.iter_mut().fold(false, |misses, queue| queue.needs_notify() | misses)
    }
}
