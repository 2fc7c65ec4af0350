//! A device's places for tasks. A task has one from its first slice to its reply; calls without one
//! wait in the backlog, and have no stack yet.

use super::switch::{Coroutine, TaskStack};
use super::wait::{Interrupted, Wait};
use crate::am::Job;
use crate::handler::TaskThunk;

/// One place for a task, with its stack.
pub struct TaskSlot {
    pub(crate) stack: Option<TaskStack>,
    /// The call that runs here.
    pub(crate) job: Option<Job>,
    /// `None` before the first slice.
    pub(crate) coroutine: Option<Coroutine>,
    pub(crate) wait: Wait,
    pub(crate) interrupted: Option<Interrupted>,
    /// The task learned that its call was cancelled.
    pub(crate) saw_cancel: bool,
    /// The time at which its waits end, in microseconds.
    pub(crate) deadline: u64,
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
            #[cfg(not(any(target_os = "none", hamr_bare)))]
            bytes,
        }
    }

    /// Its stack, for a new task. `None`: the system has no memory for one.
    pub(crate) fn take_stack(&mut self) -> Option<TaskStack> {
        #[cfg(not(any(target_os = "none", hamr_bare)))]
        if self.stack.is_none() {
            self.stack = TaskStack::new(self.bytes).ok();
        }
        self.stack.take()
    }

    /// Does the task go on in this round?
    pub(crate) fn is_ready(&self) -> bool {
        self.job.is_some() && (self.interrupted.is_some() || !matches!(self.wait, Wait::Time(_)))
    }

    /// A call takes the place.
    pub(crate) fn take(&mut self, job: Job) {
        self.job = Some(job);
        (self.wait, self.interrupted, self.saw_cancel, self.deadline) = (Wait::Turn, None, false, u64::MAX);
    }

    /// The task has returned: the place is free, its call is the result.
    pub(crate) fn free(&mut self) -> Option<Job> {
        if let Some(coroutine) = self.coroutine.take() {
            self.stack = coroutine.into_stack();
        }
        self.job.take()
    }

    /// The task was left where it stood, or has not begun. On a hosted system its stack is lost with
    /// what is on it.
    pub(crate) fn abandon(&mut self) {
        if let Some(coroutine) = self.coroutine.take() {
            #[cfg(hamr_bare)]
            {
                self.stack = coroutine.abandon();
            }
            #[cfg(not(hamr_bare))]
            {
                self.stack = coroutine.into_stack();
            }
        }
        self.job = None;
    }
}

/// The places of a device.
#[derive(Default)]
pub struct Tasks<'s> {
    pub(crate) slots: &'s mut [TaskSlot],
    /// Places that are taken.
    pub(crate) live: u32,
    /// A task goes on in the next round.
    pub(crate) is_ready: bool,
    /// The device has slept: time has passed, calls may have been cancelled.
    pub(crate) has_slept: bool,
    /// The place whose task runs.
    pub(crate) running: Option<usize>,
}

impl<'s> Tasks<'s> {
    /// Tasks with these places.
    pub fn new(slots: &'s mut [TaskSlot]) -> Self {
        Self { slots, ..Self::default() }
    }

    /// The number of places.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Are there no places?
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Gives the call a free place; the place's number, if there was one.
    pub(crate) fn take(&mut self, job: &Job) -> Option<u32> {
        let index = self.slots.iter().position(|slot| slot.job.is_none())?;
        self.slots.get_mut(index)?.take(job.clone());
        self.live += 1;
        self.is_ready = true;
        Some(index as u32)
    }

    /// A task begins in this place, on the stack that was taken from it; without a task, the stack
    /// goes back.
    pub(crate) fn begin(&mut self, index: usize, stack: TaskStack, task: Option<TaskThunk>) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        match task {
            Some(start) => slot.coroutine = Some(Coroutine::new(stack, start)),
            None => slot.stack = Some(stack),
        }
    }

    /// The place of a task that has returned or panicked is free again.
    pub(crate) fn free(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.free();
            self.live -= 1;
        }
    }

    /// The slice that ran was left for good.
    #[cold]
    pub(crate) fn abandon_running(&mut self) {
        if let Some(slot) = self.running.take().and_then(|index| self.slots.get_mut(index)) {
            slot.abandon();
            self.live -= 1;
        }
        self.is_ready = true;
    }

    /// All places are free; tasks in them are left where they stand.
    pub(crate) fn clear(&mut self) {
        self.slots.iter_mut().for_each(TaskSlot::abandon);
        (self.live, self.is_ready, self.has_slept, self.running) = (0, false, false, None);
    }

    /// The calls that have places.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.slots.iter().filter_map(|slot| slot.job.as_ref())
    }
}
