//! Doorbells between this host and the image in the other machine, without any timeout that would
//! hide a lost notification. Neither side has a limit on its sleeps, and a host's occasional checks
//! of a silent device are off. A lost notification costs time: the host sleeps until the call's
//! deadline, and then finds the reply.
//!
//! Over vfio both sides sleep. Over sysfs the device cannot interrupt the host, which polls; the
//! device sleeps all the same.

use super::spec;
use hamr::link::{Decorator, Link, Peer};
use hamr::pci::PciLauncher;
use hamr::{LaunchRequest, Launcher, Node, Options, WaitMode};
use hamr_comm::abi::preamble::word;
use hamr_tests::devices;
use hamr_tests::sleeping::{device_prepares_to_wait, times_waiting};
use hamr_tests_kernels::echo;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: u32 = 1000;
/// The deadline of each call.
const DEADLINE: Duration = Duration::from_secs(20);
/// A call of this length means a lost notification; no machine is so slow.
const LOST: Duration = Duration::from_secs(10);

/// A link that counts its notifications and sleeps. The node has one share of it, the test the other.
struct Watched {
    link: Box<dyn Link>,
    notifications: AtomicU64,
    waits: AtomicU64,
    /// Notifications are dropped.
    is_deaf: AtomicBool,
    /// As on any bus: the host checks the device, notifies it when it is silent, and limits its
    /// sleeps.
    has_net: AtomicBool,
}

impl Decorator for Watched {
    fn inner(&self) -> &dyn Link {
        &*self.link
    }
    fn notify(&self) {
        self.notifications.fetch_add(1, Ordering::Relaxed);
        if !self.is_deaf.load(Ordering::Relaxed) {
            self.link.notify();
        }
    }
    fn wait(&self, max_us: u32) {
        self.waits.fetch_add(u64::from(max_us != 0), Ordering::Relaxed);
        self.link.wait(max_us);
    }
    fn peer(&self) -> Peer {
        if self.has_net.load(Ordering::Relaxed) { self.link.peer() } else { Peer::Alive }
    }
    fn outlives_host(&self) -> bool {
        self.has_net.load(Ordering::Relaxed)
    }
}

struct Rig {
    node: Node,
    seen: Arc<Watched>,
}

/// The counters of a test.
#[derive(Clone, Copy)]
struct Counts {
    /// Notifications by this host.
    notifications: u64,
    /// Times that this host slept, or would have, had it not been notified just then.
    waits: u64,
    /// Interrupts that this host's kernel counted for the function's vector.
    interrupts: u64,
    /// How often the device prepared to sleep.
    sleeps: u32,
}

impl Rig {
    fn start() -> Self {
        let options = Options {
            heap: 1 << 20,
            streams: Some(2),
            wait: WaitMode::Sleep,
            longest_sleep: None,
            deadline: Some(DEADLINE),
            ..Options::default()
        };
        let spec = spec();
        let argument = spec.strip_prefix("pci:").expect("a device on the bus");
        let request = LaunchRequest { argument, ..devices::request(&spec, &options) };
        let link = PciLauncher.launch(&request).expect("a function");
        let (notifications, waits, is_deaf) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let seen = Arc::new(Watched { link, notifications, waits, is_deaf, has_net: AtomicBool::new(true) });
        let node = devices::runtime().attach(&spec, Box::new(seen.clone()), options).expect("a device");
        assert!(node.info().features.contains(hamr::Features::DOORBELL), "{:?}", node.info().features);
        seen.has_net.store(false, Ordering::Relaxed);
        Self { node, seen }
    }

    /// Can the device interrupt this host?
    fn is_notified(&self) -> bool {
        self.seen.link.kind() == "pci-vfio"
    }

    fn device_prepares_to_wait(&self, last: u32) -> u32 {
        device_prepares_to_wait(&*self.seen.link, last)
    }

    fn counts(&self) -> Counts {
        let wait = self.seen.link.window().word(word::DEVICE_WAIT).expect("in the preamble").load();
        Counts {
            notifications: self.seen.notifications.load(Ordering::Relaxed),
            waits: self.seen.waits.load(Ordering::Relaxed),
            interrupts: interrupts(),
            sleeps: times_waiting(wait, self.node.info().epoch),
        }
    }
}

/// How often a function that a program owns has interrupted this machine.
fn interrupts() -> u64 {
    let table = std::fs::read_to_string("/proc/interrupts").expect("Linux");
    let lines = table.lines().filter(|line| line.contains("vfio-msix"));
    lines.flat_map(|line| line.split_whitespace().skip(1).map_while(|n| n.parse::<u64>().ok())).sum()
}

/// In each round, the call finds a device that sleeps, and the caller sleeps until the reply, unless that is there
/// already, as where its machine did not run just then.
#[test]
fn no_notification_is_lost() {
    let rig = Rig::start();
    let stream = rig.node.stream().expect("a stream");
    // From one sleep to another: the device prepares to sleep a moment after its reply.
    let mut prepared = rig.device_prepares_to_wait(0);
    let (before, begin) = (rig.counts(), Instant::now());
    let mut wakes: Vec<Duration> = (0..u64::from(ROUNDS))
        .map(|n| {
            let begin = Instant::now();
            assert_eq!(stream.sync(echo::with(n)).expect("woken and answered"), n);
            let wake = begin.elapsed();
            assert!(wake < LOST, "round {n}: a notification was lost, the call took {wake:.1?}");
            prepared = rig.device_prepares_to_wait(prepared);
            wake
        })
        .collect();
    let took = begin.elapsed();
    let after = rig.counts();
    let notifications = after.notifications - before.notifications;
    let interrupts = after.interrupts - before.interrupts;
    let waits = after.waits - before.waits;
    let sleeps = after.sleeps - before.sleeps;
    wakes.sort_unstable();
    let at = |share: usize| wakes[(wakes.len() - 1) * share / 100];
    let (isa, kind) = (rig.node.info().isa, rig.seen.link.kind());
    eprintln!(
        "\n{isa} {kind}: {ROUNDS} rounds in {took:.1?}; {notifications} notifications out, {interrupts} interrupts in, this host slept {waits} \
         times, the device {sleeps}; a call that wakes it: median {:.1?}, 99 % {:.1?}, longest {:.1?}",
        at(50),
        at(99),
        at(100)
    );
    assert!(sleeps >= ROUNDS, "the device did not sleep: {sleeps} times");
    assert!(notifications >= u64::from(ROUNDS) / 10 * 9, "the device was not notified: {notifications} times");
    match rig.is_notified() {
        true => {
            assert!(waits >= u64::from(ROUNDS) / 100, "this host did not sleep: {waits} times");
            assert!(interrupts >= waits / 10 * 9, "this host slept {waits} times and was notified {interrupts} times");
        }
        false => assert_eq!(interrupts, 0, "interrupts are off"),
    }
}

/// A device that sleeps finds no message by itself: only a notification wakes it.
#[test]
fn only_a_notification_wakes_the_device() {
    let rig = Rig::start();
    let stream = rig.node.stream().expect("a stream");
    let mut woken = 0;
    for n in 0..12u64 {
        rig.seen.is_deaf.store(true, Ordering::Relaxed);
        rig.device_prepares_to_wait(0);
        // A machine that did not run just now may still do its last poll.
        std::thread::sleep(Duration::from_millis(50));
        let pending = stream.offload(echo::with(n)).expect("sent");
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(300) && !pending.is_done() {}
        let was_found = pending.is_done();
        rig.seen.is_deaf.store(false, Ordering::Relaxed);
        rig.seen.link.notify();
        assert_eq!(pending.wait().expect("woken"), n);
        assert!(begin.elapsed() < LOST, "the reply's ring was lost");
        woken += u32::from(!was_found);
        if woken == 3 {
            return;
        }
    }
    panic!("a device replied without a notification; it waited for one in only {woken} of 12 calls");
}

/// The host sleeps as long as it wants to, unless the device notifies.
#[test]
fn no_side_notifies_without_a_reason() {
    let rig = Rig::start();
    if !rig.is_notified() {
        // Over sysfs this host gets no interrupts.
        return;
    }
    let stream = rig.node.stream().expect("a stream");
    assert_eq!(stream.sync(echo::with(1u64)).expect("woken"), 1);
    rig.device_prepares_to_wait(0);
    // A notification of the call above may still arrive, because the host may have found the reply
    // first.
    let mut was_quiet = false;
    for _ in 0..10 {
        let begin = Instant::now();
        rig.seen.link.wait(300_000);
        was_quiet = begin.elapsed() >= Duration::from_millis(300);
        if was_quiet {
            break;
        }
    }
    assert!(was_quiet, "notified again and again");
    let (before, begin) = (rig.counts(), Instant::now());
    rig.seen.link.wait(100_000);
    assert!(begin.elapsed() >= Duration::from_millis(100), "notified after {:?}", begin.elapsed());
    assert_eq!(rig.counts().interrupts, before.interrupts);
}
