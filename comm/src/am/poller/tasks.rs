//! The poller's part of tasks: it gives them slices, and looks at what they wait for.

use super::super::dispatcher::{Dispatcher, Endpoint, spill_state};
use super::super::handoff::LentControl;
use super::super::long::load;
use super::super::request::{Job, ReplyMode, parts, waiter};
use super::super::{Notifier, SlotAccess, Tasks};
use super::calls::Calls;
#[cfg(feature = "world")]
use super::direct::Direct;
#[cfg(all(feature = "tasks", feature = "world"))]
use super::task_lines::hide_task;
use super::{Poller, Round, STATE_CHECK_MASK};
use crate::context::{CallState, Context, Effects};
use crate::frame::{Arguments, Frame};
use crate::handshake::Accepted;
use crate::outgoing::{self, Outgoing};
use crate::task::Slice;
use crate::task::switch::Step;
use crate::task::wait::{Interrupted, Wait};
use crate::task::{Answer, Marks};
#[cfg(all(feature = "tasks", feature = "world"))]
use crate::world;
use hamr_shared_abi::layout::LayoutError;
use hamr_shared_abi::preamble::{feature, word};
use hamr_shared_abi::slot::{Ext, INLINE_BYTES, INLINE_WORDS, ReqHdr};
use hamr_shared_abi::status::Status;
use hamr_shared_abi::sync::Order;
use hamr_shared_abi::table::{TableHeader, TableRecord};
use hamr_shared_abi::tasks::TasksLayout;
use hamr_shared_abi::window::{Heap, OutOfWindow, Payload};

/// So many times as long as the serve loop a task looks for a reply: also for one of a far host.
#[cfg(feature = "world")]
const DIRECT_LOOKS: u32 = 3;
/// Calls of a task that is alone between two rounds.
#[cfg(feature = "world")]
const CALLS: u32 = 16;
/// Rounds between two polls of the control stream while tasks have work.
const CONTROL_MASK: u32 = 15;
/// Resumes that a task has, once its epoch is over, to come to its end.
#[cfg(not(hamr_bare))]
const LAST_SLICES: usize = 64;

impl<'s, K: Clone, F: Order> Poller<'s, K, F> {
    /// Runs tasks in these places; without any, each TICKET request gets NO_TASKS.
    pub fn use_tasks(&mut self, mut tasks: Tasks<'s>) {
        // A task that can call the host has a queue for that.
        if let Some(queues) = self.calls.tasks() {
            tasks.limit = tasks.limit.min(queues);
        }
        self.dispatcher.tasks = tasks;
    }

    /// Opens the host queues, and copies what the host says of its handlers.
    #[inline(never)]
    pub(super) fn open_host_queues(&mut self, accepted: &Accepted) -> Result<(), LayoutError> {
        let Accepted { layout, epoch, features, .. } = accepted;
        outgoing::here(Outgoing::close);
        if features & feature::HOST_CALLS == 0 {
            return Ok(());
        }
        // Read again from the window, so checked again.
        let window = &self.window;
        let tasks = TasksLayout::read(layout, window)?;
        self.calls.open_host(&tasks, window, *epoch)?;
        #[cfg(all(feature = "tasks", feature = "world"))]
        {
            self.task_lines = Some(tasks.line(0));
        }
        let (table, len) = tasks.table();
        let window = window.lend();
        outgoing::here(|outgoing| {
            // Beside a deadline, so many bytes are inline.
            outgoing.open(tasks.chunk().max((INLINE_BYTES - size_of::<Ext>()) as u32));
            let header: TableHeader = window.read(table)?;
            for i in 0..u64::from(header.count) {
                let at = size_of::<TableHeader>() as u64 + i * size_of::<TableRecord>() as u64;
                // Id and signature begin a record.
                if at + size_of::<TableRecord>() as u64 > len || !outgoing.add(window.read(table + at)?) {
                    break;
                }
            }
            Ok(())
        })
        .map_err(|e: OutOfWindow| e.into())
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
        #[cfg(all(feature = "tasks", feature = "world"))]
        self.note_no_task();
    }

    /// How long the device may sleep, at most `longest_us`: until the next task goes on. `None`: a
    /// task is ready. Asked between the last polls and the sleep, at `now` microseconds.
    pub fn longest_sleep(&mut self, longest_us: u32, now: u64) -> Option<u32> {
        if self.is_due || self.calls.asks {
            // They have not looked since the device asked to be notified, or the host may sleep before a message.
            return None;
        }
        let next = self.look(now);
        // A place may have become quiet. A task that looks for something in each round is ready, too, but has
        // looked since the device asked to be notified.
        let has_begun = self.begin_backlog();
        match next.saturating_sub(now) {
            _ if has_begun => None,
            0 => None,
            us => Some(u32::try_from(us).map_or(longest_us, |us| us.min(longest_us))),
        }
    }

    /// Is a task ready, or is it time to look at what tasks wait for? Behind a round that served so many
    /// messages.
    #[inline(always)]
    pub(super) fn tasks_are_due(&mut self, served: u32) -> bool {
        let tasks = &self.dispatcher.tasks;
        if tasks.live == 0 {
            return false;
        }
        if tasks.is_ready || tasks.has_slept || self.rounds & STATE_CHECK_MASK == 0 {
            return true;
        }
        served != 0 && self.calls.asks || self.calls_are_due()
    }

    /// Is there a message that has not found room, or a reply that a task waits for?
    #[inline(always)]
    fn calls_are_due(&mut self) -> bool {
        let tasks = &self.dispatcher.tasks;
        if tasks.sends && outgoing::here(Outgoing::has_messages) {
            return true;
        }
        let mut used = tasks.used();
        for (place, slot) in self.dispatcher.tasks.slots.iter_mut().enumerate() {
            if used == 0 {
                break;
            }
            used -= u32::from(slot.is_used());
            if self.calls.has_reply(place, slot) {
                return true;
            }
        }
        false
    }

    /// Gives each task that is ready a slice, behind a round that served so many messages.
    #[inline(never)]
    pub fn run_tasks(&mut self, mut served: u32, clock: &mut dyn FnMut() -> u64) -> Round {
        if self.rounds & STATE_CHECK_MASK == 0 || self.dispatcher.tasks.has_slept {
            // Messages that the host may have missed.
            self.calls.notifies_host |= self.host_misses_a_message();
            self.look(clock());
            self.dispatcher.tasks.has_slept = false;
        }
        self.dispatcher.tasks.is_ready = false;
        self.send();
        #[cfg(feature = "world")]
        {
            self.calls_left = CALLS;
        }
        let (mut index, mut used, mut slices) = (0, self.dispatcher.tasks.used(), 0);
        while used != 0
            && let Some(slot) = self.dispatcher.tasks.slots.get_mut(index)
        {
            used -= u32::from(slot.is_used());
            if slot.is_ready() || self.calls.has_reply(index, slot) {
                if !self.lent && self.handoff.is_some() {
                    self.lend_control();
                }
                slices += u32::from(self.run_slice(index, clock));
                self.send();
                // Only with worlds: the other images are to be small.
                #[cfg(feature = "world")]
                while self.calls_left != 0 && self.reply_is_near(index) {
                    self.calls_left -= 1;
                    slices += u32::from(self.run_slice(index, clock));
                    self.send();
                }
            }
            index += 1;
        }
        if !self.dispatcher.backlog.is_empty() {
            self.begin_backlog();
        }
        #[cfg(all(feature = "tasks", feature = "world"))]
        if self.dispatcher.tasks.live == 0 && self.dispatcher.tasks.is_shown {
            // None is left to be looked at.
            self.show_tasks(0);
        }
        if self.dispatcher.tasks.is_ready {
            if self.rounds & CONTROL_MASK == 0 {
                served += self.poll_control();
            }
        } else if served + slices == 0 {
            // Behind work it stays lent, since the next task may come at once: until the next check of
            // the state words, or the device prepares to sleep.
            self.recall_control();
        }
        if self.dispatcher.tasks.live != 0 {
            // The stream served last has no call that is waited for: its caller waits for a task.
            self.run_length = 0;
        }
        self.step_progress();
        // A slice that has published no reply is nothing that a host waits for.
        let round = self.end_round(served);
        let misses = core::mem::take(&mut self.calls.notifies_host);
        match (round, served + slices) {
            (Round::NeedsNotify(_), worked) => Round::NeedsNotify(worked),
            (_, worked) if misses => Round::NeedsNotify(worked),
            (_, 0) => Round::Idle,
            (_, worked) => Round::Worked(worked),
        }
    }

    /// Must the host be notified of a call to it before other work, which may take long?
    #[inline(always)]
    pub(super) fn work_is_before_a_call(&mut self, served: u32) -> bool {
        self.calls.asks && (served != 0 || self.dispatcher.tasks.is_ready) && self.host_misses_a_message()
    }

    #[inline(never)]
    pub(super) fn host_misses_a_message(&mut self) -> bool {
        F::full();
        self.calls.host_misses_a_message()
    }

    /// Gives calls that have none yet a place. True: one got one.
    #[inline(never)]
    fn begin_backlog(&mut self) -> bool {
        let mut has_begun = false;
        let Dispatcher { backlog, tasks, .. } = &mut self.dispatcher;
        while !backlog.is_empty()
            && let Some((_, slot)) = tasks.place()
            && let Some(job) = backlog.pop_front()
        {
            slot.take(job);
            has_begun = true;
        }
        has_begun
    }

    /// Finds the tasks whose time has come, or whose call was cancelled, and places whose last calls have
    /// replies. Returns the time at which to
    /// look again, `now` when a task is ready.
    #[inline(never)]
    fn look(&mut self, now: u64) -> u64 {
        #[cfg(all(feature = "tasks", feature = "world"))]
        self.show_tasks(now);
        #[cfg(all(feature = "tasks", feature = "world"))]
        let has_lost_rank = self.has_lanes && world::has_lost_rank();
        let mut next = u64::MAX;
        let Tasks { slots, live, .. } = &mut self.dispatcher.tasks;
        for (place, slot) in slots.iter_mut().enumerate() {
            if slot.drains && !self.calls.drains(place) {
                slot.drains = false;
                *live -= 1;
            }
            let Some(job) = &slot.job else { continue };
            let Some(endpoint) = self.endpoints.get(job.queue as usize) else { continue };
            if ReqHdr(endpoint.responder.slot(job.found.slot).req_hdr()).has(ReqHdr::CANCEL) {
                slot.interrupted = Some(Interrupted::Cancelled);
            } else if slot.deadline <= now && slot.interrupted.is_none() {
                slot.interrupted = Some(Interrupted::Deadline);
            }
            #[cfg(all(feature = "tasks", feature = "world"))]
            if has_lost_rank && slot.interrupted.is_none() {
                slot.interrupted = Some(Interrupted::LostRank);
            }
            let mut until = slot.wait.until(now);
            if until <= now {
                slot.wait.end();
            }
            if slot.interrupted.is_some() {
                until = now;
            }
            next = next.min(until).min(slot.deadline);
        }
        next
    }

    /// Runs a slice of the task in this place. True: it did work, or its call has a reply.
    fn run_slice(&mut self, index: usize, clock: &mut dyn FnMut() -> u64) -> bool {
        spill_state(self);
        let dispatcher = &mut self.dispatcher;
        let Some(slot) = dispatcher.tasks.slots.get_mut(index) else { return false };
        let Some(job) = &slot.job else { return false };
        let Some(endpoint) = self.endpoints.get_mut(job.queue as usize) else { return false };
        let (found, ext, start) = (job.next_reply, job.ext(), job.start);
        let cancel = endpoint.responder.slot(job.found.slot).req_hdr_word();
        let mut short = [0; INLINE_WORDS];
        let mut args = Ok(None);
        let is_first = !slot.has_begun();
        if is_first {
            let Dispatcher { heap, frame, .. } = dispatcher;
            if ext.deadline_us & Ext::ENFORCED == 0 && ext.micros() != 0 {
                slot.deadline = clock() + u64::from(ext.micros());
            }
            args = if ReqHdr(cancel.load()).has(ReqHdr::CANCEL) {
                Err(Status::CANCELLED)
            } else if let Some((words, len)) = job.short_args() {
                short.iter_mut().zip(words).for_each(|(to, from)| *to = *from);
                Ok(Some(len))
            } else {
                long_arguments(job, endpoint, heap, frame, &mut short).map(Some)
            };
            if args.is_ok() && slot.coroutine.is_none() {
                args = slot.open().and(args);
            }
        }
        let (mut effects, mut reason) = (Effects::NONE, None);
        #[cfg(feature = "claims")]
        let slot_at = core::ptr::from_ref(slot).addr();
        let mut marks = Marks::default();
        let step = match (args, &mut slot.coroutine) {
            (Ok(args), Some(coroutine)) => {
                let Some(coroutine) = coroutine.here() else { return false };
                let mut told = core::mem::replace(&mut slot.answer, Answer::None);
                if slot.calls.used != 0 {
                    let scratch = &mut *dispatcher.frame.scratch;
                    self.calls.answer(index, slot.wait, &mut slot.calls, scratch, (&mut told, &mut marks));
                }
                spill_state(&mut self.calls);
                spill_state(&mut (&mut slot.answer, &mut slot.calls));
                let state = CallState::new(dispatcher.node, ext.micros());
                #[cfg(feature = "claims")]
                let state = state.in_place(index);
                // One that is alone, and goes on behind a call, makes the next ones itself. A host serves them: it knows the
                // task's place by then.
                #[cfg(feature = "world")]
                let is_alone = cfg!(not(hamr_bare))
                    && matches!(slot.wait, Wait::Reply { .. })
                    && dispatcher.tasks.live == 1
                    && slot.deadline == u64::MAX;
                #[cfg(feature = "world")]
                let mut direct = is_alone.then(|| Direct {
                    calls: &mut self.calls,
                    own: &mut slot.calls,
                    near: &mut self.near,
                    place: index,
                    looks: DIRECT_LOOKS * self.extra_polls,
                    left: &mut self.calls_left,
                    activity: &dispatcher.activity,
                    running: (endpoint.queue, found),
                });
                let mut slice = Slice {
                    cx: Context::of_call(dispatcher.heap.lend(), cancel, state),
                    frame: Frame::new(dispatcher.frame.scratch),
                    args: args.map(|len| Arguments::new(Payload::private(&mut short, len))),
                    start,
                    clock,
                    interrupted: slot.interrupted,
                    answer: told,
                    marks,
                    #[cfg(feature = "claims")]
                    place: index,
                    #[cfg(feature = "claims")]
                    slot: slot_at,
                    #[cfg(all(feature = "tasks", feature = "world"))]
                    looks: self.extra_polls,
                    #[cfg(all(feature = "tasks", feature = "world"))]
                    direct: direct.as_mut().map(|direct| direct as _),
                    reason: None,
                };
                dispatcher.tasks.running = Some(index);
                dispatcher.activity.limit(if ext.deadline_us & Ext::ENFORCED != 0 { ext.micros() } else { 0 });
                spill_state(&mut dispatcher.tasks.running);
                dispatcher.activity.begin(endpoint.queue, found);
                let step = coroutine.resume(&mut slice);
                effects = slice.cx.effects();
                slot.saw_cancel |= effects.saw_cancel() || slice.interrupted == Some(Interrupted::Cancelled);
                if let Step::Returned(reply) = &step
                    && !reply.is_short()
                {
                    dispatcher.frame.words = slice.frame.words;
                }
                marks = slice.marks;
                reason = slice.reason;
                step
            }
            (args, _) => Step::Returned(dispatcher.frame.status(args.err().unwrap_or(Status::QUEUE_FULL))),
        };
        match step {
            Step::Waits(wait) => {
                dispatcher.activity.end();
                dispatcher.activity.limit(0);
                dispatcher.tasks.running = None;
                if is_first && let Some(job) = &mut slot.job {
                    self.unfenced += 1;
                    endpoint.say_taken(job, index as u32);
                    dispatcher.tasks.waiters |= waiter(job.hdr.key());
                }
                let is_message = wait.is_message();
                if is_message || marks.any() {
                    let until = wait.limit().min(slot.deadline);
                    // Zero, so none, of one that is too far away, as NEVER is: this side ends the call itself.
                    let left = Ext::deadline(until.saturating_sub(clock()).max(1));
                    let scratch = &*dispatcher.frame.scratch;
                    self.calls.ask(index, slot, (wait, marks), left, scratch);
                } else {
                    // The last answer was taken.
                    slot.wait = wait;
                }
                #[cfg(all(feature = "tasks", feature = "world"))]
                let is_other = reason.is_some_and(|reason| !reason.again);
                #[cfg(not(all(feature = "tasks", feature = "world")))]
                let is_other = false;
                slot.show(reason);
                // It did work, unless it only looked whether it may go on.
                let worked = is_other || is_message || matches!(wait, Wait::Turn);
                dispatcher.tasks.is_ready |= slot.is_ready();
                if effects.sent() {
                    dispatcher.tasks.expect_messages();
                }
                #[cfg(feature = "world")]
                if is_first {
                    let queue = endpoint.queue as usize;
                    self.notify_of_replies(queue);
                }
                worked
            }
            Step::Returned(mut reply) => {
                dispatcher.activity.end();
                dispatcher.tasks.running = None;
                if is_first && let Some(job) = &slot.job {
                    dispatcher.tasks.waiters &= !waiter(job.hdr.key());
                }
                let (why, cancelled) = (slot.interrupted, slot.saw_cancel);
                #[cfg(all(feature = "tasks", feature = "world"))]
                let endpoint_index = endpoint.queue as usize;
                let reply_mode = slot.job.as_ref().map_or(ReplyMode::TWO_WAY, Job::reply_mode);
                if reply.hdr().status() == Status::INTERRUPTED
                    && let Some(why) = why
                {
                    // It ended because its call did.
                    let cancelled = why == Interrupted::Cancelled;
                    reply = dispatcher.frame.status(if cancelled { Status::CANCELLED } else { Status::DEADLINE });
                }
                // The launcher has ended the call of one that lost a rank, and says why.
                let has_reply = cfg!(not(feature = "world")) || why != Some(Interrupted::LostRank);
                if has_reply {
                    self.unfenced += 1;
                    #[cfg(all(feature = "tasks", feature = "world"))]
                    hide_task(&self.window, self.task_lines, index, slot);
                    let sent = if effects.sent() { effects } else { Effects::cancelled_if(cancelled) };
                    dispatcher.finish_task(endpoint, found, reply_mode, reply, sent);
                }
                dispatcher.tasks.free(index);
                #[cfg(feature = "world")]
                crate::world::claim::release(&mut dispatcher.heap.lend(), index);
                drain(&mut dispatcher.tasks, &mut self.calls, index);
                #[cfg(all(feature = "tasks", feature = "world"))]
                if has_reply {
                    self.notify_of_replies(endpoint_index);
                }
                true
            }
            // The serve loop catches it as an inline handler's, and ends the running call.
            #[cfg(not(hamr_bare))]
            Step::Panicked(payload) => {
                dispatcher.tasks.running = None;
                dispatcher.tasks.free(index);
                #[cfg(feature = "world")]
                crate::world::claim::release(&mut dispatcher.heap.lend(), index);
                drain(&mut dispatcher.tasks, &mut self.calls, index);
                std::panic::resume_unwind(payload);
            }
        }
    }

    /// Sends what handlers have left for the host, as far as there is room.
    #[inline(always)]
    fn send(&mut self) {
        if self.dispatcher.tasks.sends {
            self.send_messages();
        }
    }

    #[inline(never)]
    fn send_messages(&mut self) {
        let Dispatcher { tasks, frame, .. } = &mut self.dispatcher;
        let Some(bytes) = frame.scratch.first_chunk_mut() else { return };
        outgoing::here(|outgoing| {
            let mut is_quiet = self.calls.sent_are_answered();
            while let Some((message, next)) = outgoing.message(self.sent, bytes) {
                if !self.calls.send(&message, bytes.get(..usize::from(message.len)).unwrap_or_default()) {
                    return;
                }
                (self.sent, is_quiet) = (next, false);
            }
            outgoing.sent();
            self.sent = 0;
            if is_quiet {
                tasks.end_messages();
            }
        });
    }

    /// Unwinds the task in this place, so that what is on its stack is dropped.
    #[cfg(not(hamr_bare))]
    fn unwind(&mut self, index: usize, clock: &mut dyn FnMut() -> u64) {
        let dispatcher = &mut self.dispatcher;
        let Some(slot) = dispatcher.tasks.slots.get_mut(index) else { return };
        #[cfg(feature = "claims")]
        let slot_at = core::ptr::from_ref(slot).addr();
        let Some(start) = slot.job.as_ref().map(|job| job.start).filter(|_| slot.has_begun()) else { return };
        let Some(coroutine) = &mut slot.coroutine else { return };
        for _ in 0..LAST_SLICES {
            let Some(coroutine) = coroutine.here() else { return };
            let cx = Context::new(dispatcher.heap.lend(), dispatcher.node);
            // What it has claimed is no obstacle to it.
            #[cfg(feature = "claims")]
            let cx = cx.in_place(index);
            let mut slice = Slice {
                cx,
                frame: Frame::new(dispatcher.frame.scratch),
                args: None,
                start,
                clock,
                interrupted: Some(Interrupted::Ended),
                answer: Answer::None,
                marks: Marks::default(),
                #[cfg(feature = "claims")]
                place: index,
                #[cfg(feature = "claims")]
                slot: slot_at,
                #[cfg(all(feature = "tasks", feature = "world"))]
                looks: 0,
                #[cfg(all(feature = "tasks", feature = "world"))]
                direct: None,
                reason: None,
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
        let Some(endpoint) = self.endpoints.queues.first().filter(|endpoint| endpoint.blocked_by == 0) else { return };
        let Ok(host) = self.window.keep_word(word::HOST_WAIT) else { return };
        handoff.put(|| LentControl {
            responder: endpoint.responder.clone(),
            table: self.dispatcher.table,
            host,
            notifier: Notifier::new(),
        });
        self.lent = true;
        spill_state(self);
    }
}

/// Brings arguments that lie elsewhere to `short`, or to scratch memory if they are longer. Returns their
/// length.
#[cold]
#[inline(never)]
fn long_arguments<K, F: Order>(
    job: &Job,
    endpoint: &Endpoint<K, F>,
    heap: &Heap<K>,
    frame: &mut Frame<'_>,
    short: &mut [u64; INLINE_WORDS],
) -> Result<usize, Status> {
    // They had no fault when the call was taken.
    let args = parts(job.hdr, &job.words)?.args;
    let (slots, words) = (endpoint.responder.slots(), (&job.words, args));
    load(Some(heap), frame.scratch, slots, job.found.slot, words, short)
}

/// The task in this place is gone: its calls are cancelled, and the place is free when the host has
/// replied to all.
pub(super) fn drain<K, F: Order>(tasks: &mut Tasks<'_>, calls: &mut Calls<K, F>, index: usize) {
    if let Some(slot) = tasks.slots.get_mut(index) {
        slot.drains = calls.end(index, slot);
        tasks.live += u32::from(slot.drains);
    }
}
