//! The poller's part of tasks: it gives them slices, and looks at what they wait for.

use super::super::dispatcher::{Endpoint, spill_state};
use super::super::handoff::LentControl;
use super::super::request::Job;
use super::super::{Notifier, SlotAccess, TaskSlot, Tasks};
use super::{Poller, Round, STATE_CHECK_MASK};
use crate::context::{CallState, Context};
use crate::frame::{Arguments, Frame};
use crate::task::Slice;
use crate::task::switch::Step;
use crate::task::wait::{Interrupted, Wait};
use hamr_shared_abi::preamble::word;
use hamr_shared_abi::slot::{Ext, INLINE_WORDS, ReqHdr};
use hamr_shared_abi::status::Status;
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::window::Payload;

/// Rounds between two polls of the control stream while tasks have work.
const CONTROL_MASK: u32 = 15;
/// Microseconds between two looks at what a task polls.
const LONGEST_NAP: u64 = 1000;
/// Resumes that a task has, once its epoch is over, to come to its end.
#[cfg(not(hamr_bare))]
const LAST_SLICES: usize = 64;

impl<'s, K: Clone, F: Order> Poller<'s, K, F> {
    /// Runs tasks in these places; without any, each TICKET request gets NO_TASKS.
    pub fn use_tasks(&mut self, mut tasks: Tasks<'s>) {
        tasks.clear();
        self.dispatcher.tasks = tasks;
    }

    /// Ends the tasks, which no reply will come from, and gives their places back.
    pub fn end_tasks(&mut self, clock: &mut dyn FnMut() -> u64) -> Tasks<'s> {
        #[cfg(not(hamr_bare))]
        for index in 0..self.dispatcher.tasks.len() {
            self.unwind(index, clock);
        }
        #[cfg(hamr_bare)]
        let _ = clock;
        self.dispatcher.backlog.clear();
        let mut tasks = core::mem::take(&mut self.dispatcher.tasks);
        tasks.clear();
        tasks
    }

    /// The device sleeps, or may have: in the next round it looks at what tasks wait for.
    pub fn slept(&mut self) {
        self.dispatcher.tasks.has_slept = true;
    }

    /// How long the device may sleep, at most `longest_us`: until the next task goes on. `None`: a
    /// task is ready. Asked between the last polls and the sleep, at `now` microseconds.
    pub fn longest_sleep(&self, longest_us: u32, now: u64) -> Option<u32> {
        if self.is_due {
            // They have not looked since the device asked to be notified.
            return None;
        }
        let wake = |slot: &TaskSlot| {
            let job = slot.job.as_ref()?;
            let until = match slot.wait {
                _ if slot.interrupted.is_some() || self.is_cancelled(job) => now,
                Wait::Turn => now,
                Wait::Poll => now + LONGEST_NAP,
                Wait::Peer(until) | Wait::Time(until) => until,
            };
            Some(until.min(slot.deadline).saturating_sub(now))
        };
        match self.dispatcher.tasks.slots.iter().filter_map(wake).min() {
            None => Some(longest_us),
            Some(0) => None,
            Some(us) => Some(u32::try_from(us).map_or(longest_us, |us| us.min(longest_us))),
        }
    }

    fn is_cancelled(&self, job: &Job) -> bool {
        let slot = |endpoint: &Endpoint<K, F>| ReqHdr(endpoint.responder.slot(job.found.slot).req_hdr());
        self.endpoints.get(job.queue as usize).is_some_and(|endpoint| slot(endpoint).has(ReqHdr::CANCEL))
    }

    /// Is a task ready, or is it time to look at what tasks wait for?
    #[inline(always)]
    pub(super) fn tasks_are_due(&self) -> bool {
        let tasks = &self.dispatcher.tasks;
        tasks.live != 0 && (tasks.is_ready || tasks.has_slept || self.rounds & STATE_CHECK_MASK == 0)
    }

    /// Gives each task that is ready a slice, behind a round that served so many messages.
    #[inline(never)]
    pub fn run_tasks(&mut self, mut served: u32, clock: &mut dyn FnMut() -> u64) -> Round {
        if self.rounds & STATE_CHECK_MASK == 0 || self.dispatcher.tasks.has_slept {
            let now = clock();
            self.look(now);
            self.dispatcher.tasks.has_slept = false;
        }
        self.dispatcher.tasks.is_ready = false;
        for index in 0..self.dispatcher.tasks.len() {
            let is_ready = self.dispatcher.tasks.slots.get(index).is_some_and(TaskSlot::is_ready);
            if is_ready {
                if !self.lent {
                    self.lend_control();
                }
                served += u32::from(self.run_slice(index, clock));
            }
        }
        while (self.dispatcher.tasks.live as usize) < self.dispatcher.tasks.len()
            && let Some(job) = self.dispatcher.backlog.pop_front()
        {
            // A place is free, as the number of those taken says.
            self.dispatcher.tasks.take(&job);
        }
        if !self.dispatcher.tasks.is_ready {
            self.recall_control();
        } else if self.rounds & CONTROL_MASK == 0 {
            served += self.poll_control();
        }
        self.step_progress();
        self.end_round(served)
    }

    /// Finds the tasks whose time has come, or whose call was cancelled.
    fn look(&mut self, now: u64) {
        for index in 0..self.dispatcher.tasks.len() {
            let job = self.dispatcher.tasks.slots.get(index).and_then(|slot| slot.job.as_ref());
            let Some(is_cancelled) = job.map(|job| self.is_cancelled(job)) else { continue };
            let Some(slot) = self.dispatcher.tasks.slots.get_mut(index) else { continue };
            if is_cancelled {
                slot.interrupted = Some(Interrupted::Cancelled);
            } else if slot.deadline <= now && slot.interrupted.is_none() {
                slot.interrupted = Some(Interrupted::Deadline);
            }
            if matches!(slot.wait, Wait::Time(until) if until <= now) {
                slot.wait = Wait::Turn;
            }
        }
    }

    /// Runs a slice of the task in this place. True: it did work, or its call has a reply.
    fn run_slice(&mut self, index: usize, clock: &mut dyn FnMut() -> u64) -> bool {
        let Some(slot) = self.dispatcher.tasks.slots.get_mut(index) else { return false };
        let Some(job) = &slot.job else { return false };
        let Some(endpoint) = self.endpoints.get_mut(job.queue as usize) else { return false };
        let (found, hdr, reply_mode, ext) = (job.found, job.hdr, job.reply_mode, job.ext);
        let (kind, words) = (job.args, job.words);
        let mut short = [0; INLINE_WORDS];
        let mut args = None;
        if slot.coroutine.is_none() {
            // Checked when it was taken; the table does not change.
            let Some(entry) = self.dispatcher.table.get(usize::from(hdr.key().0)) else { return false };
            if ext.deadline_us & Ext::ENFORCED == 0 && ext.micros() != 0 {
                slot.deadline = clock() + u64::from(ext.micros());
            }
            let hdr = ReqHdr(endpoint.responder.slot(found.slot).req_hdr());
            let stack = if hdr.has(ReqHdr::CANCEL) {
                Err(Status::CANCELLED)
            } else {
                slot.take_stack().ok_or(Status::QUEUE_FULL)
            };
            self.dispatcher.frame.words = words;
            let begun = stack.and_then(|stack| {
                let len = self.dispatcher.load(endpoint, found.slot, kind, &mut short);
                self.dispatcher.tasks.begin(index, stack, len.is_ok().then_some(entry.start));
                len
            });
            match begun {
                Ok(len) => args = Some(len),
                Err(status) => {
                    let reply = self.dispatcher.frame.status(status);
                    self.dispatcher.tasks.free(index);
                    self.dispatcher.finish(endpoint, found, reply_mode, reply, false);
                    return true;
                }
            }
        }
        let dispatcher = &mut self.dispatcher;
        let Some(slot) = dispatcher.tasks.slots.get_mut(index) else { return false };
        let Some(coroutine) = slot.coroutine.as_mut().filter(|coroutine| coroutine.is_here()) else { return false };
        let cancel = endpoint.responder.slot(found.slot).req_hdr_word();
        let mut slice = Slice {
            cx: Context::of_call(dispatcher.heap.lend(), cancel, CallState::new(dispatcher.node, ext.micros())),
            frame: Frame::new(dispatcher.frame.scratch),
            args: args.map(|len| Arguments::new(Payload::private(&mut short, len))),
            clock,
            interrupted: slot.interrupted,
        };
        dispatcher.tasks.running = Some(index);
        dispatcher.activity.limit(if ext.deadline_us & Ext::ENFORCED != 0 { ext.micros() } else { 0 });
        spill_state(&mut dispatcher.tasks.running);
        dispatcher.activity.begin(endpoint.queue, found);
        let step = coroutine.resume(&mut slice);
        slot.saw_cancel |= slice.cx.saw_cancel() || slice.interrupted == Some(Interrupted::Cancelled);
        let cancelled = slot.saw_cancel;
        let words = slice.frame.words;
        dispatcher.tasks.running = None;
        match step {
            Step::Waits(wait) => {
                slot.wait = wait;
                dispatcher.activity.end();
                dispatcher.activity.limit(0);
                dispatcher.tasks.is_ready |= !matches!(wait, Wait::Time(_));
                wait == Wait::Turn
            }
            Step::Returned(mut reply) => {
                dispatcher.frame.words = words;
                if reply.hdr().status() == Status::INTERRUPTED
                    && let Some(why) = slot.interrupted
                {
                    // It ended because its call did.
                    let cancelled = why == Interrupted::Cancelled;
                    reply = dispatcher.frame.status(if cancelled { Status::CANCELLED } else { Status::DEADLINE });
                }
                dispatcher.tasks.free(index);
                dispatcher.finish(endpoint, found, reply_mode, reply, cancelled);
                true
            }
            // The serve loop catches it as an inline handler's, and ends the running call.
            #[cfg(not(hamr_bare))]
            Step::Panicked(payload) => {
                dispatcher.tasks.free(index);
                std::panic::resume_unwind(payload);
            }
        }
    }

    /// Unwinds the task in this place, so that what is on its stack is dropped.
    #[cfg(not(hamr_bare))]
    fn unwind(&mut self, index: usize, clock: &mut dyn FnMut() -> u64) {
        let dispatcher = &mut self.dispatcher;
        let Some(slot) = dispatcher.tasks.slots.get_mut(index) else { return };
        let Some(coroutine) = slot.coroutine.as_mut().filter(|coroutine| coroutine.is_here()) else { return };
        for _ in 0..LAST_SLICES {
            let mut slice = Slice {
                cx: Context::new(dispatcher.heap.lend(), dispatcher.node),
                frame: Frame::new(dispatcher.frame.scratch),
                args: None,
                clock,
                interrupted: Some(Interrupted::Ended),
            };
            match coroutine.resume(&mut slice) {
                Step::Waits(_) => {}
                Step::Returned(_) => return,
                Step::Panicked(payload) => return crate::fault::discard(payload),
            }
        }
    }

    /// Lends the control stream before tasks run.
    #[cold]
    #[inline(never)]
    fn lend_control(&mut self) {
        let Some(handoff) = self.handoff else { return };
        // A control message behind a task of the control stream keeps waiting.
        let Some(endpoint) = self.endpoints.first().filter(|endpoint| !endpoint.blocked) else { return };
        let Ok(host) = self.window.keep_word(word::HOST_WAIT) else { return };
        let responder = endpoint.responder.clone();
        handoff.put(LentControl { responder, table: self.dispatcher.table, host, notifier: Notifier::new() });
        self.lent = true;
        spill_state(self);
    }
}
