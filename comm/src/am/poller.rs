//! A device's half of every stream: finds requests, has them run and publishes the replies (abi §4,
//! §5).
//!
//! The poller decides which stream is polled next; `dispatcher` runs the calls. One call costs no
//! lock, no allocation and no clock. `setup` is how a poller begins over a window and gives it back, `endpoints` the streams,
//! `tasks` the slices of tasks, `calls` the queues in which they call others, `lanes` those in which ranks call this one.

use self::endpoints::Endpoints;
pub use self::endpoints::SetupError;
use super::dispatcher::{BATCH, Dispatcher, Endpoint, Stop, spill_state};
use super::request::ReplyMode;
use super::{Activity, ControlHandoff, Found, Notifier};
use crate::context::Effects;
use crate::fault::Trace;
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::preamble::{HostState, word};
use hamr_shared_abi::split::Split;
use hamr_shared_abi::status::Status;
use hamr_shared_abi::sync::{Coherent, Order};
use hamr_shared_abi::window::Window;

/// Queue pairs one image serves at most, the control stream included.
pub const MAX_QUEUES: usize = 97;
/// Rounds between two checks of the state words.
const STATE_CHECK_MASK: u32 = 63;
/// Nanoseconds of extra polls of one stream's hot slot between two rounds over all streams, at
/// most.
const EXTRA_NS: u32 = 200;
/// Streams that are polled between two polls of the stream served last.
const GROUP: usize = 16;
/// Calls in a row that the stream served last may make before the others are polled.
const BUDGET: u32 = 64;

/// What one round came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Round {
    /// Nothing was there.
    Idle,
    /// So many messages were served.
    Worked(u32),
    /// So many messages were served, and the host sleeps: notify it.
    NeedsNotify(u32),
    /// So many messages were served, and tasks are due: call [`Poller::run_tasks`].
    #[cfg(feature = "tasks")]
    TasksDue(u32),
    /// The host closed this epoch or began another: stop, and go through the handshake again.
    HostGone,
}

/// The state of one device in one epoch (see the module). `F` is the kind of memory that the slots
/// are in.
pub struct Poller<'s, K, F = Coherent> {
    window: Window<K>,
    endpoints: Endpoints<K, F>,
    dispatcher: Dispatcher<'s, K>,
    split: Split,
    epoch: Epoch,
    rounds: u32,
    progress: u32,
    /// The stream served last, which is polled before the others, and how many more calls in a row
    /// it may make.
    last_served: usize,
    budget: u32,
    /// Calls in a row from this stream alone, up to `extra_polls`: so many extra polls it has before
    /// each round.
    run_length: u32,
    /// Polls in [`EXTRA_NS`].
    extra_polls: u32,
    /// Notifies the host, which may sleep.
    notifier: Notifier,
    /// Messages answered since the last fence that the host was not notified of. A host that waits for
    /// something else sleeps on, however many rounds there are.
    unfenced: u32,
    handoff: Option<&'s ControlHandoff<K, F>>,
    /// The control stream is on `handoff`.
    lent: bool,
    /// The host was notified of all replies so far: the next round begins with the tasks.
    #[cfg(feature = "tasks")]
    is_due: bool,
    /// Are there lanes in which ranks call this one?
    #[cfg(all(feature = "tasks", feature = "world"))]
    has_lanes: bool,
    /// Of the ranks that announce their calls: those whose lanes may have some. `None`: each lane is
    /// looked at.
    #[cfg(all(feature = "tasks", feature = "world"))]
    callers: Option<crate::world::RankSet>,
    /// The lane that was served last, and how many times in a row, up to `extra_polls`.
    #[cfg(all(feature = "tasks", feature = "world"))]
    last_lane: usize,
    #[cfg(all(feature = "tasks", feature = "world"))]
    lane_run: u32,
    /// In which handlers call others.
    #[cfg(feature = "tasks")]
    calls: calls::Calls<K, F>,
    /// Whether replies to a task that is alone come at once.
    #[cfg(all(feature = "tasks", feature = "world"))]
    near: direct::Nearness,
    /// Calls of that task until others have a turn.
    #[cfg(all(feature = "tasks", feature = "world"))]
    calls_left: u32,
    /// Where in the window it shows what tasks wait for.
    #[cfg(all(feature = "tasks", feature = "world"))]
    task_lines: Option<u64>,
    /// Where in `outgoing` the next message to send is.
    #[cfg(feature = "tasks")]
    sent: usize,
    #[cfg(all(feature = "tasks", not(hamr_bare)))]
    outgoing: crate::outgoing::threads::Owned,
    #[cfg(feature = "side")]
    side: Option<&'static crate::side::Side>,
}

impl<'s, K: Clone, F: Order> Poller<'s, K, F> {
    /// The window without its heap.
    pub fn window(&self) -> &Window<K> {
        &self.window
    }

    /// Where in it the device's wait word is.
    #[inline(always)]
    pub fn wait_word(&self) -> u64 {
        self.split.device_wait()
    }

    /// The epoch it serves.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Serves what is there: of each open stream at most 16 messages.
    ///
    /// The stream served last is polled first: a caller that waits for each result sends its next
    /// call within nanoseconds. It may come first 64 times before the others are polled (abi §5,
    /// rule 9).
    #[inline]
    pub fn poll(&mut self) -> Round {
        match self.poll_last_served(1) {
            0 => self.poll_others(0),
            served => Round::Worked(served),
        }
    }

    /// The step of a serve loop: [`Self::poll`] as long as the stream served last has hot messages,
    /// then one of the rest.
    #[inline]
    pub fn serve(&mut self) -> Round {
        let served = self.poll_last_served(BUDGET);
        self.poll_others(served)
    }

    /// Behind so many hot messages of the stream served last.
    #[inline(always)]
    fn poll_others(&mut self, served: u32) -> Round {
        if served == 0
            && let Some(round) = self.poll_last_ring()
        {
            return round;
        }
        self.poll_all(served)
    }

    /// Serves at most so many hot messages of the stream served last, within its budget.
    #[inline(always)]
    fn poll_last_served(&mut self, at_most: u32) -> u32 {
        let is_next = self.budget != 0
            && self
                .endpoints
                .queues
                .get(self.last_served)
                .is_some_and(|last| last.blocked_by == 0 && last.responder.wait_hot(self.run_length));
        if is_next { self.serve_last(at_most) } else { 0 }
    }

    /// Serves messages in the ring of the stream served last, within its budget. `None`: there are none, or a round
    /// over all streams comes first, which looks at what tasks wait for.
    #[inline(always)]
    fn poll_last_ring(&mut self) -> Option<Round> {
        if self.run_length == 0 || self.budget == 0 {
            return None;
        }
        #[cfg(feature = "tasks")]
        if self.dispatcher.tasks.live != 0 {
            return None;
        }
        let last = self.endpoints.queues.get(self.last_served)?;
        if last.blocked_by != 0 || !last.responder.ring_is_next() {
            return None;
        }
        // Counted first, as in `serve_last`.
        let most = BATCH.min(self.budget);
        self.budget -= most;
        let here = self.poll_one(self.last_served, most);
        self.budget += most - here;
        self.count_run(here);
        #[cfg(feature = "tasks")]
        if self.dispatcher.tasks.is_ready {
            return Some(self.give_slices(here));
        }
        Some(Round::Worked(here))
    }

    /// So many messages came at once in the ring of the stream served last. The caller of one is waited for, in the
    /// ring as in the hot slot; several come faster if their lines are left to the host meanwhile.
    #[inline(always)]
    fn count_run(&mut self, here: u32) {
        self.run_length = if here == 1 { (self.run_length + 1).min(self.extra_polls) } else { 0 };
    }

    #[inline(always)]
    fn serve_last(&mut self, at_most: u32) -> u32 {
        let at_most = at_most.min(self.budget);
        let mut left = at_most;
        // Counted first: a handler that panics unwinds past the code behind it.
        self.budget -= at_most;
        spill_state(self);
        while left != 0
            && let Some(endpoint) = self.endpoints.queues.get_mut(self.last_served)
            && endpoint.blocked_by == 0
        {
            match self.dispatcher.serve_lone(endpoint, &mut left, self.run_length, self.extra_polls) {
                Stop::Idle => break,
                Stop::Other => {
                    left -= 1;
                    self.poll_one(self.last_served, 1);
                }
                Stop::Unfinished(seq, reply, effects) => {
                    let found = Found { slot: 0, seq };
                    self.dispatcher.finish(endpoint, found, ReplyMode::TWO_WAY, reply, effects);
                }
            }
        }
        self.budget += left;
        self.run_length = (self.run_length + at_most - left).min(self.extra_polls);
        at_most - left
    }

    /// A round over all streams, after so many messages of the one served last.
    fn poll_all(&mut self, first: u32) -> Round {
        #[cfg(feature = "tasks")]
        if self.is_due {
            (self.is_due, self.budget) = (false, BUDGET);
            return Round::TasksDue(first);
        }
        self.rounds = self.rounds.wrapping_add(1);
        // At intervals, however busy the streams are: the control stream, and whether the host is
        // still the same.
        if self.rounds & STATE_CHECK_MASK == 0 {
            if self.host_is_gone() {
                return Round::HostGone;
            }
            // A sleeping host is notified of these replies, too, before a task runs.
            self.unfenced += self.poll_control();
            #[cfg(feature = "side")]
            self.notify_side();
            #[cfg(all(feature = "tasks", feature = "world"))]
            self.note_no_task();
        }
        let open = self.window.word(word::OPEN_QUEUES).map_or(0, |w| w.load()) as usize;
        let mut served = first;
        let polled_first = self.budget != BUDGET;
        self.unfenced += BUDGET - self.budget - first;
        let end = open.min(self.endpoints.queues.len());
        let mut next = 1;
        while next < end {
            // This check is inline and cheap; the code that serves is long and exists once for all
            // streams.
            let skipped = self.endpoints.queues.get(next..end).map_or(0, empty_at_front);
            next += skipped;
            if next < end && skipped != GROUP {
                let here = self.poll_one(next, BATCH);
                // A stream that goes on has a message in the next round, too.
                if here == 0 || self.last_served != next {
                    if let Some(stream) = self.endpoints.queues.get_mut(next) {
                        stream.responder.remember_idle();
                    }
                    if here != 0 {
                        (self.last_served, self.run_length) = (next, 0);
                    }
                } else {
                    self.count_run(here);
                }
                served += here;
                next += 1;
            } else if next < end
                && let Some(last) = self.endpoints.queues.get(self.last_served)
                && last.responder.hot_is_next()
            {
                // A round over many streams takes longer than a call, so the stream served last is
                // polled in between. Every round still ends, because it continues where it was.
                served += self.poll_one(self.last_served, BATCH);
            }
        }
        #[cfg(all(feature = "tasks", feature = "world"))]
        if self.has_lanes {
            served += self.poll_lanes();
        }
        self.budget = BUDGET;
        #[cfg(feature = "tasks")]
        if self.tasks_are_due(served) {
            return self.give_slices(served);
        }
        if served == 0 && !polled_first {
            if !self.lent && self.endpoints.queues.first().is_some_and(|control| control.responder.has_next()) {
                served = self.poll_control();
            }
        } else {
            self.step_progress();
        }
        self.end_round(served)
    }

    /// Tasks have their slices next, after so many messages.
    #[cfg(feature = "tasks")]
    #[cfg_attr(hamr_bare, inline(never))]
    #[cfg_attr(not(hamr_bare), inline(always))]
    fn give_slices(&mut self, served: u32) -> Round {
        // A host that is seen to sleep is notified of the replies before a task that may take long, not
        // after it. There is no fence: a host that prepares to sleep meanwhile finds them in its last polls
        // (rule 23).
        let sleeps = served + self.unfenced != 0 && self.host_sleeps();
        if !sleeps && !self.work_is_before_a_call(served) {
            return Round::TasksDue(served);
        }
        self.unfenced = if sleeps { 0 } else { self.unfenced + served };
        self.step_progress();
        // The next round does not poll first: callers that sleep again and again would
        // delay the tasks for ever.
        (self.is_due, self.budget) = (true, 0);
        Round::NeedsNotify(served)
    }

    /// Rules 21 and 22 for the side that replies. The host's wait word is in the cache line that
    /// every round reads anyway, and a fence comes after sixteen replies at the latest. The host is
    /// notified of a lone reply by the round after it.
    // One copy in images, which are small; so below.
    #[cfg_attr(hamr_bare, inline(never))]
    #[cfg_attr(not(hamr_bare), inline)]
    fn end_round(&mut self, served: u32) -> Round {
        self.unfenced += served;
        if self.unfenced != 0 {
            if self.unfenced >= BATCH {
                self.unfenced = 0;
                F::full();
            }
            if self.host_sleeps() {
                self.unfenced = 0;
                return Round::NeedsNotify(served);
            }
        }
        if served == 0 { Round::Idle } else { Round::Worked(served) }
    }

    /// Rule 21: does the host sleep, as far as can be seen without a fence?
    #[inline(always)]
    fn host_sleeps(&mut self) -> bool {
        self.window.word(word::HOST_WAIT).is_ok_and(|w| self.notifier.needs_notify_relaxed(w))
    }

    /// Rule 22: does the host sleep, and must it be notified of the replies and messages so far? Called
    /// when there is no more work.
    #[cold]
    pub fn needs_notify(&mut self) -> bool {
        #[cfg(feature = "side")]
        self.notify_side();
        let of_replies = self.unfenced != 0 && self.needs_notify_of_replies();
        #[cfg(feature = "tasks")]
        return self.host_misses_a_message() | of_replies;
        #[cfg(not(feature = "tasks"))]
        of_replies
    }

    /// Rule 22 towards the program beside the host: of what handlers have published since the last fence.
    #[cfg(feature = "side")]
    #[cold]
    #[inline(never)]
    fn notify_side(&self) {
        if let Some(side) = self.side {
            side.notify_fenced();
        }
    }

    /// The same by one word of the preamble: all that a runtime which has failed may rely on.
    #[cold]
    #[inline(never)]
    pub fn needs_notify_of_replies(&mut self) -> bool {
        self.unfenced = 0;
        self.window.word(word::HOST_WAIT).is_ok_and(|w| self.notifier.needs_notify::<F>(w))
    }

    /// Serves one stream. Not inlined: the code that serves is long, and is copied only where a
    /// call would cost time.
    #[inline(never)]
    fn poll_one(&mut self, index: usize, at_most: u32) -> u32 {
        let Some(endpoint) = self.endpoints.get_mut(index) else { return 0 };
        self.dispatcher.poll_endpoint(endpoint, at_most)
    }

    /// Takes the control stream back before the stream is served again, or the device prepares to sleep.
    #[cold]
    #[inline(never)]
    pub fn recall_control(&mut self) {
        if core::mem::take(&mut self.lent)
            && let Some(handoff) = self.handoff
            && let Some(endpoint) = self.endpoints.queues.first_mut()
        {
            handoff.take(&mut endpoint.responder);
        }
    }

    #[inline(never)]
    fn poll_control(&mut self) -> u32 {
        // A handler that panicked or was ended left it on the hand-off.
        if self.lent {
            self.recall_control();
        }
        let served = self.poll_one(0, BATCH);
        if served != 0 {
            self.step_progress();
        }
        served
    }

    /// See `poller::tasks`: here are none.
    #[cfg(not(feature = "tasks"))]
    pub fn slept(&mut self) {}

    /// See `poller::tasks`: here are none.
    #[cfg(not(feature = "tasks"))]
    pub fn longest_sleep(&mut self, longest_us: u32, _now: u64) -> Option<u32> {
        Some(longest_us)
    }

    /// The host began another epoch or closed this one.
    #[cfg_attr(hamr_bare, inline(never))]
    pub fn host_is_gone(&self) -> bool {
        let load = |off| self.window.word(off).map_or(0, |w| w.load());
        load(word::EPOCH) != self.epoch.0 || load(word::HOST_STATE) == HostState::CLOSING.0
    }

    #[cfg_attr(hamr_bare, inline(never))]
    fn step_progress(&mut self) {
        self.progress = self.progress.wrapping_add(1);
        if let Ok(word) = self.window.word(word::DEVICE_PROGRESS) {
            word.store(self.progress);
        }
    }

    /// What the poller is doing, for code that interrupts it.
    pub fn activity(&self) -> &Activity {
        &self.dispatcher.activity
    }

    /// Is a call running, or was one abandoned?
    pub fn is_running(&self) -> bool {
        self.dispatcher.activity.running().is_some()
    }

    /// Ends the running call with a fault, after its handler was abandoned; later calls are served
    /// as before.
    pub fn fail_current(&mut self, status: Status, text: &str, trace: &Trace) {
        let Some((queue, found)) = self.dispatcher.activity.current() else { return };
        #[cfg(hamr_bare)]
        crate::resource::abort();
        self.dispatcher.activity.keep_count();
        #[cfg(feature = "tasks")]
        {
            if let Some(index) = self.dispatcher.tasks.abandon_running() {
                tasks::drain(&mut self.dispatcher.tasks, &mut self.calls, index);
                #[cfg(all(feature = "tasks", feature = "world"))]
                crate::world::claim::release(&mut self.dispatcher.heap.lend(), index);
            }
            // It may have left some.
            self.dispatcher.tasks.expect_messages();
        }
        let Some(endpoint) = self.endpoints.get_mut(queue) else { return };
        let reply = self.dispatcher.frame.traced_fault(status, text, trace);
        self.dispatcher.finish(endpoint, found, ReplyMode::TWO_WAY, reply, Effects::NONE);
        #[cfg(all(feature = "tasks", feature = "world"))]
        self.notify_of_replies(queue);
        self.unfenced += 1;
    }
}

/// How many of these streams, up to [`GROUP`], are before the first that may have a message. Images
/// have few streams and little memory.
#[cfg(hamr_bare)]
#[inline(always)]
fn empty_at_front<K, F: Order>(endpoints: &[Endpoint<K, F>]) -> usize {
    let mut empty = 0;
    while let Some(endpoint) = endpoints.get(empty)
        && empty < GROUP
        && !endpoint.responder.has_next()
    {
        empty += 1;
    }
    empty
}

/// The same in steps of eight, whose code has no loop.
#[cfg(not(hamr_bare))]
#[inline(always)]
fn empty_at_front<K, F: Order>(endpoints: &[Endpoint<K, F>]) -> usize {
    let may = |endpoint: &Endpoint<K, F>| endpoint.responder.may_have_next();
    let mut empty = 0;
    while let Some([a, b, c, d, e, f, g, h]) = endpoints.get(empty..empty + 8)
        && empty < GROUP
        && !(may(a) || may(b) || may(c) || may(d) || may(e) || may(f) || may(g) || may(h))
    {
        empty += 8;
    }
    while let Some(endpoint) = endpoints.get(empty)
        && empty < GROUP
        && !may(endpoint)
    {
        empty += 1;
    }
    empty
}

#[cfg(feature = "tasks")]
mod calls;
#[cfg(all(feature = "tasks", feature = "world"))]
mod direct;
mod endpoints;
#[cfg(all(feature = "tasks", feature = "world"))]
mod lanes;
mod setup;
#[cfg(all(feature = "tasks", feature = "world"))]
mod task_lines;
#[cfg(feature = "tasks")]
mod tasks;
#[cfg(all(test, not(loom)))]
mod tests;
