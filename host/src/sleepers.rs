//! Everything of this process that sleeps until one device rings: threads that wait for a result, and tasks whose `Pending`
//! was polled (abi §7).
//!
//! They share the device's one doorbell and the host's one wait word. Of the threads, one *leads*: it sleeps on the bell
//! itself, so that a lone caller is woken by the ring and by nothing in between; when it wakes, whatever for, everybody has a
//! *turn*: looks, and lies down again if there was nothing. Where tasks sleep and no thread leads, the reactor does.

use crate::reactor::{self, Attention};
use hamr_comm::abi::preamble::{FOR_EVER, word};
use hamr_comm::abi::sync::Coherent;
use hamr_comm::abi::window::{KeptWord, OutOfWindow, Shared, Window};
use hamr_comm::am::{Sleeper, WaitWord, Waker};
use hamr_comm::link::Link;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task;
use std::time::{Duration, Instant};

/// See the module's head.
pub(crate) struct Sleepers {
    /// The device sleeps until it is rung, in this life of it.
    rings: AtomicBool,
    /// The link has something to be rung by. One that has not polls, and its wait word stays even.
    has_bell: bool,
    own: KeptWord<Shared>,
    device: KeptWord<Shared>,
    waker: Waker,
    state: Mutex<State>,
    turned: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Leader {
    Nobody,
    Thread,
    Reactor,
}

struct State {
    sleeper: Sleeper,
    /// Threads that lie down.
    threads: usize,
    /// Those of them that wait for the leader.
    followers: usize,
    tasks: Vec<Task>,
    leader: Leader,
    /// Counts turns.
    turn: u64,
    /// The reactor knows of the tasks, and looks after their deadlines at this moment at the latest.
    attended: Option<Instant>,
    /// The reactor found no task when it looked last.
    deserted: bool,
}

struct Task {
    waker: TaskWaker,
    until: Option<Instant>,
}

/// A task's waker, which is its executor's code and may panic: also when it is dropped. The thread that wakes it is the reactor, which
/// other tasks need, or one in the middle of a call of its own. So the panic ends there; the panic hook has reported it by then.
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
fn contain(code: Option<impl FnOnce()>) {
    let Some(code) = code else { return };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(code)) {
        // Dropping it may panic, too.
        std::mem::forget(payload);
    }
}

impl Sleepers {
    pub(crate) fn new(window: &Window<Shared>, rings: bool, has_bell: bool) -> Result<Self, OutOfWindow> {
        let state = State {
            sleeper: Sleeper::new(),
            threads: 0,
            followers: 0,
            tasks: Vec::new(),
            leader: Leader::Nobody,
            turn: 0,
            attended: None,
            deserted: false,
        };
        Ok(Self {
            rings: AtomicBool::new(rings),
            has_bell,
            own: window.keep_word(word::HOST_WAIT)?,
            device: window.keep_word(word::DEVICE_WAIT)?,
            waker: Waker::new(),
            state: Mutex::new(state),
            turned: Condvar::new(),
        })
    }

    /// Another life of the device begins.
    pub(crate) fn enter(&self, rings: bool) {
        self.rings.store(rings, Ordering::Relaxed);
        self.waker.enter();
    }

    /// Is the device to be rung when it sleeps?
    fn rings(&self) -> bool {
        self.rings.load(Ordering::Relaxed)
    }

    /// Does the device ring when this side sleeps?
    pub(crate) fn is_rung(&self) -> bool {
        self.has_bell && self.rings()
    }

    /// Does the device want to be rung? Never, where it does not ring.
    #[inline(always)]
    pub(crate) fn device_is_down(&self) -> bool {
        self.device.word().is_odd()
    }

    /// Rule 21: calls `ring` if the device is to be rung.
    pub(crate) fn glance(&self, ring: impl FnOnce()) {
        self.waker.glance_and_ring(self.device.word(), ring);
    }

    /// Rule 22, likewise.
    pub(crate) fn look(&self, ring: impl FnOnce()) {
        if self.rings() {
            self.waker.look_and_ring::<Coherent>(self.device.word(), ring);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // --- threads ---

    /// From now on the device rings for what it publishes; the caller looks once more and then sleeps in this turn. The
    /// first call of a wait counts the thread in, until [`Self::get_up`].
    pub(crate) fn lie_down(&self, first: bool) -> u64 {
        let mut state = self.state();
        state.threads += usize::from(first);
        state.sleeper.lie_down::<Coherent>(self.own.word());
        state.turn
    }

    /// Sleeps, unless the turn is over already.
    pub(crate) fn sleep(&self, link: &dyn Link, turn: u64, limit: Option<Duration>) {
        let mut state = self.state();
        if state.turn != turn {
            return;
        }
        if state.leader == Leader::Nobody {
            state.leader = Leader::Thread;
            drop(state);
            link.wait(limit.map_or(FOR_EVER, |d| u32::try_from(d.as_micros().max(1)).unwrap_or(FOR_EVER - 1)));
            return self.turn(Leader::Nobody);
        }
        state.followers += 1;
        let goes_on = |state: &mut State| state.turn == turn && state.leader != Leader::Nobody;
        let mut state = match limit {
            Some(limit) => {
                self.turned.wait_timeout_while(state, limit, goes_on).unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.turned.wait_while(state, goes_on).unwrap_or_else(PoisonError::into_inner),
        };
        state.followers -= 1;
    }

    /// A thread that lay down no longer waits.
    pub(crate) fn get_up(&self) {
        let mut state = self.state();
        state.threads -= 1;
        state.rise(self);
    }

    /// Everybody has a turn.
    fn turn(&self, next: Leader) {
        let mut state = self.state();
        state.leader = next;
        state.turn += 1;
        let tasks = std::mem::take(&mut state.tasks);
        let followers = state.followers;
        state.rise(self);
        drop(state);
        if followers != 0 {
            self.turned.notify_all();
        }
        tasks.into_iter().for_each(|task| task.waker.wake());
    }

    // --- tasks ---

    /// Wakes `task` in the next turn, or at `until`. The caller looks once more afterwards.
    pub(crate) fn register(&self, task: &task::Waker, until: Option<Instant>, attention: Attention<'_>) {
        let mut state = self.state();
        match state.tasks.iter_mut().find(|known| known.waker.is(task)) {
            Some(known) => known.until = earlier(known.until, until),
            None => state.tasks.push(Task { waker: TaskWaker::new(task.clone()), until }),
        }
        state.sleeper.lie_down::<Coherent>(self.own.word());
        let in_time = state.attended.is_some_and(|attended| until.is_none_or(|until| attended <= until));
        let is_seen = in_time && state.leader != Leader::Nobody;
        state.attended.get_or_insert_with(Instant::now);
        drop(state);
        if !is_seen {
            reactor::attend(attention);
        }
    }

    /// The reactor looks: what it has to do here until `horizon`. `None`: nothing, for good.
    pub(crate) fn attend(&self, horizon: Instant) -> Option<Duty> {
        let mut state = self.state();
        if state.tasks.is_empty() && std::mem::replace(&mut state.deserted, true) {
            state.attended = None;
            if state.leader == Leader::Reactor {
                state.leader = Leader::Nobody;
                self.turned.notify_all();
            }
            return None;
        }
        // A task that was woken comes back soon, if at all.
        state.deserted = state.tasks.is_empty();
        if state.leader == Leader::Nobody {
            state.leader = Leader::Reactor;
        }
        let until = state.tasks.iter().filter_map(|task| task.until).fold(horizon, Instant::min);
        state.attended = Some(until);
        Some(Duty { leads: state.leader == Leader::Reactor, until, deserted: state.deserted })
    }

    /// The reactor was woken for this device, which it leads.
    pub(crate) fn reactor_turn(&self) {
        self.turn(Leader::Reactor);
    }

    /// Wakes the tasks whose time is over.
    pub(crate) fn wake_late(&self, now: Instant) {
        self.wake(self.state(), |task| task.until.is_some_and(|until| until <= now));
    }

    /// Wakes every task: there is no reactor to look after them.
    pub(crate) fn wake_unattended(&self) {
        let mut state = self.state();
        state.attended = None;
        self.wake(state, |_| true);
    }

    fn wake(&self, mut state: MutexGuard<'_, State>, which: impl Fn(&Task) -> bool) {
        let woken: Vec<Task> = state.tasks.extract_if(.., |task| which(task)).collect();
        state.rise(self);
        drop(state);
        woken.into_iter().for_each(|task| task.waker.wake());
    }
}

/// What the reactor has to do for one device.
pub(crate) struct Duty {
    /// Sleep on its bell.
    pub(crate) leads: bool,
    /// Look again at this moment.
    pub(crate) until: Instant,
    /// There is no task now.
    pub(crate) deserted: bool,
}

impl State {
    /// Nobody sleeps: the device need not ring.
    fn rise(&mut self, of: &Sleepers) {
        if self.threads == 0 && self.tasks.is_empty() {
            self.sleeper.get_up(of.own.word());
        }
    }
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
