//! Everything of this process that sleeps until one device notifies: threads that wait for a
//! result, and tasks whose `Pending` was polled (abi §7).
//!
//! They share the device's one doorbell and the host's one wait word. Of the threads, one *leads*:
//! it sleeps on the doorbell itself, so that a lone caller is woken by it and by nothing in
//! between. When the leader wakes, for whatever reason, a new *generation* begins: every waiter
//! checks for its result, and sleeps again if there is none. Where tasks wait and no thread leads,
//! the reactor does.

use crate::link::{Link, Protocol};
use crate::reactor::{self, Interest, KEEP_WATCHING, Registration};
use hamr_comm::abi::preamble::{FOR_EVER, word};
use hamr_comm::abi::split::Split;
use hamr_comm::abi::sync::Coherent;
use hamr_comm::abi::window::{KeptWord, OutOfWindow, Shared};
use hamr_comm::am::{Notifier, WaitWord, Waiter};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task;
use std::time::{Duration, Instant};

/// What is between a message and the check whether its device sleeps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fence {
    /// Nothing (rule 21): a device that is about to sleep may be missed. The host checks again
    /// before it sleeps.
    Relaxed,
    /// A fence (rule 22): the device finds what was published before, or is notified.
    Full,
}

impl Fence {
    /// For the message at position `x` of a ring, for which perhaps no thread waits: every
    /// sixteenth has the fence.
    #[inline(always)]
    pub(crate) fn of_message(x: u64) -> Self {
        if x & 15 == 15 { Self::Full } else { Self::Relaxed }
    }
}

/// The threads and tasks that wait for one device (see the module).
pub(crate) struct WaitQueue {
    /// The device sleeps until it is notified, in this epoch of it.
    uses_doorbell: AtomicBool,
    /// The link has something to be notified by. One that has not polls, and its wait word stays
    /// even.
    has_doorbell: bool,
    /// Nothing comes but in [`Link::wait`].
    is_carried: bool,
    /// The device looks once behind a fresh wait word, and polls for no time behind it (rule 23).
    looks_once: bool,
    own: KeptWord<Shared>,
    device: KeptWord<Shared>,
    notifier: Notifier,
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Leader {
    None,
    Thread,
    Reactor,
}

struct State {
    waiter: Waiter,
    /// Threads that prepare to sleep.
    threads: usize,
    /// Those of them that wait for the leader.
    followers: usize,
    tasks: Vec<Task>,
    leader: Leader,
    /// Counts wake-ups.
    generation: u64,
    /// The reactor has the tasks in its list, and checks their deadlines at this moment at the
    /// latest.
    next_check: Option<Instant>,
    /// Since when the reactor finds no task.
    idle_since: Option<Instant>,
}

struct Task {
    waker: TaskWaker,
    until: Option<Instant>,
}

/// A task's waker, which is its executor's code and may panic: also when it is dropped. The thread
/// that wakes it is the reactor, which other tasks need, or one in the middle of a call of its own.
/// So the panic ends there; the panic hook has reported it by then.
struct TaskWaker(Option<task::Waker>);

impl TaskWaker {
    fn new(waker: task::Waker) -> Self {
        Self(Some(waker))
    }

    fn is(&self, task: &task::Waker) -> bool {
        self.0.as_ref().is_some_and(|waker| waker.will_wake(task))
    }

    fn wake(mut self) {
        contain(self.0.take().map(|waker| || waker.wake()));
    }
}

impl Drop for TaskWaker {
    fn drop(&mut self) {
        contain(self.0.take().map(|waker| || drop(waker)));
    }
}

/// Runs code that is not this library's, which may panic.
pub(crate) fn contain(code: Option<impl FnOnce()>) {
    let Some(code) = code else { return };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(code)) {
        // Dropping it may panic, too.
        std::mem::forget(payload);
    }
}

impl WaitQueue {
    pub(crate) fn new(link: &dyn Link, split: Split, uses_doorbell: bool) -> Result<Self, OutOfWindow> {
        let state = State {
            waiter: Waiter::new(),
            threads: 0,
            followers: 0,
            tasks: Vec::new(),
            leader: Leader::None,
            generation: 0,
            next_check: None,
            idle_since: None,
        };
        Ok(Self {
            uses_doorbell: AtomicBool::new(uses_doorbell),
            has_doorbell: !link.descriptors().is_empty(),
            is_carried: link.capabilities().protocol.is_carried(),
            looks_once: link.capabilities().protocol == Protocol::DeviceDriven,
            own: link.window().keep_word(word::HOST_WAIT)?,
            device: link.window().keep_word(split.device_wait())?,
            notifier: Notifier::new(),
            state: Mutex::new(state),
            woken: Condvar::new(),
        })
    }

    /// Another epoch of the device begins.
    pub(crate) fn enter(&self, uses_doorbell: bool) {
        self.uses_doorbell.store(uses_doorbell, Ordering::Relaxed);
        self.notifier.enter();
    }

    /// Is the device to be notified when it sleeps?
    fn uses_doorbell(&self) -> bool {
        self.uses_doorbell.load(Ordering::Relaxed)
    }

    /// Does the device notify when this side sleeps?
    pub(crate) fn is_notified(&self) -> bool {
        self.has_doorbell && self.uses_doorbell()
    }

    /// Does a thread that waits carry what it waits for?
    pub(crate) fn is_carried(&self) -> bool {
        self.is_carried
    }

    /// Does the device need a notification? Never, when it has no doorbell.
    #[inline(always)]
    pub(crate) fn device_is_waiting(&self) -> bool {
        self.device.word().is_odd()
    }

    /// Does the device look only once behind a fresh wait word?
    pub(crate) fn looks_once(&self) -> bool {
        self.looks_once
    }

    /// Calls `notify` if the device is to be notified.
    pub(crate) fn notify(&self, fence: Fence, notify: impl FnOnce()) {
        match fence {
            Fence::Relaxed if !self.looks_once => self.notifier.notify_if_needed_relaxed(self.device.word(), notify),
            _ if self.uses_doorbell() => self.notifier.notify_if_needed::<Coherent>(self.device.word(), notify),
            _ => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // --- threads ---

    /// From now on the device notifies for what it publishes; the caller polls once more and then
    /// sleeps in this generation. The first call of a wait counts the thread in, until
    /// [`Self::cancel_wait`].
    pub(crate) fn prepare_wait(&self, first: bool) -> u64 {
        let mut state = self.state();
        state.threads += usize::from(first);
        state.waiter.prepare_wait::<Coherent>(self.own.word());
        state.generation
    }

    /// Sleeps, unless the generation is over already.
    pub(crate) fn sleep(&self, link: &dyn Link, generation: u64, limit: Option<Duration>) {
        let mut state = self.state();
        if state.generation != generation {
            return;
        }
        if state.leader == Leader::None {
            state.leader = Leader::Thread;
            drop(state);
            link.wait(limit.map_or(FOR_EVER, |d| u32::try_from(d.as_micros().max(1)).unwrap_or(FOR_EVER - 1)));
            return self.generation(Leader::None);
        }
        if state.leader == Leader::Reactor {
            link.watch();
        }
        state.followers += 1;
        let goes_on = |state: &mut State| state.generation == generation && state.leader != Leader::None;
        let mut state = match limit {
            Some(limit) => {
                self.woken.wait_timeout_while(state, limit, goes_on).unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.woken.wait_while(state, goes_on).unwrap_or_else(PoisonError::into_inner),
        };
        state.followers -= 1;
    }

    /// The doorbell rang, and a thread that does not wait for this queue has noticed. Takes the
    /// notification unless the leader does, and has every waiter check.
    pub(crate) fn take_notification(&self, link: &dyn Link) {
        let mut state = self.state();
        if state.leader == Leader::None {
            state.leader = Leader::Thread;
            drop(state);
            link.wait(1);
            self.generation(Leader::None);
        }
    }

    /// A thread that prepared to wait no longer waits.
    pub(crate) fn cancel_wait(&self) {
        let mut state = self.state();
        state.threads -= 1;
        state.cancel_if_empty(self);
    }

    /// Every waiter checks again.
    fn generation(&self, next: Leader) {
        let mut state = self.state();
        state.leader = next;
        state.generation += 1;
        let tasks = std::mem::take(&mut state.tasks);
        let followers = state.followers;
        state.cancel_if_empty(self);
        drop(state);
        if followers != 0 {
            self.woken.notify_all();
        }
        tasks.into_iter().for_each(|task| task.waker.wake());
    }

    // --- tasks ---

    /// Wakes `task` at the next wake-up, or at `until`. The caller polls once more afterwards.
    pub(crate) fn register(&self, task: &task::Waker, until: Option<Instant>, interest: Interest<'_>) {
        let mut state = self.state();
        if !state.knows(task, until) {
            // Code of its executor: cloned, and dropped where it is not needed, without the lock.
            drop(state);
            let mut other = Some(TaskWaker::new(task.clone()));
            state = self.state();
            if !state.knows(task, until)
                && let Some(waker) = other.take()
            {
                state.tasks.push(Task { waker, until });
            }
            if other.is_some() {
                drop(state);
                drop(other);
                state = self.state();
            }
        }
        state.waiter.prepare_wait::<Coherent>(self.own.word());
        let in_time = state.next_check.is_some_and(|next_check| until.is_none_or(|until| next_check <= until));
        let is_registered = in_time && state.leader != Leader::None;
        state.next_check.get_or_insert_with(Instant::now);
        drop(state);
        if !is_registered {
            reactor::register(interest);
        }
    }

    /// The reactor's check: what it has to do here until `next_deadline`. `None`: nothing, for
    /// good.
    pub(crate) fn attend(&self, next_deadline: Instant) -> Option<Registration> {
        let (mut state, now) = (self.state(), Instant::now());
        let until = if state.tasks.is_empty() {
            // A task that was woken comes back soon, if at all.
            *state.idle_since.get_or_insert(now) + KEEP_WATCHING
        } else {
            state.idle_since = None;
            state.tasks.iter().filter_map(|task| task.until).fold(next_deadline, Instant::min)
        };
        if state.idle_since.is_some() && until <= now {
            (state.next_check, state.idle_since) = (None, None);
            if state.leader == Leader::Reactor {
                state.leader = Leader::None;
                self.woken.notify_all();
            }
            return None;
        }
        if state.leader == Leader::None {
            state.leader = Leader::Reactor;
        }
        state.next_check = Some(until);
        Some(Registration { leads: state.leader == Leader::Reactor, until })
    }

    /// The reactor was woken for this device, which it leads.
    pub(crate) fn wake_from_reactor(&self) {
        self.generation(Leader::Reactor);
    }

    /// Wakes the tasks whose time is over.
    pub(crate) fn wake_expired(&self, now: Instant) {
        self.wake(self.state(), |task| task.until.is_some_and(|until| until <= now));
    }

    /// Wakes every task, because no reactor watches for them.
    pub(crate) fn wake_all(&self) {
        let mut state = self.state();
        state.next_check = None;
        self.wake(state, |_| true);
    }

    fn wake(&self, mut state: MutexGuard<'_, State>, which: impl Fn(&Task) -> bool) {
        let woken: Vec<Task> = state.tasks.extract_if(.., |task| which(task)).collect();
        state.cancel_if_empty(self);
        drop(state);
        woken.into_iter().for_each(|task| task.waker.wake());
    }
}

impl State {
    /// Does this task wait? Then also until `until`.
    fn knows(&mut self, task: &task::Waker, until: Option<Instant>) -> bool {
        let known = self.tasks.iter_mut().find(|known| known.waker.is(task));
        known.map(|known| known.until = earlier(known.until, until)).is_some()
    }

    /// When no thread and no task waits, the device need not notify.
    fn cancel_if_empty(&mut self, of: &WaitQueue) {
        if self.threads == 0 && self.tasks.is_empty() {
            self.waiter.cancel_wait(of.own.word());
        }
    }
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
