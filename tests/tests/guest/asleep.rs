//! Doorbells between this host and the image in the other machine, with nothing under them: neither side has a limit on its sleeps,
//! and the looks that a host on a bus takes now and then at a silent device are off. A ring that is lost is noticed by the time it costs:
//! a host sleeps until the call's deadline, and finds the reply then.
//!
//! Over vfio both sides sleep. Over sysfs nobody can interrupt the host, which polls; the device sleeps all the same.

use super::spec;
use hamr::pci::PciLauncher;
use hamr::{LaunchRequest, Launcher, Node, Options, WaitMode};
use hamr_comm::abi::layout::{Layout, Plan};
use hamr_comm::abi::preamble::word;
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::link::{Capabilities, Link, Peer};
use hamr_tests::conformance::until;
use hamr_tests::devices;
use hamr_tests::sleeping::times_waiting;
use hamr_tests_kernels::echo;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: u32 = 1000;
/// Of each call.
const DEADLINE: Duration = Duration::from_secs(20);
/// No machine is so slow.
const LOST: Duration = Duration::from_secs(10);

/// The link, with an observer.
struct Seen(Arc<Watched>);

struct Watched {
    link: Box<dyn Link>,
    rings: AtomicU64,
    /// Rings get lost.
    is_deaf: AtomicBool,
    /// As on any bus, the device is looked at, rung when it is silent, and no sleep is long.
    has_net: AtomicBool,
}

impl Link for Seen {
    fn kind(&self) -> &str {
        self.0.link.kind()
    }
    fn capabilities(&self) -> Capabilities {
        self.0.link.capabilities()
    }
    fn window(&self) -> &Window<Shared> {
        self.0.link.window()
    }
    fn notify(&self) {
        self.0.rings.fetch_add(1, Ordering::Relaxed);
        if !self.0.is_deaf.load(Ordering::Relaxed) {
            self.0.link.notify();
        }
    }
    fn wait(&self, max_us: u32) {
        self.0.link.wait(max_us);
    }
    fn wake(&self) {
        self.0.link.wake();
    }
    fn descriptors(&self) -> Vec<Arc<OwnedFd>> {
        self.0.link.descriptors()
    }
    fn doorbell(&self) -> u32 {
        self.0.link.doorbell()
    }
    fn peer(&self) -> Peer {
        if self.0.has_net.load(Ordering::Relaxed) { self.0.link.peer() } else { Peer::Alive }
    }
    fn stop(&self) {
        self.0.link.stop();
    }
    fn outlives_host(&self) -> bool {
        self.0.has_net.load(Ordering::Relaxed)
    }
    fn release(&self) {
        self.0.link.release();
    }
    fn restart(&self) -> Result<(), String> {
        self.0.link.restart()
    }
}

struct Rig {
    node: Node,
    seen: Arc<Watched>,
}

/// What was counted.
#[derive(Clone, Copy)]
struct Counts {
    /// By this host.
    rings: u64,
    /// By its kernel, for the function's vector.
    interrupts: u64,
    /// By the device: it lay down so often.
    sleeps: u32,
}

impl Rig {
    fn start() -> Self {
        let options = Options {
            heap: 1 << 20,
            streams: 2,
            wait: WaitMode::Sleep,
            longest_sleep: None,
            deadline: Some(DEADLINE),
            ..Options::default()
        };
        let plan = Plan {
            streams: options.streams,
            ring: options.ring,
            tickets: options.tickets,
            chunk: options.chunk,
            heap: options.heap,
            ..Plan::default()
        };
        let spec = spec();
        let argument = spec.strip_prefix("pci:").expect("a device on the bus");
        let window_len = Layout::plan(&plan).expect("allowed").window_len();
        let request = LaunchRequest { device: &spec, argument, image: None, window_len, cpu: None };
        let link = PciLauncher.launch(&request).expect("a function");
        let (rings, is_deaf) = (AtomicU64::new(0), AtomicBool::new(false));
        let seen = Arc::new(Watched { link, rings, is_deaf, has_net: AtomicBool::new(true) });
        let node = devices::runtime().attach(&spec, Box::new(Seen(seen.clone())), options).expect("a device");
        assert!(node.info().features.contains(hamr::Features::DOORBELL), "{:?}", node.info().features);
        seen.has_net.store(false, Ordering::Relaxed);
        Self { node, seen }
    }

    /// Can the device interrupt this host?
    fn is_notified(&self) -> bool {
        self.seen.link.kind() == "pci-vfio"
    }

    /// Waits until the device says that it wants to be notified, and a little longer than it goes on looking around.
    fn device_prepares_to_wait(&self) {
        let wait = self.seen.link.window().word(word::DEVICE_WAIT).expect("in the preamble");
        until("the device prepares to sleep", || wait.load() % 2 == 1);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(10) {
            std::hint::spin_loop();
        }
    }

    fn counts(&self) -> Counts {
        let wait = self.seen.link.window().word(word::DEVICE_WAIT).expect("in the preamble").load();
        Counts {
            rings: self.seen.rings.load(Ordering::Relaxed),
            interrupts: interrupts(),
            sleeps: times_waiting(wait, self.node.info().epoch),
        }
    }
}

/// How often a function given to a program has interrupted this machine.
fn interrupts() -> u64 {
    let table = std::fs::read_to_string("/proc/interrupts").expect("Linux");
    let lines = table.lines().filter(|line| line.contains("vfio-msix"));
    lines.flat_map(|line| line.split_whitespace().skip(1).map_while(|n| n.parse::<u64>().ok())).sum()
}

/// Call after call, each of which finds a device that sleeps, and is waited for asleep.
#[test]
fn no_notification_is_lost() {
    let rig = Rig::start();
    let stream = rig.node.stream().expect("a stream");
    // From one sleep to another: the device prepares to sleep a moment after its reply.
    rig.device_prepares_to_wait();
    let (before, begin) = (rig.counts(), Instant::now());
    let mut wakes: Vec<Duration> = (0..u64::from(ROUNDS))
        .map(|n| {
            rig.device_prepares_to_wait();
            let begin = Instant::now();
            assert_eq!(stream.sync(echo::with(n)).expect("woken and answered"), n);
            assert!(begin.elapsed() < LOST, "round {n}: a ring was lost, the call took {:.1?}", begin.elapsed());
            begin.elapsed()
        })
        .collect();
    let took = begin.elapsed();
    rig.device_prepares_to_wait();
    let after = rig.counts();
    let rings = after.rings - before.rings;
    let interrupts = after.interrupts - before.interrupts;
    let sleeps = after.sleeps - before.sleeps;
    wakes.sort_unstable();
    let at = |share: usize| wakes[(wakes.len() - 1) * share / 100];
    let (isa, kind) = (rig.node.info().isa, rig.seen.link.kind());
    eprintln!(
        "\n{isa} {kind}: {ROUNDS} rounds in {took:.1?}; {rings} rings out, {interrupts} interrupts in, the device slept {sleeps} \
         times; a call that wakes it: median {:.1?}, 99 % {:.1?}, longest {:.1?}",
        at(50),
        at(99),
        at(100)
    );
    assert!(sleeps >= ROUNDS, "the device did not sleep: {sleeps} times");
    assert!(rings >= u64::from(ROUNDS) / 10 * 9, "the device was not rung: {rings} times");
    match rig.is_notified() {
        true => assert!(interrupts >= u64::from(ROUNDS) / 2, "this host was not rung: {interrupts} times"),
        false => assert_eq!(interrupts, 0, "nobody listens"),
    }
}

/// A device that sleeps finds nothing by itself: it is the ring that wakes it, and nothing else.
#[test]
fn only_a_notification_wakes_the_device() {
    let rig = Rig::start();
    let stream = rig.node.stream().expect("a stream");
    let mut woken = 0;
    for n in 0..12u64 {
        rig.seen.is_deaf.store(true, Ordering::Relaxed);
        rig.device_prepares_to_wait();
        // A machine that did not run just then has its last look around still before it.
        std::thread::sleep(Duration::from_millis(50));
        let pending = stream.offload(echo::with(n)).expect("sent");
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(300) && !pending.test() {}
        let was_found = pending.test();
        rig.seen.is_deaf.store(false, Ordering::Relaxed);
        rig.seen.link.notify();
        assert_eq!(pending.get().expect("woken"), n);
        assert!(begin.elapsed() < LOST, "the reply's ring was lost");
        woken += u32::from(!was_found);
        if woken == 3 {
            return;
        }
    }
    panic!("a device that nobody rang answered, and waited for the ring in {woken} of 12 calls");
}

/// The host's sleeps are as long as they are told to be, unless the device notifies.
#[test]
fn no_side_notifies_without_a_reason() {
    let rig = Rig::start();
    if !rig.is_notified() {
        // Over sysfs nothing can ring this host.
        return;
    }
    let stream = rig.node.stream().expect("a stream");
    assert_eq!(stream.sync(echo::with(1u64)).expect("woken"), 1);
    rig.device_prepares_to_wait();
    // Of the call above: the reply may have been found before its ring came.
    let mut was_quiet = false;
    for _ in 0..10 {
        let begin = Instant::now();
        rig.seen.link.wait(300_000);
        was_quiet = begin.elapsed() >= Duration::from_millis(300);
        if was_quiet {
            break;
        }
    }
    assert!(was_quiet, "rung again and again");
    let (before, begin) = (rig.counts(), Instant::now());
    rig.seen.link.wait(100_000);
    assert!(begin.elapsed() >= Duration::from_millis(100), "rung after {:?}", begin.elapsed());
    assert_eq!(rig.counts().interrupts, before.interrupts);
}
