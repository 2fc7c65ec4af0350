//! A device in a thread of this program, and a link to it that outlives its host. Several hosts
//! attach to one device, one after the other, as to a card on a bus. The device may also stop after
//! the handshake, and the test replies in its place.

use hamr::link::{Capabilities, Link, Peer};
use hamr::{Node, Options, Runtime};
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::preamble::{FOR_EVER, word};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::sync::Coherent;
use hamr_comm::abi::window::{DeviceWindow, Queue, Shared, Window};
use hamr_comm::am::TaskSlot;
use hamr_comm::fault::{Trace, discard};
use hamr_comm::handshake::HostHandshake;
use hamr_comm::migrate::MAX_MESSAGE;
use hamr_comm::registry::Table;
use hamr_device_fw::{Board, Device};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Rounds without a message before the device sleeps between rounds.
const BUSY_ROUNDS: u32 = 200;
/// How long the device sleeps between two rounds, where it has no doorbell.
const PAUSE: Duration = Duration::from_micros(100);

/// An eventfd for each direction.
pub struct Doorbells {
    host: Arc<OwnedFd>,
    device: OwnedFd,
}

impl Doorbells {
    fn new() -> Arc<Self> {
        Arc::new(Self { host: Arc::new(doorbell()), device: doorbell() })
    }

    /// Notifies the host.
    pub fn notify_host(&self) {
        notify(&self.host);
    }

    /// Waits until the host notifies, at most so long.
    pub fn wait_for_host(&self, micros: u32) {
        sleep_on(&self.device, micros);
    }
}

fn doorbell() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a doorbell")
}

fn notify(fd: &OwnedFd) {
    // The only error is a counter at its maximum.
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}

fn sleep_on(fd: &OwnedFd, micros: u32) {
    let limit = Timespec { tv_sec: (micros / 1_000_000).into(), tv_nsec: (micros % 1_000_000 * 1000).into() };
    let limit = (micros != FOR_EVER).then_some(&limit);
    if poll(&mut [PollFd::new(fd, PollFlags::IN)], limit).is_ok_and(|n| n > 0) {
        let _ = rustix::io::read(fd, &mut [0; 8]);
    }
}

struct Threaded {
    window: Option<DeviceWindow<Shared>>,
    doorbells: Option<Arc<Doorbells>>,
    started: Instant,
}

impl Board for Threaded {
    type Keep = Shared;
    type Order = Coherent;
    fn name(&self) -> &'static str {
        "thread"
    }
    fn window(&mut self) -> Option<DeviceWindow<Shared>> {
        self.window.take()
    }
    fn notify(&mut self) {
        if let Some(doorbells) = &self.doorbells {
            notify(&doorbells.host);
        }
    }
    fn doorbell(&self) -> bool {
        self.doorbells.is_some()
    }
    fn sleep(&mut self, micros: u32) {
        if let Some(doorbells) = &self.doorbells {
            sleep_on(&doorbells.device, micros);
        }
    }
    fn micros(&mut self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }
    fn idle(&mut self, rounds: u32) {
        if rounds > BUSY_ROUNDS {
            std::thread::sleep(PAUSE);
        }
    }
}

/// The memory, and the device that serves it.
pub struct Card {
    memory: Window<Shared>,
    doorbells: Option<Arc<Doorbells>>,
    gone: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    device: Option<std::thread::JoinHandle<()>>,
}

impl Card {
    /// A device that serves the handlers of this program, over memory of the size in `options`.
    /// With `doorbells` it sleeps when it is idle, and serves until the program ends.
    pub fn new(options: &Options, doorbells: bool) -> Self {
        Self::in_epoch(options, doorbells, Epoch(0))
    }

    /// [`Self::new`] in memory whose last host was in `epoch`.
    pub fn in_epoch(options: &Options, doorbells: bool, epoch: Epoch) -> Self {
        let card = Self::of_len(layout(options).window_len(), doorbells);
        card.memory.word(word::EPOCH).expect("in the preamble").store(epoch.0);
        card
    }

    /// [`Self::new`] over so many bytes.
    pub fn of_len(len: u64, doorbells: bool) -> Self {
        let (memory, device) = crate::both_ends::both_ends(len);
        let doorbells = doorbells.then(Doorbells::new);
        let stop = Arc::new(AtomicBool::new(false));
        let serve = {
            let (doorbells, stop) = (doorbells.clone(), stop.clone());
            move || serve(Threaded { window: Some(device), doorbells, started: Instant::now() }, &stop)
        };
        let device = Some(std::thread::spawn(serve));
        Self { memory, doorbells, gone: Arc::default(), stop, device }
    }

    /// [`Self::new`] with doorbells, of a device that `serve` runs in the thread.
    pub fn of_device(
        options: &Options,
        serve: impl FnOnce(DeviceWindow<Shared>, Arc<Doorbells>) + Send + 'static,
    ) -> Self {
        let (memory, device) = crate::both_ends::both_ends(layout(options).window_len());
        let doorbells = Doorbells::new();
        let theirs = doorbells.clone();
        let device = Some(std::thread::spawn(move || serve(device, theirs)));
        Self { memory, doorbells: Some(doorbells), gone: Arc::default(), stop: Arc::default(), device }
    }

    /// Attaches a host.
    pub fn attach(&self, name: &str, options: Options) -> Node {
        runtime().attach(name, Box::new(self.link()), options).expect("attaches")
    }

    fn link(&self) -> CardLink {
        CardLink {
            window: self.memory.part(0, self.memory.len()).expect("all of it"),
            doorbells: self.doorbells.clone(),
            gone: self.gone.clone(),
            stopped: self.stop.clone(),
            card: None,
        }
    }

    /// A link that has the card.
    pub fn into_link(self) -> impl Link {
        let link = self.link();
        CardLink { card: Some(self), ..link }
    }

    /// The memory.
    pub fn memory(&self) -> &Window<Shared> {
        &self.memory
    }

    /// From now on the link reports that the device is gone.
    pub fn pull_out(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// Stops the device after the handshake: the test replies to the messages in queue pair `index`
    /// in its place.
    pub fn replace_device(&mut self, options: &Options, index: u32) -> Queue<Shared> {
        self.stop.store(true, Ordering::Release);
        self.device.take().expect("once").join().expect("the device ends");
        let descriptor = layout(options).queue(&self.memory, index).expect("a descriptor");
        self.memory.queue(&descriptor).expect("a queue pair")
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// The layout of such memory.
pub fn layout(options: &Options) -> Layout {
    let Options { streams, ring, tickets, chunk, heap, .. } = *options;
    Layout::plan(&Plan { streams: streams.unwrap_or(8), ring, tickets, chunk, heap, ..Plan::default() })
        .expect("a plan")
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime"))
}

/// Places for tasks, and bytes of their stacks.
const TASKS: usize = 16;
const TASK_STACK: usize = 256 << 10;

fn serve(board: Threaded, stop: &AtomicBool) {
    let sleeps = board.doorbells.is_some();
    let device = Device::new(board, Table::of_this_image(), vec![0; MAX_MESSAGE].leak()).expect("a window");
    let slots: Vec<_> = (0..TASKS).map(|_| TaskSlot::new(TASK_STACK)).collect();
    let mut device = device.with_tasks(slots.leak(), TASK_STACK);
    let goes_on = || sleeps || !stop.load(Ordering::Acquire);
    while goes_on() {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| device.serve_while(goes_on))) {
            let text = payload.downcast_ref::<&str>().copied();
            let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
            device.fail_current(Status::PANIC, text.unwrap_or("panic"), &Trace::NONE);
            discard(payload);
        }
    }
}

/// One host's link. Its memory stays mapped after the release, so that any later write of that host
/// can be observed.
struct CardLink {
    window: Window<Shared>,
    doorbells: Option<Arc<Doorbells>>,
    gone: Arc<AtomicBool>,
    stopped: Arc<AtomicBool>,
    /// Which ends with it.
    #[expect(dead_code, reason = "held for its Drop")]
    card: Option<Card>,
}

impl CardLink {
    /// Whether the device acknowledges nothing more. One with doorbells serves until the program ends.
    fn is_stopped(&self) -> bool {
        self.doorbells.is_none() && self.stopped.load(Ordering::Acquire)
    }
}

impl Link for CardLink {
    fn kind(&self) -> &str {
        "card"
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { doorbell: self.doorbells.is_some(), ..Capabilities::default() }
    }
    fn window(&self) -> &Window<Shared> {
        &self.window
    }
    fn notify(&self) {
        if let Some(doorbells) = &self.doorbells {
            notify(&doorbells.device);
        }
    }
    fn wait(&self, max_us: u32) {
        match &self.doorbells {
            _ if max_us == 0 => std::hint::spin_loop(),
            Some(doorbells) => sleep_on(&doorbells.host, max_us),
            None => std::thread::sleep(Duration::from_micros(max_us.into())),
        }
    }
    fn wake(&self) {
        if let Some(doorbells) = &self.doorbells {
            notify(&doorbells.host);
        }
    }
    fn descriptors(&self) -> Vec<Arc<OwnedFd>> {
        self.doorbells.iter().map(|doorbells| doorbells.host.clone()).collect()
    }
    fn peer(&self) -> Peer {
        if self.gone.load(Ordering::Acquire) { Peer::Gone("pulled out".into()) } else { Peer::Alive }
    }
    fn stop(&self, limit: Duration) {
        HostHandshake::close(&self.window);
        self.notify();
        let epoch = Epoch(self.window.word(word::EPOCH).expect("in the preamble").load());
        let begin = Instant::now();
        while !HostHandshake::has_acknowledged(&self.window, epoch)
            && begin.elapsed() < Duration::from_secs(3).min(limit)
            && self.peer() == Peer::Alive
            && !self.is_stopped()
        {
            std::thread::sleep(PAUSE);
        }
    }
    fn outlives_host(&self) -> bool {
        true
    }
    fn restart(&self, _limit: Duration) -> Result<(), String> {
        Ok(())
    }
}
