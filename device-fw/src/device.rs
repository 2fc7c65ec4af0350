//! The serve loop: one step at a time, over any board, testable on a host.

use crate::idle::IdleState;
use crate::{Board, crash};
use core::task::Waker;
use hamr_comm::abi::preamble::{feature, word};
use hamr_comm::abi::queue::QueueDescriptor;
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::split::Split;
use hamr_comm::abi::status::Status;
use hamr_comm::abi::sync::Order;
use hamr_comm::abi::window::{DeviceWindow, Window, Word};
#[cfg(feature = "tasks")]
use hamr_comm::am::Tasks;
use hamr_comm::am::{IdleStep, MAX_QUEUES, Pauses, Poller, Round, SetupError, patience};
use hamr_comm::fault::Trace;
use hamr_comm::handshake::{Accepted, DeviceHandshake, DeviceProfile, Refused};
use hamr_comm::migrate::{MAX_LONG, MAX_MESSAGE};
use hamr_comm::registry::Table;
use hamr_comm::{debug, info, warn};

/// Rounds in a row without work after which a sleeping host is notified of all replies before.
/// There are enough of them that a caller which waits for each result is not slowed by the fence.
const NO_MORE_WORK: u32 = 16;
/// Rounds without work between two steps of `alive`: a quarter of a second at most, when each of
/// them is a timed sleep.
const BEAT_MASK: u32 = 0xFF;

/// Rounds of [`Device::serving`] between two turns of other tasks.
const TURN: u32 = 64;
/// Microseconds between its turns where no notification ends them.
const IDLE_US: u32 = 500;

/// What is between a round that found nothing and the next.
enum Rest {
    /// The next round begins at once.
    None,
    /// Also, but other threads of this processor may go first.
    Poll,
    /// [`Board::idle`].
    Idle,
    /// [`Board::sleep`] of so many microseconds, and [`Device::woken`].
    Sleep(u32),
}

/// What one [`Device::poll`] came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Nothing to do. After many of these in a row, sleep.
    Idle,
    /// So many messages were served.
    Worked(u32),
    /// No host has offered a window layout yet, or the last one left.
    NoHost,
    /// The window on offer was refused; the host can read why. The device checks the next offer.
    Refused(Refused),
}

/// A device: handshake first, then calls, then the handshake again when the host leaves.
pub struct Device<'s, B: Board> {
    board: B,
    table: Table,
    state: State<'s, B::Keep, B::Order>,
    /// How long polls take.
    pauses: Pauses,
    /// Rounds in a row that found nothing.
    idle_rounds: u32,
    idle_state: IdleState,
    /// Where the crash record goes.
    crash: Option<u64>,
    /// Places for tasks, while no host is served.
    #[cfg(feature = "tasks")]
    tasks: Tasks<'s>,
    /// Bytes of a task's stack.
    #[cfg(feature = "tasks")]
    task_stack: u32,
    /// Bytes of scratch memory.
    longest_message: usize,
}

#[expect(
    clippy::large_enum_variant,
    reason = "one of them exists, in memory that is there anyway; no allocator to box it"
)]
enum State<'s, K, F> {
    Handshaking {
        window: DeviceWindow<K>,
        handshake: DeviceHandshake,
        scratch: &'s mut [u8],
    },
    Serving(Poller<'s, K, F>),
    /// Between two states; seen only if setting up a poller was abandoned.
    Lost,
}

/// Notifies a host that sleeps of the replies that it was not notified of.
#[cold]
#[inline(never)]
fn notify_of_replies<B: Board>(poller: &mut Poller<'_, B::Keep, B::Order>, board: &mut B) {
    if poller.needs_notify() {
        board.notify();
    }
}

impl<'s, B: Board> Device<'s, B> {
    /// A device with the handlers of `table` over a board. `scratch` has room for the longest arguments or
    /// result: [`MAX_MESSAGE`] bytes, or more, which hosts are told
    /// ([`feature::LONG_VALUES`]). `None` when the board has no window.
    pub fn new(mut board: B, table: Table, scratch: &'s mut [u8]) -> Option<Self> {
        let window = board.window()?;
        let longest_message = scratch.len().min(MAX_LONG);
        let state = State::Handshaking { window, handshake: DeviceHandshake::Waiting, scratch };
        let pauses = Pauses::measure(&mut || board.nanos());
        let idle_state = IdleState::without_doorbell();
        Some(Self {
            board,
            table,
            state,
            pauses,
            idle_rounds: 0,
            idle_state,
            crash: None,
            #[cfg(feature = "tasks")]
            tasks: Tasks::default(),
            #[cfg(feature = "tasks")]
            task_stack: 0,
            longest_message,
        })
    }

    /// Runs tasks in these places, each with a stack of so many bytes; before the first
    /// [`Self::poll`]. Without any, calls of tasks are refused. One thread polls a device that has
    /// tasks.
    #[cfg(feature = "tasks")]
    #[must_use]
    pub fn with_tasks(self, slots: &'s mut [hamr_comm::am::TaskSlot], stack: usize) -> Self {
        Self { tasks: Tasks::new(slots), task_stack: stack as u32, ..self }
    }

    #[cfg(feature = "tasks")]
    fn tasks_and_stack(&self) -> (u32, u32) {
        (self.tasks.len() as u32, self.task_stack)
    }

    #[cfg(not(feature = "tasks"))]
    fn tasks_and_stack(&self) -> (u32, u32) {
        (0, 0)
    }

    fn profile(&self) -> DeviceProfile {
        let doorbell = if self.board.doorbell() { feature::DOORBELL } else { 0 };
        let (tasks, task_stack) = self.tasks_and_stack();
        DeviceProfile {
            features: feature::TICKETS
                | if tasks == 0 { 0 } else { feature::TASKS | feature::HOST_CALLS }
                | feature::DEADLINES
                | feature::CONTAIN
                | feature::TWO_LINES
                | Split::FEATURE
                | hamr_comm::LAYERS
                | doorbell
                | if self.longest_message > MAX_MESSAGE { feature::LONG_VALUES } else { 0 }
                | if self.board.logs() { feature::LOGS } else { 0 }
                | if self.board.is_rank() { feature::WORLD } else { 0 }
                | if self.board.is_driver() { feature::DRIVEN } else { 0 },
            board: self.board.name(),
            memory: self.board.memory(),
            pid: self.board.pid(),
            build_id: self.board.build_id(),
            tasks,
            task_stack,
            longest_message: self.longest_message as u32,
            max_queues: MAX_QUEUES as u32,
            max_chunk: QueueDescriptor::MAX_CHUNK,
        }
    }

    /// One step: a round over all streams, or a step of the handshake. Never blocks; a handler runs
    /// inside it.
    #[inline]
    pub fn poll(&mut self) -> Progress {
        self.step(Poller::poll)
    }

    #[inline(always)]
    fn step(&mut self, round: impl FnOnce(&mut Poller<'s, B::Keep, B::Order>) -> Round) -> Progress {
        if let State::Serving(poller) = &mut self.state {
            match round(poller) {
                Round::Idle => return Progress::Idle,
                Round::Worked(n) => return Progress::Worked(n),
                #[cfg(feature = "tasks")]
                Round::TasksDue(n) => return self.run_tasks(n),
                // Also of none: the next round may begin with the tasks, and polls nothing then, so that it must not
                // be the last one before a sleep.
                Round::NeedsNotify(n) => {
                    self.board.notify();
                    return Progress::Worked(n);
                }
                // The host is gone; without tasks nothing else is left.
                _ => {}
            }
        }
        self.shake_hands()
    }

    /// Gives the tasks their slices, behind a round that served so many messages.
    #[cfg(feature = "tasks")]
    #[inline(never)]
    fn run_tasks(&mut self, served: u32) -> Progress {
        let State::Serving(poller) = &mut self.state else { return Progress::NoHost };
        let board = &mut self.board;
        match poller.run_tasks(served, &mut || board.micros()) {
            Round::Worked(n) => Progress::Worked(n),
            Round::NeedsNotify(n) => {
                self.board.notify();
                if n == 0 { Progress::Idle } else { Progress::Worked(n) }
            }
            _ => Progress::Idle,
        }
    }

    /// The handshake is stepped in place: it contains a layout, whose copies would be a tenth of
    /// this function.
    #[cold]
    fn shake_hands(&mut self) -> Progress {
        let profile = self.profile();
        self.board.set_activity(None);
        let (window, handshake) = match &mut self.state {
            State::Handshaking { window, handshake, .. } => (window, handshake),
            State::Serving(_) => {
                self.leave();
                self.board.left();
                return Progress::NoHost;
            }
            State::Lost => return Progress::NoHost,
        };
        let was_waiting = matches!(handshake, DeviceHandshake::Waiting);
        let was_refused = matches!(handshake, DeviceHandshake::Refused(..));
        handshake.step(window, self.table, &profile);
        match handshake {
            DeviceHandshake::Serving(_) => return self.begin_epoch(),
            DeviceHandshake::Refused(why, _) => {
                if !was_refused {
                    warn!(
                        "refused a window: reason {}, expected {:#x}, got {:#x}",
                        why.reason.0, why.expected, why.got
                    );
                }
                return Progress::Refused(*why);
            }
            DeviceHandshake::Accepted(a) if was_waiting => {
                debug!("accepted the offer of epoch {}: {} queue pairs", a.epoch.0, a.layout.queues());
            }
            _ => {}
        }
        Progress::NoHost
    }

    /// Sets up the poller of the epoch that the handshake has just agreed on.
    #[inline(never)]
    fn begin_epoch(&mut self) -> Progress {
        let State::Handshaking { window, handshake: DeviceHandshake::Serving(a), scratch } =
            core::mem::replace(&mut self.state, State::Lost)
        else {
            return Progress::NoHost;
        };
        match Poller::new_ordered(window, &a, self.table, scratch) {
            Ok(poller) => self.state = State::Serving(poller),
            // The window changed between the check and here: the handshake starts over.
            Err((SetupError::Layout(_) | SetupError::TooManyQueues(_), window, scratch)) => {
                self.state = State::Handshaking { window, handshake: DeviceHandshake::Waiting, scratch };
            }
        }
        let State::Serving(poller) = &mut self.state else { return Progress::NoHost };
        self.board.logs_to(log_section(poller.window(), &a));
        info!("serving {} handlers as node {}, epoch {}", self.table.len() as u32, a.node.0, a.epoch.0);
        self.idle_state = IdleState::of(a.epoch, a.features & feature::DOORBELL != 0, a.idle_policy);
        self.crash = crash::section(&a.layout);
        DeviceHandshake::announce(poller.window());
        poller.use_handoff(self.board.control_handoff());
        poller.use_pauses(self.pauses);
        poller.use_side_doorbell(self.board.side_doorbell());
        #[cfg(feature = "tasks")]
        poller.use_tasks(core::mem::take(&mut self.tasks));
        self.board.set_activity(Some(poller.activity()));
        Progress::Worked(1)
    }

    /// The epoch of a device that serves is over.
    fn leave(&mut self) {
        self.board.set_activity(None);
        self.idle_state = IdleState::without_doorbell();
        let State::Serving(mut poller) = core::mem::replace(&mut self.state, State::Lost) else { return };
        info!("the host of epoch {} left", poller.epoch().0);
        self.board.logs_to(None);
        #[cfg(feature = "tasks")]
        {
            let board = &mut self.board;
            self.tasks = poller.end_tasks(&mut || board.micros());
        }
        #[cfg(feature = "modules")]
        hamr_comm::module::unload_all();
        DeviceHandshake::leave(poller.window());
        // Of a runtime that has failed only the preamble is used.
        if poller.needs_notify_of_replies() {
            self.board.notify();
        }
        let (window, scratch) = poller.into_parts();
        self.state = State::Handshaking { window, handshake: DeviceHandshake::Waiting, scratch };
    }

    /// Serves for ever. Without work it calls [`Board::idle`] or, where the host notifies,
    /// [`Board::sleep`].
    pub fn serve(&mut self) -> ! {
        loop {
            self.round();
        }
    }

    /// [`Self::serve`] as long as `goes_on` returns true, which it is asked between two rounds.
    #[cfg(any(not(hamr_bare), feature = "driven"))]
    pub fn serve_while(&mut self, mut goes_on: impl FnMut() -> bool) {
        while goes_on() {
            self.round();
        }
    }

    #[inline(always)]
    fn round(&mut self) {
        match self.step(Poller::serve) {
            Progress::Worked(_) => self.found(),
            _ => self.rest(),
        }
    }

    #[inline(always)]
    fn found(&mut self) {
        if self.idle_rounds != 0 {
            self.idle_rounds = 0;
            self.idle_state.found(wait_word(&self.state));
        }
    }

    /// A round found nothing.
    fn rest(&mut self) {
        match self.next_rest() {
            Rest::None => {}
            // A poll of an image without a system needs no pause: its rounds are long.
            Rest::Poll if cfg!(hamr_bare) => {}
            Rest::Poll => patience::rest(),
            Rest::Idle => self.board.idle(self.idle_rounds),
            Rest::Sleep(us) => {
                self.board.sleep(us);
                self.woken();
            }
        }
    }

    /// What to do between a round that found nothing and the next.
    #[inline(always)]
    fn next_rest(&mut self) -> Rest {
        // The count continues below its largest value, so that the heartbeat continues, too.
        self.idle_rounds = self.idle_rounds.checked_add(1).unwrap_or(u32::MAX - BEAT_MASK);
        if self.idle_rounds & BEAT_MASK == 0 {
            self.beat();
        }
        let poller = match &mut self.state {
            State::Serving(poller) if self.idle_state.is_notified() => poller,
            State::Serving(poller) => {
                poller.slept();
                return Rest::Idle;
            }
            _ => return Rest::Idle,
        };
        if self.idle_rounds == NO_MORE_WORK {
            notify_of_replies(poller, &mut self.board);
        }
        if !self.idle_state.is_due(self.idle_rounds) {
            return Rest::None;
        }
        let Ok(own) = poller.window().word(poller.wait_word()) else { return Rest::None };
        match self.idle_state.next::<B::Order>(own, self.board.micros()) {
            IdleStep::Poll => return Rest::Poll,
            IdleStep::PrepareWait => {
                // A policy without polls, or a clock in large steps, comes here before `NO_MORE_WORK`.
                notify_of_replies(poller, &mut self.board);
                self.board.read_back();
                poller.recall_control();
            }
            // The host does not notify of everything: it may have closed this epoch.
            IdleStep::Sleep if poller.host_is_gone() => self.idle_state.cancel_wait(own),
            IdleStep::Sleep => match poller.longest_sleep(self.idle_state.longest_us(), self.board.micros()) {
                Some(us) => return Rest::Sleep(us),
                None => self.woken(),
            },
        }
        Rest::None
    }

    /// A sleep is over, for whatever reason.
    #[inline(always)]
    fn woken(&mut self) {
        let State::Serving(poller) = &mut self.state else { return };
        if let Ok(own) = poller.window().word(poller.wait_word()) {
            self.idle_state.cancel_wait(own);
        }
        poller.slept();
        self.beat();
    }

    /// [`Self::serve`] as a future, for a task of an executor, such as embassy's. In place of a sleep it is pending, and
    /// [`Board::wake`] wakes its task. Between messages it gives way to other tasks; a handler runs to its end.
    pub fn serving(&mut self) -> impl Future<Output = core::convert::Infallible> + use<'_, 's, B> {
        let mut sleeps = false;
        core::future::poll_fn(move |cx| {
            if core::mem::take(&mut sleeps) {
                self.woken();
            }
            sleeps = self.turn(cx.waker());
            core::task::Poll::Pending
        })
    }

    /// Some rounds; then the waker is told, or the board to tell it. Does the device sleep until then?
    fn turn(&mut self, waker: &Waker) -> bool {
        for _ in 0..TURN {
            if let Progress::Worked(_) = self.poll() {
                self.found();
                continue;
            }
            match self.next_rest() {
                Rest::None | Rest::Poll => {}
                Rest::Idle if self.idle_rounds <= TURN => {}
                Rest::Idle => {
                    self.board.wake(waker, IDLE_US);
                    return false;
                }
                Rest::Sleep(us) => {
                    self.board.wake(waker, us);
                    return true;
                }
            }
        }
        waker.wake_by_ref();
        false
    }

    /// Steps `alive` while the device serves: before, it may not write the window.
    #[cold]
    fn beat(&mut self) {
        if let State::Serving(poller) = &self.state
            && !self.board.has_heartbeat()
            && let Ok(alive) = poller.window().word(word::DEVICE_ALIVE)
        {
            alive.store(alive.load().wrapping_add(1));
        }
    }

    /// Does it serve a host?
    pub fn is_serving(&self) -> bool {
        matches!(self.state, State::Serving(_))
    }

    /// Is a handler running, or was one abandoned?
    pub fn is_running(&self) -> bool {
        matches!(&self.state, State::Serving(poller) if poller.is_running())
    }

    /// Ends the abandoned call with a fault. The caller does this before it serves again.
    #[cold]
    #[inline(never)]
    pub fn fail_current(&mut self, status: Status, text: &str, trace: &Trace) {
        if let State::Serving(poller) = &mut self.state {
            poller.fail_current(status, text, trace);
            self.notify_fenced();
        }
    }

    /// Notifies a sleeping host of something that no later round of polling would notify it of.
    #[cold]
    #[inline(never)]
    fn notify_fenced(&mut self) {
        if let State::Serving(poller) = &mut self.state
            && poller.needs_notify()
        {
            self.board.notify();
        }
    }

    /// Writes the crash record, its mark last (abi §9): why this epoch ends. The caller announces
    /// the device's state itself.
    #[cold]
    #[inline(never)]
    pub fn record_crash(&mut self, text: &str, trace: &Trace) {
        let (State::Serving(poller), Some(at)) = (&self.state, self.crash) else { return };
        crash::record(poller.window(), at, poller.epoch(), text, trace);
    }

    /// Announces that this epoch cannot continue: the device's launcher must start the device
    /// again.
    #[cold]
    #[inline(never)]
    pub fn announce_crash(&mut self) {
        if let State::Serving(poller) = &mut self.state {
            DeviceHandshake::crash(poller.window());
            if poller.needs_notify_of_replies() {
                self.board.notify();
            }
        }
    }

    /// Ends this epoch from the device's side: the host is notified, and may begin another.
    #[cold]
    #[inline(never)]
    pub fn stop(&mut self) {
        if self.is_serving() {
            self.leave();
        }
    }
}

/// The section for the image's logs, if the host wants them.
fn log_section<K: Clone>(window: &Window<K>, accepted: &Accepted) -> Option<Window<K>> {
    let wanted = accepted.features & feature::LOGS != 0;
    let section = accepted.layout.section(SectionKind::LOG).ok().filter(|_| wanted)?;
    window.part(section.off, section.len).ok()
}

/// The word in which a serving device asks to be notified.
fn wait_word<'w, K: Clone, F: Order>(state: &'w State<'_, K, F>) -> Option<Word<'w>> {
    match state {
        State::Serving(poller) => poller.window().word(poller.wait_word()).ok(),
        _ => None,
    }
}
