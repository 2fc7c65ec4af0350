//! Tests of sleeping: no notification is lost, without any timeout that would hide a lost one; a
//! notification that is dropped on purpose costs only time; an idle side uses no processor time.
//! One macro call per kind of device:
//!
//! ```no_run
//! hamr_tests::sleeping!("shm", || Box::new(hamr::ShmLauncher), 1_000_000);
//! # fn main() {}
//! ```
//!
//! `HAMR_SOAK=1` runs all rounds of the macro's last argument instead of a fiftieth of them.

use crate::conformance::{Gate, Random, until};
use crate::{devices, processes};
use hamr::link::{Decorator, FaultInjector, Faults, Link};
use hamr::{LaunchRequest, Launcher, Node, Options, WaitMode};
use hamr_comm::abi::preamble::word;
use hamr_tests_kernels::{echo, wait_at};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// A kind of device under test.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Its spec.
    pub spec: &'static str,
    /// Makes its launcher.
    pub launcher: fn() -> Box<dyn Launcher>,
    /// Rounds of a soak.
    pub rounds: u32,
}

/// One test per case.
#[macro_export]
macro_rules! sleeping {
    ($spec:expr, $launcher:expr, $rounds:expr) => {
        mod sleeping {
            use super::*;
            const KIND: $crate::sleeping::Kind =
                $crate::sleeping::Kind { spec: $spec, launcher: $launcher, rounds: $rounds };
            $crate::__sleeping! { KIND;
                no_notification_is_lost_beside_prepare_wait, threads_sleep_together, tasks_are_woken_once,
                tasks_and_threads, dropped_notifications_cost_time_only, a_lost_device_wakes_its_host,
                idle_takes_no_processor, spinning_never_sleeps
            }
            /// How often a side sleeps at least.
            mod alone {
                use super::*;
                $crate::__sleeping! { KIND; no_notification_is_lost }
            }
        }
        mod hal {
            use super::*;
            const KIND: $crate::sleeping::Kind =
                $crate::sleeping::Kind { spec: $spec, launcher: $launcher, rounds: $rounds };
            #[test]
            fn a_drivers_sensor() {
                $crate::hal::a_drivers_sensor(KIND);
            }
            #[test]
            fn pins() {
                $crate::hal::pins(KIND);
            }
            mod alone {
                use super::*;
                #[test]
                fn a_delay() {
                    $crate::hal::a_delay(KIND);
                }
            }
        }
    };
}

/// The tests of [`sleeping!`].
#[doc(hidden)]
#[macro_export]
macro_rules! __sleeping {
    ($kind:ident; $($case:ident),*) => {$(
        #[test]
        fn $case() {
            $crate::sleeping::$case($kind);
        }
    )*};
}

/// A link that counts its notifications. The node has one share of it, the test the other.
pub(crate) struct Watched {
    pub(crate) link: Box<dyn Link>,
    notifications: AtomicU64,
}

impl Decorator for Watched {
    fn inner(&self) -> &dyn Link {
        &*self.link
    }
    fn notify(&self) {
        self.notifications.fetch_add(1, Ordering::Relaxed);
        self.link.notify();
    }
}

pub(crate) struct Rig {
    pub(crate) node: Node,
    pub(crate) seen: Arc<Watched>,
    faults: Arc<Faults>,
    /// The processes that were started for the device.
    device: Vec<u32>,
}

/// The deadline of each call of [`deep`].
const DEADLINE: Duration = Duration::from_secs(30);
/// A round of this length means a lost notification: only the deadline wakes its sleeping side,
/// which then finds the reply. No machine is so slow.
const LOST: Duration = Duration::from_secs(10);
/// Rounds that a test makes even when they take long.
const LEAST: u32 = 1000;

/// Runs one round of a test in which no notification may be lost.
///
/// # Panics
/// When the round took as long as one with a lost notification.
fn round<T>(n: u64, what: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let value = what();
    assert!(begin.elapsed() < LOST, "round {n}: a ring was lost, it took {:.1?}", begin.elapsed());
    value
}

/// How often each side went to sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sleeps {
    host: u32,
    device: u32,
}

impl Rig {
    pub(crate) fn start(kind: Kind, options: Options) -> Self {
        let options = Options { heap: 1 << 20, start_deadline: Duration::from_secs(60), ..options };
        let target = devices::runtime().target(kind.spec).expect("known").expect("takes an image");
        let image = devices::image(kind.spec).resolve(&target).expect("an image");
        let before = processes::children(std::process::id());
        let request = LaunchRequest { image: Some(&image), ..devices::request(kind.spec, &options) };
        let link = (kind.launcher)().launch(&request).expect("starts");
        let device = processes::children(std::process::id()).into_iter().filter(|p| !before.contains(p)).collect();
        let seen = Arc::new(Watched { link, notifications: AtomicU64::new(0) });
        let (link, faults) = FaultInjector::new(seen.clone());
        let node = devices::runtime().attach(kind.spec, Box::new(link), options).expect("a device");
        assert!(node.info().features.contains(hamr::Features::DOORBELL), "{:?}", node.info().features);
        Self { node, seen, faults, device }
    }

    fn device_prepares_to_wait(&self, last: u32) -> u32 {
        device_prepares_to_wait(&*self.seen.link, last)
    }

    fn sleeps(&self) -> Sleeps {
        let load = |off| self.seen.link.window().word(off).expect("in the preamble").load();
        let device = times_waiting(load(word::DEVICE_WAIT), self.node.info().epoch);
        Sleeps { host: load(word::HOST_WAIT).div_ceil(2), device }
    }
}

/// How often a device prepared to wait in this epoch, from its wait word: zero before the first
/// time, and then counted from the epoch times 65536 on (abi §7.1).
pub fn times_waiting(wait: u32, epoch: u32) -> u32 {
    if wait == 0 { 0 } else { wait.wrapping_sub(epoch << 16).div_ceil(2) }
}

/// Waits until the device's wait word is odd and not `last`, and longer than the device still polls. Returns the word. A
/// device steps its word behind its reply, so the word may still be that of the sleep before: who wants another sleep passes
/// that one, others 0.
///
/// # Panics
/// It does not prepare.
pub fn device_prepares_to_wait(link: &dyn Link, last: u32) -> u32 {
    let word = link.window().word(word::DEVICE_WAIT).expect("in the preamble");
    let mut found = 0;
    until("the device prepares to sleep", || {
        found = word.load();
        found % 2 == 1 && found != last
    });
    let begin = Instant::now();
    while begin.elapsed() < STILL_POLLS {
        std::hint::spin_loop();
    }
    found
}

/// A device polls once more behind its wait word and reads a register before it sleeps. This is much
/// longer, also where its processor is another program's for a moment.
const STILL_POLLS: Duration = Duration::from_micros(100);

/// Both sides sleep at once and without a time limit, so a message without a notification is never
/// found.
pub(crate) fn deep() -> Options {
    Options { wait: WaitMode::Sleep, longest_sleep: None, deadline: Some(DEADLINE), ..Options::default() }
}

/// The rounds of a test, one of `part` of them. Without a soak, a minute is enough: beside other
/// programs each round waits for a processor more than once.
fn rounds(kind: Kind, part: u32) -> impl Iterator<Item = u64> {
    let (soaks, begin) = (std::env::var_os("HAMR_SOAK").is_some(), Instant::now());
    let all = if soaks { kind.rounds } else { (kind.rounds / 50).max(LEAST) };
    (0..u64::from(all / part))
        .take_while(move |n| soaks || *n < LEAST.into() || begin.elapsed() < Duration::from_secs(60))
}

/// In each round, the call finds a device that sleeps, and the caller sleeps until the reply.
pub fn no_notification_is_lost(kind: Kind) {
    let rig = Rig::start(kind, deep());
    let stream = rig.node.stream().expect("a stream");
    let (before, begin) = (rig.sleeps(), Instant::now());
    let (mut done, mut prepared) = (0, 0);
    for n in rounds(kind, 1) {
        // A fast host could call while the device still polls, and then no notification is needed.
        prepared = rig.device_prepares_to_wait(prepared);
        assert_eq!(round(n, || stream.sync(echo::with(n)).expect("woken and answered")), n);
        done += 1;
    }
    let (after, took) = (rig.sleeps(), begin.elapsed());
    println!("{}: {done} rounds, {:.1} µs each, {after:?}", kind.spec, took.as_secs_f64() * 1e6 / f64::from(done));
    assert!(after.host - before.host >= done / 10, "the host did not sleep: {before:?} {after:?}");
    assert!(after.device - before.device >= done / 2, "the device did not sleep: {before:?} {after:?}");
    assert!(rig.seen.notifications.load(Ordering::Relaxed) >= u64::from(done / 2), "the device was not notified");
}

/// Notifications get lost where a side prepares to wait. So calls come at random times around that
/// moment, in the hot slot and in the ring; the caller waits for them at once, later, or not at
/// all.
pub fn no_notification_is_lost_beside_prepare_wait(kind: Kind) {
    let spin = Duration::from_micros(3);
    let rig = Rig::start(kind, Options { wait: WaitMode::Adaptive, spin, ..deep() });
    let stream = rig.node.stream().expect("a stream");
    let mut random = Random(5);
    let before = rig.sleeps();
    let mut done = 0;
    for n in rounds(kind, 1) {
        let begin = Instant::now();
        let gap = Duration::from_nanos(random.below(40_000));
        while begin.elapsed() < gap {
            std::hint::spin_loop();
        }
        round(n, || match random.below(3) {
            0 => assert_eq!(stream.sync(echo::with(n)).expect("woken"), n),
            1 => assert_eq!(stream.offload(echo::with(n)).expect("sent").wait().expect("woken"), n),
            _ => stream.send(echo::with(n)).expect("sent"),
        });
        done += 1;
    }
    round(done, || stream.flush().expect("all run"));
    let after = rig.sleeps();
    assert_ne!((before.host, before.device), (after.host, after.device));
    println!("{}: {done} rounds at the edge, {before:?} to {after:?}", kind.spec);
}

/// Threads share a doorbell, and each is woken for its own results.
pub fn threads_sleep_together(kind: Kind) {
    let rig = Rig::start(kind, deep());
    std::thread::scope(|scope| {
        for t in 0..4u64 {
            let node = &rig.node;
            scope.spawn(move || {
                let stream = node.stream().expect("a stream");
                for n in rounds(kind, 8) {
                    assert_eq!(round(n, || stream.sync(echo::with(n << 8 | t)).expect("woken")), n << 8 | t);
                }
            });
        }
    });
}

/// A waker that counts its wake-ups and unparks a thread.
struct Counted(Mutex<u64>, std::thread::Thread);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        *self.0.lock().expect("not poisoned") += 1;
        self.1.unpark();
    }
}

fn drive<F: Future>(future: F) -> (F::Output, u64) {
    let counted = Arc::new(Counted(Mutex::new(0), std::thread::current()));
    let waker = Waker::from(counted.clone());
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return (value, *counted.0.lock().expect("not poisoned"));
        }
        std::thread::park();
    }
}

/// A future sleeps until its result is there, instead of being polled all the time.
pub fn tasks_are_woken_once(kind: Kind) {
    let rig = Rig::start(kind, deep());
    let gate = Gate::new(&rig.node);
    let shared = rig.node.shared_stream().expect("a stream");
    let mut call = shared.offload(wait_at::with(gate.ptr(), 7)).expect("sent");
    let is_pending = AtomicBool::new(false);
    let waits = std::future::poll_fn(|task| {
        let polled = Pin::new(&mut call).poll(task);
        is_pending.store(polled.is_pending(), Ordering::Release);
        polled
    });
    let (value, woken) = std::thread::scope(|scope| {
        // In a thread of its own, because the owner of a scope is unparked by the threads in it.
        let task = scope.spawn(|| drive(waits));
        until("the task waits", || is_pending.load(Ordering::Acquire));
        std::thread::sleep(Duration::from_millis(200));
        gate.open();
        task.join().expect("woken")
    });
    assert_eq!(value.expect("runs"), 7);
    assert!((1..=4).contains(&woken), "woken {woken} times for one result");
    for n in rounds(kind, 8) {
        let task = || drive(shared.offload(echo::with(n)).expect("sent")).0.expect("woken");
        assert_eq!(round(n, task), n);
    }
}

/// Tasks of one thread and calls of others on one device: one notification wakes them all.
pub fn tasks_and_threads(kind: Kind) {
    let rig = Rig::start(kind, deep());
    std::thread::scope(|scope| {
        for t in 0..4u64 {
            let node = &rig.node;
            scope.spawn(move || {
                if t % 2 == 0 {
                    let stream = node.stream().expect("a stream");
                    for n in rounds(kind, 16) {
                        assert_eq!(round(n, || stream.sync(echo::with(n << 8 | t)).expect("woken")), n << 8 | t);
                    }
                } else {
                    let shared = node.shared_stream().expect("a stream");
                    for n in rounds(kind, 16) {
                        let sent = || shared.offload(echo::with(n << 8 | t)).expect("sent");
                        assert_eq!(round(n, || drive(sent()).0.expect("woken")), n << 8 | t);
                    }
                }
            });
        }
    });
}

/// Without notifications, the time limit of every sleep still finds the message.
pub fn dropped_notifications_cost_time_only(kind: Kind) {
    let longest_sleep = Some(Duration::from_millis(20));
    let rig = Rig::start(kind, Options { longest_sleep, ..deep() });
    rig.faults.drop_notifications(true);
    let stream = rig.node.stream().expect("a stream");
    for n in 0..20u64 {
        rig.device_prepares_to_wait(0);
        assert_eq!(round(n, || stream.sync(echo::with(n)).expect("found at last")), n);
    }
    assert!(
        rig.faults.dropped_notifications() >= 10,
        "{} notifications were dropped",
        rig.faults.dropped_notifications()
    );
    rig.faults.drop_notifications(false);
    assert_eq!(stream.sync(echo::with(1u64)).expect("notified again"), 1);
}

/// The end of a device sends no notification, and a host that sleeps without a limit notices it all
/// the same.
pub fn a_lost_device_wakes_its_host(kind: Kind) {
    let rig = Rig::start(kind, deep());
    let gate = Gate::new(&rig.node);
    let (shared, stream) = (rig.node.shared_stream().expect("a stream"), rig.node.stream().expect("a stream"));
    let task = shared.offload(wait_at::with(gate.ptr(), 7)).expect("sent");
    // Otherwise the other call may have its reply first.
    gate.wait_for(1);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            rig.seen.link.stop(Duration::MAX);
        });
        scope.spawn(move || drive(task).0.expect_err("gone"));
        stream.sync(echo::with(1u64)).expect_err("gone");
    });
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

/// Seconds of processor time that `process` has used.
pub fn used(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().filter_map(|i| fields.get(*i)?.parse::<u64>().ok()).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// With the default options, a device without calls uses less than a hundredth of a processor, and
/// so does a host that waits for a call on another device. Both are measured at once, in one window
/// of some seconds.
pub fn idle_takes_no_processor(kind: Kind) {
    const LIMIT: f64 = 0.01;
    const WINDOW: Duration = Duration::from_secs(5);
    let (idle, busy) = (Rig::start(kind, Options::default()), Rig::start(kind, Options::default()));
    assert!(!idle.device.is_empty(), "no process was started");
    let gate = Gate::new(&busy.node);
    let stream = busy.node.stream().expect("a stream");
    for rig in [&idle, &busy] {
        rig.node.sync(echo::with(1u64)).expect("a reply");
    }
    let host = std::process::id();
    let processes: Vec<u32> = idle.device.iter().copied().chain([host]).collect();
    let shares = || -> Vec<f64> {
        let (begin, before) = (Instant::now(), processes.iter().map(|p| used(*p)).collect::<Vec<_>>());
        std::thread::sleep(WINDOW);
        let took = begin.elapsed().as_secs_f64();
        processes.iter().zip(before).map(|(process, before)| (used(*process) - before) / took).collect()
    };
    // Interrupts and cache misses by other programs count too, so the least of several measurements
    // is used.
    let measure = || {
        let mut least = vec![f64::INFINITY; processes.len()];
        for _ in 0..6 {
            least = shares().into_iter().zip(least).map(|(share, least)| share.min(least)).collect();
            if least.iter().all(|least| *least < LIMIT) {
                break;
            }
        }
        least
    };
    // The call does not end. This program has other threads only where its tests run in parallel.
    let waits = stream.offload(wait_at::with(gate.ptr(), 7)).expect("sent");
    let least = std::thread::scope(|scope| {
        let least = scope.spawn(|| {
            // After the initial spinning.
            std::thread::sleep(Duration::from_millis(100));
            let least = measure();
            gate.open();
            least
        });
        assert_eq!(waits.wait().expect("opened"), 7);
        least.join().expect("measured")
    });
    for (process, share) in processes.iter().zip(least) {
        let who = if *process == host { "a host that waits" } else { "an idle image" };
        println!("{}: {who} takes {:.2} % of a processor", kind.spec, share * 100.0);
        assert!(share < LIMIT, "{who}: {share}");
    }
}

/// A host that asks for the least latency gets a device that never sleeps.
pub fn spinning_never_sleeps(kind: Kind) {
    let rig = Rig::start(kind, Options { wait: WaitMode::Spin, ..deep() });
    let stream = rig.node.stream().expect("a stream");
    for n in 0..20u64 {
        assert_eq!(stream.sync(echo::with(n)).expect("a reply"), n);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(rig.sleeps(), Sleeps { host: 0, device: 0 });
    assert_eq!(rig.seen.notifications.load(Ordering::Relaxed), 0);
}
