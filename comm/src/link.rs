//! Links: the slow half of a connection to a device (the fast half is the window itself).
//!
//! A [`Link`] says what the connection can do, rings, waits, and knows whether the peer is there. It is object-safe, so a
//! host keeps devices of several kinds in one list; nothing here is on the path of a call that is answered at once.
//! [`Loopback`] runs the device inside the waiting thread: for unit tests, and for the conformance suite.
//! [`Faulty`] wraps any link and breaks it on purpose.

use crate::am::{Poller, Round};
use crate::fault::{Trace, discard};
use crate::handshake::{DeviceHandshake, DeviceProfile};
use crate::migrate::MAX_MESSAGE;
use crate::registry::Table;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use hamr_shared_abi::preamble::feature;
use hamr_shared_abi::queue::QueueDescriptor;
use hamr_shared_abi::status::Status;
use hamr_shared_abi::window::{CopyGate, DeviceWindow, Shared, Window};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, ThreadId};

/// What a link can do: which of a message's protocols it allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Capabilities {
    /// The host maps the device's memory: a `put` is a copy.
    pub host_maps_device: bool,
    /// The device can reach host memory.
    pub device_reaches_host: bool,
    /// Both sides cache the window coherently.
    pub coherent: bool,
    /// A 64-byte line read by the peer is never torn.
    pub line_read_atomic: bool,
    /// Ringing wakes a sleeping peer.
    pub doorbell: bool,
}

/// Is the peer there?
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Peer {
    /// As far as the link knows.
    Alive,
    /// Gone for good in this epoch, and why.
    Gone(String),
}

/// See the module's head.
pub trait Link: Send + Sync {
    /// What to call it in messages: `shm`, `loopback`.
    fn kind(&self) -> &str;
    /// What it can do.
    fn capabilities(&self) -> Capabilities;
    /// The mapped window.
    fn window(&self) -> &Window<Shared>;
    /// Notifies the peer. A hint: a lost one costs latency only.
    fn notify(&self);
    /// Gives the peer a chance to run, or sleeps until it notifies or is gone, at most `max_us` microseconds. Called by whoever
    /// waits, after a first fruitless while; by one thread at a time where there is a doorbell, because it takes the rings, which
    /// are the waiters'.
    /// Zero means: no sleep. [`hamr_shared_abi::preamble::FOR_EVER`] is no limit.
    fn wait(&self, max_us: u32);
    /// Wakes whoever sleeps in [`Self::wait`] or on [`Self::descriptors`], or the next who would, as a ring of the peer does. Nothing
    /// to do where nobody rings.
    fn wake(&self) {}
    /// Is the peer there? A few hundred nanoseconds at most.
    fn peer(&self) -> Peer;
    /// Descriptors of which one is readable when the peer has rung or is gone: for whoever waits for several devices at once,
    /// and then calls [`Self::wait`], which takes the ring. Empty where nobody rings.
    fn descriptors(&self) -> Vec<Arc<OwnedFd>> {
        Vec::new()
    }
    /// What the device writes to its card's doorbell register to ring this side, where there is such a register (abi §7).
    fn doorbell(&self) -> u32 {
        0
    }
    /// Ends the peer and returns when it writes nothing any more.
    fn stop(&self);
    /// Does the device live on when its host leaves? Then the window may hold what an earlier host left (abi §8), and
    /// [`Self::stop`] is a request that the device answers.
    fn outlives_host(&self) -> bool {
        false
    }
    /// The host will not use the link again, though streams of it may still hold it: lets the next host in. Before that, whatever is
    /// made of [`Self::window`] must have ceased to reach the device, because a thread may be in the middle of a store: a mapping is
    /// replaced by memory of this program's own. Nothing to do where the device ends with its host.
    fn release(&self) {}
    /// Starts a stopped peer again over the same window.
    ///
    /// # Errors
    /// Says why this link cannot.
    fn restart(&self) -> Result<(), String> {
        Err(alloc::format!("a {} link cannot start its device again", self.kind()))
    }
}

// A host keeps links of several kinds in one list.
static_assertions::assert_obj_safe!(Link);

/// One process: the device is polled by whoever waits.
pub struct Loopback {
    window: Window<Shared>,
    device: spin::Mutex<LoopbackDevice>,
    runner: Arc<Runner>,
    stopped: AtomicBool,
}

/// The thread that runs the device, and so perhaps a handler that has views.
#[derive(Default)]
struct Runner(spin::Mutex<Option<ThreadId>>);

/// Until it is dropped, this thread runs the device.
struct Running<'r>(&'r Runner);

impl Runner {
    fn run(&self) -> Running<'_> {
        *self.0.lock() = Some(thread::current().id());
        Running(self)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.0.lock() = None;
    }
}

impl CopyGate for Runner {
    fn is_open(&self) -> bool {
        *self.0.lock() != Some(thread::current().id())
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

/// What a loopback device says of itself.
const LOOPBACK: DeviceProfile = DeviceProfile {
    features: feature::TICKETS | feature::DEADLINES,
    board: "loopback",
    memory: 0,
    pid: 0,
    build_id: [0; 20],
    max_queues: crate::am::MAX_QUEUES as u32,
    max_chunk: QueueDescriptor::MAX_CHUNK,
};

impl Loopback {
    /// A device with the handlers of `table` over `bytes` of private memory.
    ///
    /// The device runs only inside [`Link::wait`], so in a program of one thread a handler's views and the host's copies never meet;
    /// a copy that the handler itself makes is refused as busy. Threads that put into a buffer while another thread's call runs on
    /// it break that; nothing here can refuse it (`docs/unsafe.md`, "both ends in one program").
    pub fn new(bytes: u64, table: Table) -> Self {
        let (host, device) = Window::private_pair(bytes);
        let runner = Arc::new(Runner::default());
        // Leaked: a loopback device lives as long as its test, and a poller wants its scratch for good.
        let scratch = vec![0; MAX_MESSAGE].leak();
        let state = State::handshaking(device, DeviceHandshake::Waiting, scratch);
        Self {
            window: host.guarded_by(runner.clone()),
            runner,
            device: spin::Mutex::new(LoopbackDevice { state: Some(state), table }),
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
                match Poller::new(window, &accepted.layout, self.table, accepted.node, accepted.epoch, scratch) {
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
        }
    }
    fn window(&self) -> &Window<Shared> {
        &self.window
    }
    fn notify(&self) {}
    fn wait(&self, _max_us: u32) {
        // Somebody else polling is as good as polling.
        if !self.stopped.load(Ordering::Acquire)
            && let Some(mut device) = self.device.try_lock()
        {
            let _running = self.runner.run();
            device.step();
        }
    }
    fn peer(&self) -> Peer {
        if self.stopped.load(Ordering::Acquire) { Peer::Gone("stopped".into()) } else { Peer::Alive }
    }
    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // Whoever is polling finishes first; afterwards nobody polls.
        let mut device = self.device.lock();
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

/// Breaks another link on purpose: drops doorbells, delays the peer, flips bits in the window, lets the peer die.
pub struct Faulty<L> {
    inner: L,
    faults: Arc<Faults>,
}

/// The switches of a [`Faulty`] link; all off at first. Shared, so a test turns them while the host runs.
#[derive(Default)]
pub struct Faults {
    drop_notifications: AtomicBool,
    skip_waits: AtomicU32,
    killed: AtomicBool,
    dropped: AtomicU64,
}

impl Faults {
    /// Loses every doorbell from now on (or no longer).
    pub fn drop_notifications(&self, on: bool) {
        self.drop_notifications.store(on, Ordering::Relaxed);
    }

    /// Doorbells lost so far.
    pub fn dropped_notifications(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The next `n` waits do nothing: on a loopback link the device stands still for that long.
    pub fn delay(&self, n: u32) {
        self.skip_waits.store(n, Ordering::Relaxed);
    }

    /// The peer is dead from now on: it runs no more, and [`Link::peer`] says so.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
    }
}

impl<L: Link> Faulty<L> {
    /// Wraps `inner`; the second half turns the faults on and off.
    pub fn new(inner: L) -> (Self, Arc<Faults>) {
        let faults = Arc::new(Faults::default());
        (Self { inner, faults: faults.clone() }, faults)
    }

    /// Inverts bits of one word of the window, as a bad wire or a bad peer would.
    pub fn flip(&self, off: u64, mask: u32) {
        if let Ok(word) = self.inner.window().word(off) {
            word.publish(word.load() ^ mask);
        }
    }
}

impl<L: Link> Link for Faulty<L> {
    fn kind(&self) -> &str {
        self.inner.kind()
    }
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    fn window(&self) -> &Window<Shared> {
        self.inner.window()
    }
    fn notify(&self) {
        if self.faults.drop_notifications.load(Ordering::Relaxed) {
            self.faults.dropped.fetch_add(1, Ordering::Relaxed);
        } else {
            self.inner.notify();
        }
    }
    fn wait(&self, max_us: u32) {
        let skip = self.faults.skip_waits.load(Ordering::Relaxed);
        if skip > 0 {
            self.faults.skip_waits.store(skip - 1, Ordering::Relaxed);
        } else if !self.faults.killed.load(Ordering::Acquire) {
            self.inner.wait(max_us);
        }
    }
    fn wake(&self) {
        self.inner.wake();
    }
    fn peer(&self) -> Peer {
        if self.faults.killed.load(Ordering::Acquire) {
            Peer::Gone("killed by a fault".into())
        } else {
            self.inner.peer()
        }
    }
    fn descriptors(&self) -> Vec<Arc<OwnedFd>> {
        self.inner.descriptors()
    }
    fn doorbell(&self) -> u32 {
        self.inner.doorbell()
    }
    fn stop(&self) {
        self.inner.stop();
    }
    fn outlives_host(&self) -> bool {
        self.inner.outlives_host()
    }
    fn release(&self) {
        self.inner.release();
    }
    fn restart(&self) -> Result<(), String> {
        self.faults.killed.store(false, Ordering::Release);
        self.inner.restart()
    }
}
