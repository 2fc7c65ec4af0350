//! A device in this program, for tests.

#![expect(unsafe_code)]
// UNSAFETY: both ends of one memory are in this program, where the host's copies could meet a
// handler's views.
//
// Contract "both ends in one program". On `loopback` a host's copy that meets a handler's view would
// be undefined behaviour from safe code.
// - The device runs inside the host's waits; transfers by that thread then are refused as busy
//   (`CopyGate`). A body copies while no handler runs (`CopyGate::alone`), and takes that gate before
//   any other lock.
// - The host's records refuse another thread's transfer into a buffer that the running call *names*.
//   Accepted, undefined by the letter and garbled values in effect: a copy into a viewed buffer that
//   the handler got otherwise (as numbers, through a static), and a store to its words.
// - `Link::window` ends where the heap begins, and the device takes no layout with a heap that begins
//   before; of the heap there are `Copies` only, which ask the gate.
// - A long message of a handler's thread, for another stream of its own device, is copied by a thread
//   of its own (`apart` in `host/src/memory/transfers.rs`).
// - Other links over `Window::private_pair`, which is unsafe, run device and host in one thread, or
//   copy nothing while a handler runs.

use super::{Capabilities, Heap, Link, Peer};
use hamr_comm::abi::preamble::feature;
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{CopyGate, DeviceWindow, OutOfWindow, Shared, Window};
use hamr_comm::am::{MAX_QUEUES, Poller, Round, TaskSlot, Tasks, as_another};
use hamr_comm::fault::{Trace, discard};
use hamr_comm::handshake::{DeviceHandshake, DeviceProfile};
use hamr_comm::migrate::MAX_MESSAGE;
use hamr_comm::registry::Table;
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// One process: the device is polled by the thread that waits.
pub struct Loopback {
    /// Up to the heap.
    window: Window<Shared>,
    /// All of the memory, for copies only, which ask the runner.
    whole: Window<Shared>,
    device: Mutex<LoopbackDevice>,
    runner: Arc<Runner>,
    stopped: AtomicBool,
    /// It was stopped, and what serves has not ended yet.
    ending: AtomicBool,
}

/// The thread that runs the device, and so perhaps a handler that has views.
#[derive(Default)]
struct Runner {
    thread: Mutex<Option<ThreadId>>,
    /// Locked while handlers run, whichever thread runs them, and while a body copies.
    handlers: Mutex<()>,
}

/// While it exists, this thread runs the device.
struct Running<'r>(&'r Runner);

impl Runner {
    fn thread(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handlers(&self) -> MutexGuard<'_, ()> {
        self.handlers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) -> Running<'_> {
        *self.thread() = Some(thread::current().id());
        Running(self)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.thread() = None;
    }
}

impl CopyGate for Runner {
    fn is_open(&self) -> bool {
        *self.thread() != Some(thread::current().id())
    }
    fn alone(&self, copy: &mut dyn FnMut()) {
        if self.is_open() {
            let _handlers = self.handlers();
            copy();
        }
    }
}

struct LoopbackDevice {
    state: Option<State>,
    table: Table,
    /// Places for tasks, while no host is served.
    tasks: Tasks<'static>,
    /// Runs the tasks; started for the first.
    thread: Option<TaskThread>,
    runner: Arc<Runner>,
    /// Features that it does not report.
    without: u32,
    /// Where the link's window ends. No heap begins before.
    front: u64,
}

/// The thread that tasks run on. What they have on their stacks may be for one thread only, so that
/// the threads which wait, and poll the device meanwhile, cannot run them.
struct TaskThread {
    give: Sender<Job>,
    take: Receiver<(Box<Poller<'static, Shared>>, thread::Result<Ended>)>,
}

/// The places of tasks, when they were ended.
type Ended = Option<Tasks<'static>>;

/// The poller and what to do with it.
enum Job {
    Run(Box<Poller<'static, Shared>>, u32),
    End(Box<Poller<'static, Shared>>),
}

impl TaskThread {
    fn start(runner: Arc<Runner>) -> std::io::Result<Self> {
        let (give, jobs) = channel();
        let (outcomes, take) = channel();
        let begin = Instant::now();
        thread::Builder::new().name("hamr-tasks".into()).spawn(move || {
            let mut clock = || begin.elapsed().as_micros() as u64;
            for job in jobs {
                let running = runner.run();
                let (mut poller, served) = match job {
                    Job::Run(poller, served) => (poller, Some(served)),
                    Job::End(poller) => (poller, None),
                };
                let outcome = as_another(|| {
                    poller.enter_thread();
                    catch_unwind(AssertUnwindSafe(|| match served {
                        Some(served) => {
                            poller.run_tasks(served, &mut clock);
                            None
                        }
                        None => Some(poller.end_tasks(&mut clock)),
                    }))
                });
                // Before the thread that waits goes on: it states then that it runs the device.
                drop(running);
                if outcomes.send((poller, outcome)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { give, take })
    }
}

enum State {
    Handshaking(Box<Handshaking>),
    Serving(Box<Poller<'static, Shared>>),
}

struct Handshaking {
    window: DeviceWindow<Shared>,
    handshake: DeviceHandshake,
    scratch: &'static mut [u8],
}

impl State {
    fn handshaking(window: DeviceWindow<Shared>, handshake: DeviceHandshake, scratch: &'static mut [u8]) -> Self {
        Self::Handshaking(Box::new(Handshaking { window, handshake, scratch }))
    }
}

/// Between two looks at a device that another thread polls.
const PAUSE: Duration = Duration::from_micros(200);
/// Places for tasks, and bytes of their stacks.
const TASKS: usize = 16;
const TASK_STACK: usize = 256 << 10;

/// The running call panicked: it fails alone, as in an image of its own.
fn fail_current(poller: &mut Poller<'static, Shared>, payload: Box<dyn Any + Send>) {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    poller.fail_current(Status::PANIC, text.unwrap_or("panic"), &Trace::NONE);
    discard(payload);
}

/// What a loopback device reports of itself.
const LOOPBACK: DeviceProfile = DeviceProfile {
    tasks: TASKS as u32,
    task_stack: TASK_STACK as u32,
    ..DeviceProfile::new("loopback", FEATURES, MAX_QUEUES as u32)
};
const FEATURES: u32 =
    feature::TICKETS | feature::DEADLINES | feature::TASKS | feature::HOST_CALLS | feature::TWO_LINES | feature::SPLIT;

impl Loopback {
    /// A device with the handlers of `table` over private memory that ends with the heap: of a
    /// request, `heap_off..window_len`. [`Link::window`] is the memory before the heap.
    ///
    /// The device runs only inside [`Link::wait`], so in a program of one thread a handler's views
    /// and the host's copies never meet; a copy that the handler itself makes is refused as busy.
    /// Threads that put into a buffer while another thread's call runs on it break that; nothing
    /// here can refuse it (contract "both ends in one program").
    ///
    /// # Panics
    /// When this process has no such memory.
    pub fn new(heap: Range<u64>, table: Table) -> Self {
        let len = heap.end;
        Self::try_new(heap, table).unwrap_or_else(|| panic!("expected memory for a window of {len} bytes, found less"))
    }

    /// [`Self::new`]; `None` where this process has no such memory.
    pub(crate) fn try_new(heap: Range<u64>, table: Table) -> Option<Self> {
        // SAFETY: of the host's end, `window` ends at `heap.start`, and no view of the device begins before
        // (`front`). Of the rest there are `Copies` only, which refuse the thread that runs a handler; those of
        // other threads are what "both ends in one program" speaks of.
        let (whole, device) = unsafe { Window::private_pair(heap.end) }?;
        let window = whole.part(0, heap.start).ok()?;
        let runner = Arc::new(Runner::default());
        // Leaked: a loopback device is there as long as its test, and a poller needs its scratch
        // for good.
        let scratch = vec![0; MAX_MESSAGE].leak();
        let slots = (0..TASKS).map(|_| TaskSlot::new(TASK_STACK)).collect::<Vec<_>>().leak();
        let state = State::handshaking(device, DeviceHandshake::Waiting, scratch);
        Some(Self {
            window,
            whole: whole.guarded_by(runner.clone()),
            device: Mutex::new(LoopbackDevice {
                state: Some(state),
                table,
                tasks: Tasks::new(slots),
                thread: None,
                runner: runner.clone(),
                without: 0,
                front: heap.start,
            }),
            runner,
            stopped: AtomicBool::new(false),
            ending: AtomicBool::new(false),
        })
    }

    /// The same device without these features (bits of [`feature`]), as an older image has fewer.
    #[must_use]
    pub fn without(mut self, features: u32) -> Self {
        self.device.get_mut().unwrap_or_else(PoisonError::into_inner).without |= features;
        self
    }
}

impl Loopback {
    /// Ends what serves, if it was stopped.
    fn end_if_asked(&self, device: &mut LoopbackDevice) {
        if !self.ending.swap(false, Ordering::AcqRel) {
            return;
        }
        let handlers = self.runner.handlers();
        device.end_tasks();
        drop(handlers);
        device.state = device.state.take().map(|state| {
            let (window, scratch) = match state {
                State::Serving(poller) => poller.into_parts(),
                State::Handshaking(handshaking) => (handshaking.window, handshaking.scratch),
            };
            State::handshaking(window, DeviceHandshake::Waiting, scratch)
        });
    }
}

impl LoopbackDevice {
    fn step(&mut self) {
        if let Some(State::Serving(poller)) = &mut self.state {
            poller.enter_thread();
            match catch_unwind(AssertUnwindSafe(|| poller.poll())) {
                Ok(Round::HostGone) => {}
                Ok(Round::TasksDue(served)) => return self.run_tasks(served),
                Ok(Round::Idle | Round::Worked(_) | Round::NeedsNotify(_)) => {
                    poller.slept();
                    return;
                }
                Err(payload) => return fail_current(poller, payload),
            }
        }
        self.shake_hands();
    }

    /// Has the thread of the tasks run them, and waits for it.
    fn run_tasks(&mut self, served: u32) {
        if let Some(Err(payload)) = self.give(|poller| Job::Run(poller, served))
            && let Some(State::Serving(poller)) = &mut self.state
        {
            fail_current(poller, payload);
        }
    }

    /// Ends the tasks on their thread.
    fn end_tasks(&mut self) {
        if let Some(Ok(Some(tasks))) = self.give(Job::End) {
            self.tasks = tasks;
        }
    }

    /// The poller goes to the thread and comes back.
    fn give(&mut self, job: impl FnOnce(Box<Poller<'static, Shared>>) -> Job) -> Option<thread::Result<Ended>> {
        if self.thread.is_none() {
            self.thread = TaskThread::start(self.runner.clone()).ok();
        }
        let thread = self.thread.as_ref()?;
        let poller = match self.state.take() {
            Some(State::Serving(poller)) => poller,
            other => {
                self.state = other;
                return None;
            }
        };
        thread.give.send(job(poller)).ok()?;
        let (poller, outcome) = thread.take.recv().ok()?;
        self.state = Some(State::Serving(poller));
        Some(outcome)
    }

    fn shake_hands(&mut self) {
        self.end_tasks();
        self.state = match self.state.take() {
            Some(State::Handshaking(handshaking)) => {
                let Handshaking { window, mut handshake, scratch } = *handshaking;
                let profile = DeviceProfile { features: LOOPBACK.features & !self.without, ..LOOPBACK };
                handshake.step(&window, self.table, &profile);
                let DeviceHandshake::Serving(accepted) = handshake else {
                    self.state = Some(State::handshaking(window, handshake, scratch));
                    return;
                };
                if accepted.layout.heap().start < self.front {
                    // Views of its heap would meet the link's window.
                    self.state = Some(State::handshaking(window, DeviceHandshake::Waiting, scratch));
                    return;
                }
                match Poller::new(window, &accepted, self.table, scratch) {
                    Ok(mut poller) => {
                        poller.use_tasks(std::mem::take(&mut self.tasks));
                        DeviceHandshake::announce(poller.window());
                        Some(State::Serving(Box::new(poller)))
                    }
                    Err((_, window, scratch)) => Some(State::handshaking(window, DeviceHandshake::Waiting, scratch)),
                }
            }
            Some(State::Serving(poller)) => {
                DeviceHandshake::leave(poller.window());
                let (window, scratch) = poller.into_parts();
                Some(State::handshaking(window, DeviceHandshake::Waiting, scratch))
            }
            None => None,
        };
    }
}

impl Link for Loopback {
    fn kind(&self) -> &str {
        "loopback"
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
    fn window(&self) -> &Window<Shared> {
        &self.window
    }
    fn heap(&self, off: u64, len: u64) -> Result<Heap, OutOfWindow> {
        if off < self.window.len() {
            return Err(OutOfWindow { off, want: len, len: self.window.len() });
        }
        self.whole.copies(off, len).map(Heap::mapped)
    }
    fn notify(&self) {}
    fn wait(&self, _max_us: u32) {
        if self.stopped.load(Ordering::Acquire) {
            return;
        }
        let mut device = match self.device.try_lock() {
            Ok(device) => device,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread polls, which is as good.
            Err(TryLockError::WouldBlock) => return,
        };
        {
            let _handlers = self.runner.handlers();
            let _running = self.runner.run();
            as_another(|| device.step());
        }
        self.end_if_asked(&mut device);
    }
    fn peer(&self) -> Peer {
        if self.stopped.load(Ordering::Acquire) { Peer::Gone("stopped".into()) } else { Peer::Alive }
    }
    /// A thread that polls finishes first; afterwards none polls. Where that takes longer than `limit`, or a handler
    /// of the device asks for the end, the polling thread ends the device behind the handler.
    fn stop(&self, limit: Duration) {
        self.ending.store(true, Ordering::Release);
        self.stopped.store(true, Ordering::Release);
        if !self.runner.is_open() {
            return;
        }
        let begin = Instant::now();
        loop {
            match self.device.try_lock() {
                Ok(mut device) => return self.end_if_asked(&mut device),
                Err(TryLockError::Poisoned(device)) => return self.end_if_asked(&mut device.into_inner()),
                Err(TryLockError::WouldBlock) if begin.elapsed() >= limit => return,
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
            }
        }
    }
    fn restart(&self, limit: Duration) -> Result<(), String> {
        if !self.runner.is_open() {
            return Err("a handler of a device cannot start it again".into());
        }
        if self.ending.load(Ordering::Acquire) {
            self.stop(limit);
        }
        if self.ending.load(Ordering::Acquire) {
            return Err(format!("a handler of it has not ended within {limit:?}"));
        }
        self.stopped.store(false, Ordering::Release);
        Ok(())
    }
}
