//! A device's places for tasks. A task has one from its first slice to its reply; calls without one
//! wait in the backlog, and have no stack yet.

use super::request::Job;
use crate::task::switch::{Coroutine, TaskStack};
use crate::task::wait::{Interrupted, Wait};
use crate::task::{Answer, Reason};
use hamr_shared_abi::status::Status;

/// Calls of one task at most.
const MAX_CALLS: usize = 8;

/// The calls of one task, by their handles.
#[derive(Clone, Copy)]
pub(crate) struct TaskCalls {
    calls: [Option<TaskCall>; MAX_CALLS],
    /// Bit h: handle h has a call.
    pub(crate) used: u32,
}

impl TaskCalls {
    pub(crate) const NONE: Self = Self { calls: [None; MAX_CALLS], used: 0 };

    pub(crate) fn get_mut(&mut self, handle: u32) -> Option<&mut TaskCall> {
        self.calls.get_mut(handle as usize)?.as_mut()
    }

    /// A handle that has no call.
    pub(crate) fn free(&self) -> Option<u32> {
        Some(self.used.trailing_ones()).filter(|handle| *handle < MAX_CALLS as u32)
    }

    pub(crate) fn put(&mut self, handle: u32, call: TaskCall) {
        if let Some(place) = self.calls.get_mut(handle as usize) {
            *place = Some(call);
            self.used |= 1 << handle;
        }
    }

    pub(crate) fn take(&mut self, handle: u32) -> Option<TaskCall> {
        self.used &= !(1 << handle);
        self.calls.get_mut(handle as usize)?.take()
    }
}

/// The handles in a set of them. A loop over bits, which no compiler unrolls: images are small.
pub(crate) fn handles(mut set: u32) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let handle = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (handle < u32::BITS).then_some(handle)
    })
}

/// A call that a task made.
#[derive(Clone, Copy)]
pub(crate) enum TaskCall {
    /// At this position of its host queue.
    Host(u64),
    #[cfg(all(feature = "tasks", feature = "world"))]
    Rank(hamr_shared_abi::ids::RankId, super::lane::LaneCall),
}

/// One place for a task, with its stack.
pub struct TaskSlot {
    pub(crate) stack: Option<TaskStack>,
    /// The call that runs here.
    pub(crate) job: Option<Job>,
    /// `None` before the first task here.
    pub(crate) coroutine: Option<Coroutine>,
    pub(crate) wait: Wait,
    pub(crate) interrupted: Option<Interrupted>,
    /// The task learned that its call was cancelled.
    pub(crate) saw_cancel: bool,
    /// The time at which its waits end, in microseconds.
    pub(crate) deadline: u64,
    /// What the task is told of its last message when it goes on.
    pub(crate) answer: Answer,
    /// The task's calls whose replies it has not read.
    pub(crate) calls: TaskCalls,
    /// No task is here, but a message of the last one to the host has no reply yet.
    pub(crate) drains: bool,
    /// What the last wait was for.
    #[cfg(all(feature = "tasks", feature = "world"))]
    pub(crate) reason: Option<Reason>,
    /// When the device first saw that wait, in microseconds; 0: it has not looked yet.
    #[cfg(all(feature = "tasks", feature = "world"))]
    pub(crate) since: u64,
    /// The line of the place shows a task (abi §12.1).
    #[cfg(all(feature = "tasks", feature = "world"))]
    pub(crate) is_shown: bool,
    #[cfg(not(any(target_os = "none", hamr_bare)))]
    bytes: usize,
}

impl TaskSlot {
    /// A place with this stack.
    #[cfg(any(target_os = "none", hamr_bare))]
    pub const fn new(stack: TaskStack) -> Self {
        Self::with(Some(stack))
    }

    /// A place whose stack of so many bytes is mapped at its first use.
    #[cfg(not(any(target_os = "none", hamr_bare)))]
    pub const fn new(bytes: usize) -> Self {
        Self::with(None, bytes)
    }

    const fn with(stack: Option<TaskStack>, #[cfg(not(any(target_os = "none", hamr_bare)))] bytes: usize) -> Self {
        Self {
            stack,
            job: None,
            coroutine: None,
            wait: Wait::Turn,
            interrupted: None,
            saw_cancel: false,
            deadline: u64::MAX,
            answer: Answer::None,
            calls: TaskCalls::NONE,
            drains: false,
            #[cfg(all(feature = "tasks", feature = "world"))]
            reason: None,
            #[cfg(all(feature = "tasks", feature = "world"))]
            since: 0,
            #[cfg(all(feature = "tasks", feature = "world"))]
            is_shown: false,
            #[cfg(not(any(target_os = "none", hamr_bare)))]
            bytes,
        }
    }

    /// Has the task here had a slice?
    #[inline(always)]
    pub(crate) fn has_begun(&self) -> bool {
        self.coroutine.as_ref().is_some_and(Coroutine::has_task)
    }

    /// Makes a coroutine for the tasks of this place. `QUEUE_FULL`: the system has no memory for its stack.
    #[cold]
    #[inline(never)]
    pub(crate) fn open(&mut self) -> Result<(), Status> {
        #[cfg(not(any(target_os = "none", hamr_bare)))]
        if self.stack.is_none() {
            self.stack = TaskStack::new(self.bytes).ok();
        }
        let stack = self.stack.take().ok_or(Status::QUEUE_FULL)?;
        self.coroutine = Some(Coroutine::new(stack));
        Ok(())
    }

    /// Does the task go on in this round?
    pub(crate) fn is_ready(&self) -> bool {
        self.job.is_some()
            && (self.interrupted.is_some()
                || matches!(self.wait, Wait::Turn | Wait::Poll | Wait::Peer(_) | Wait::Reply { until: Wait::OVER, .. }))
    }

    /// The task waits for this, or the place has another task.
    pub(crate) fn show(&mut self, reason: Option<Reason>) {
        #[cfg(all(feature = "tasks", feature = "world"))]
        {
            self.reason = reason;
            if !reason.is_some_and(|reason| reason.again) {
                self.since = 0;
            }
        }
        #[cfg(not(all(feature = "tasks", feature = "world")))]
        let _ = reason;
    }

    /// Is a task here, or does the place wait for the host's replies to the last one?
    pub(crate) fn is_used(&self) -> bool {
        self.job.is_some() || self.drains
    }

    /// A call takes the place.
    #[cfg_attr(hamr_bare, inline(never))]
    #[cfg_attr(not(hamr_bare), inline(always))]
    pub(crate) fn take(&mut self, job: Job) -> &mut Job {
        self.answer = Answer::None;
        self.show(None);
        (self.wait, self.interrupted, self.saw_cancel, self.deadline) = (Wait::Turn, None, false, u64::MAX);
        self.job.insert(job)
    }

    /// The place is free. A task that has not returned is left where it stands; on a hosted system
    /// its stack is lost with what is on it.
    #[cfg_attr(hamr_bare, inline(never))]
    #[cfg_attr(not(hamr_bare), inline(always))]
    pub(crate) fn free(&mut self) {
        #[cfg(feature = "claims")]
        crate::claims::release(core::ptr::from_ref(self).addr());
        if self.has_begun() {
            self.abandon();
        }
        self.job = None;
        self.drains = false;
    }

    #[cold]
    #[inline(never)]
    fn abandon(&mut self) {
        let Some(left) = self.coroutine.take() else { return };
        #[cfg(hamr_bare)]
        {
            self.stack = Some(left.into_stack());
        }
        #[cfg(not(hamr_bare))]
        core::mem::forget(left);
    }
}

/// The places of a device.
#[derive(Default)]
pub struct Tasks<'s> {
    pub(crate) slots: &'s mut [TaskSlot],
    /// So many of them are used.
    pub(crate) limit: usize,
    /// Places that are not free.
    pub(crate) live: u32,
    /// A task goes on in the next round.
    pub(crate) is_ready: bool,
    /// The device has slept: time has passed, calls may have been cancelled.
    pub(crate) has_slept: bool,
    /// The place whose task runs.
    pub(crate) running: Option<usize>,
    /// Bits of handlers whose last task waited. The next one's caller is told at once that the call is taken,
    /// since it may have to serve what the task calls.
    pub(crate) waiters: u64,
    /// Handlers have left messages for the host, or some have no reply yet. Counts as a place that is
    /// not free.
    pub(crate) sends: bool,
    /// A task line shows a task.
    #[cfg(all(feature = "tasks", feature = "world"))]
    pub(crate) is_shown: bool,
}

impl<'s> Tasks<'s> {
    /// Tasks with these places.
    pub fn new(slots: &'s mut [TaskSlot]) -> Self {
        Self { limit: slots.len(), slots, ..Self::default() }
    }

    /// The number of places.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Are there no places?
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// A free place, if there is one, for a call that is ready, and its number.
    #[cfg_attr(hamr_bare, inline(never))]
    #[cfg_attr(not(hamr_bare), inline(always))]
    pub(crate) fn place(&mut self) -> Option<(u32, &mut TaskSlot)> {
        let place = (0..).zip(self.slots.iter_mut().take(self.limit)).find(|(_, slot)| !slot.is_used())?;
        self.live += 1;
        self.is_ready = true;
        Some(place)
    }

    /// Places that are not free.
    pub(crate) fn used(&self) -> u32 {
        self.live - u32::from(self.sends)
    }

    /// The place is free again.
    pub(crate) fn free(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.free();
            self.live -= 1;
        }
    }

    /// The slice that ran was left for good; its place is free.
    #[cold]
    pub(crate) fn abandon_running(&mut self) -> Option<usize> {
        self.is_ready = true;
        let index = self.running.take()?;
        // Whatever its coroutine says: that was in registers of the frame that was left.
        self.slots.get_mut(index)?.abandon();
        self.free(index);
        Some(index)
    }

    /// A handler has left a message for the host.
    #[inline(never)]
    pub(crate) fn expect_messages(&mut self) {
        self.live += u32::from(!self.sends);
        (self.sends, self.is_ready) = (true, true);
    }

    /// All messages have replies.
    pub(crate) fn end_messages(&mut self) {
        self.live -= u32::from(core::mem::take(&mut self.sends));
    }

    /// All places are free; tasks in them are left where they stand.
    #[cold]
    #[inline(never)]
    pub(crate) fn clear(&mut self) {
        for slot in self.slots.iter_mut() {
            // A fault of the runtime itself may have left any of them in a slice.
            #[cfg(hamr_bare)]
            slot.abandon();
            slot.free();
            slot.calls = TaskCalls::NONE;
        }
        (self.live, self.is_ready, self.has_slept, self.running, self.sends) = (0, false, false, None, false);
    }
}
