//! A device in this program, for tests.

use super::{Capabilities, Link, Peer};
use hamr_comm::abi::preamble::feature;
use hamr_comm::abi::queue::QueueDescriptor;
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{CopyGate, DeviceWindow, Shared, Window};
use hamr_comm::am::{MAX_QUEUES, Poller, Round};
use hamr_comm::fault::{Trace, discard};
use hamr_comm::handshake::{DeviceHandshake, DeviceProfile};
use hamr_comm::migrate::MAX_MESSAGE;
use hamr_comm::registry::Table;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, ThreadId};

/// One process: the device is polled by the thread that waits.
pub struct Loopback {
    window: Window<Shared>,
    device: Mutex<LoopbackDevice>,
    runner: Arc<Runner>,
    stopped: AtomicBool,
}

/// The thread that runs the device, and so perhaps a handler that has views.
#[derive(Default)]
struct Runner(Mutex<Option<ThreadId>>);

/// While it exists, this thread runs the device.
struct Running<'r>(&'r Runner);

impl Runner {
    fn thread(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
}

struct LoopbackDevice {
    state: Option<State>,
    table: Table,
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

/// What a loopback device reports of itself.
const LOOPBACK: DeviceProfile = DeviceProfile {
    features: feature::TICKETS | feature::DEADLINES | feature::TWO_LINES,
    board: "loopback",
    memory: 0,
    pid: 0,
    build_id: [0; 20],
    max_queues: MAX_QUEUES as u32,
    max_chunk: QueueDescriptor::MAX_CHUNK,
};

impl Loopback {
    /// A device with the handlers of `table` over `bytes` of private memory.
    ///
    /// The device runs only inside [`Link::wait`], so in a program of one thread a handler's views
    /// and the host's copies never meet; a copy that the handler itself makes is refused as busy.
    /// Threads that put into a buffer while another thread's call runs on it break that; nothing
    /// here can refuse it (`docs/unsafe.md`, "both ends in one program").
    pub fn new(bytes: u64, table: Table) -> Self {
        let (host, device) = Window::private_pair(bytes);
        let runner = Arc::new(Runner::default());
        // Leaked: a loopback device is there as long as its test, and a poller needs its scratch
        // for good.
        let scratch = vec![0; MAX_MESSAGE].leak();
        let state = State::handshaking(device, DeviceHandshake::Waiting, scratch);
        Self {
            window: host.guarded_by(runner.clone()),
            runner,
            device: Mutex::new(LoopbackDevice { state: Some(state), table }),
            stopped: AtomicBool::new(false),
        }
    }
}

impl LoopbackDevice {
    fn step(&mut self) {
        if let Some(State::Serving(poller)) = &mut self.state {
            // A handler that panics fails its own call, as in an image of its own.
            let outcome = catch_unwind(AssertUnwindSafe(|| poller.poll()));
            match outcome {
                Ok(Round::HostGone) => {}
                Ok(Round::Idle | Round::Worked(_) | Round::NeedsNotify(_)) => return,
                Err(payload) => {
                    let text = payload.downcast_ref::<&str>().copied();
                    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
                    poller.fail_current(Status::PANIC, text.unwrap_or("panic"), &Trace::NONE);
                    return discard(payload);
                }
            }
        }
        self.shake_hands();
    }

    fn shake_hands(&mut self) {
        self.state = match self.state.take() {
            Some(State::Handshaking(handshaking)) => {
                let Handshaking { window, handshake, scratch } = *handshaking;
                let next = handshake.step(&window, self.table, &LOOPBACK);
                let DeviceHandshake::Serving(accepted) = next else {
                    self.state = Some(State::handshaking(window, next, scratch));
                    return;
                };
                match Poller::new(window, &accepted, self.table, scratch) {
                    Ok(poller) => {
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
        Capabilities {
            host_maps_device: true,
            device_reaches_host: true,
            coherent: true,
            line_read_atomic: true,
            doorbell: false,
            world: false,
        }
    }
    fn window(&self) -> &Window<Shared> {
        &self.window
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
        let _running = self.runner.run();
        device.step();
    }
    fn peer(&self) -> Peer {
        if self.stopped.load(Ordering::Acquire) { Peer::Gone("stopped".into()) } else { Peer::Alive }
    }
    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // A thread that polls finishes first; afterwards none polls.
        let mut device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        device.state = device.state.take().map(|state| {
            let (window, scratch) = match state {
                State::Serving(poller) => poller.into_parts(),
                State::Handshaking(handshaking) => (handshaking.window, handshaking.scratch),
            };
            State::handshaking(window, DeviceHandshake::Waiting, scratch)
        });
    }
    fn restart(&self) -> Result<(), String> {
        self.stopped.store(false, Ordering::Release);
        Ok(())
    }
}
