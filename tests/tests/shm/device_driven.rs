//! The conformance suite over an image that drives its host's memory, and has a window of its own.

use hamr::link::Protocol;
use hamr::{CallError, Features, Node, Options, WaitMode};
use hamr_comm::abi::status::Status;
use hamr_kernels::faults::panics;
use hamr_tests::crashes::{fault, still_works};
use hamr_tests::sleeping::used;
use hamr_tests::{devices, logs};
use hamr_tests_kernels::crashes::{illegal, null};
use hamr_tests_kernels::echo;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn open(options: Options) -> Node {
    let options = Options { protocol: Some(Protocol::DeviceDriven), ..options };
    let node = devices::runtime().open_with("seen:shm", devices::image("shm"), options).expect("a device");
    assert!(node.info().protocol == Protocol::DeviceDriven && node.info().features.contains(Features::DRIVEN));
    node
}

hamr_tests::conformance!(open);

/// Without a clock that ends a sleep: what is not notified is never found.
fn open_asleep() -> Node {
    let deadline = Some(Duration::from_secs(20));
    open(Options { wait: WaitMode::Sleep, longest_sleep: None, deadline, ..Options::default() })
}

#[test]
fn no_call_is_lost_between_sides_that_sleep() {
    let node = open_asleep();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let node = &node;
            scope.spawn(move || {
                let buffer = node.buffer(&[0u64; 64]).expect("room");
                for n in 0..400 {
                    assert_eq!(node.sync(echo::with(n)).expect("answered"), n);
                    if n % 8 == thread {
                        node.put(&[n; 64], buffer.ptr()).expect("taken");
                        assert_eq!(node.read(buffer.ptr()).expect("given"), [n; 64]);
                    }
                    // From shorter to longer than a side still polls.
                    let (pause, begin) = (Duration::from_micros(n * 7 % 200), Instant::now());
                    while begin.elapsed() < pause {
                        std::hint::spin_loop();
                    }
                }
            });
        }
    });
}

#[test]
fn an_idle_device_takes_no_processor() {
    let node = open(Options::default());
    still_works(&node);
    let share = || {
        let before = used(node.info().pid);
        std::thread::sleep(Duration::from_secs(2));
        (used(node.info().pid) - before) / 2.0
    };
    // Other programs count too.
    let least = (0..5).map(|_| share()).find(|share| *share < 0.02);
    assert!(least.is_some(), "it sleeps");
    still_works(&node);
}

#[test]
fn each_fault_is_told_and_the_next_call_works() {
    let node = open(Options::default());
    for round in 0..3 {
        assert_eq!(fault(node.sync(panics::with(round))).status, Status::PANIC);
        for trap in [fault(node.sync(null::with())), fault(node.sync(illegal::with()))] {
            assert_eq!(trap.status, Status::TRAP);
            assert!(trap.to_string().contains("crashes.rs:"), "{trap}");
        }
        still_works(&node);
    }
}

/// Its own memory is as it was.
#[test]
fn a_killed_device_is_lost_and_starts_again() {
    let node = open(Options { restart: false, ..Options::default() });
    let buffer = node.buffer(&[7u64; 1 << 16]).expect("room");
    for _ in 0..3 {
        let pid = node.info().pid.to_string();
        std::process::Command::new("kill").args(["-9", &pid]).status().expect("there is such a program");
        let begin = Instant::now();
        while node.sync(echo::with(1u64)).is_ok() {
            assert!(begin.elapsed() < Duration::from_secs(10), "it is seen");
        }
        assert!(matches!(node.sync(echo::with(1u64)), Err(CallError::Submit(_) | CallError::DeviceLost(..))));
        assert!(node.put(&[8; 1 << 16], buffer.ptr()).is_err(), "nothing takes it");
        node.restart().expect("starts again");
        still_works(&node);
        assert_eq!(node.read(buffer.ptr()).expect("there"), [7; 1 << 16]);
    }
}

/// Whatever ends an epoch, and when: no result is another's, no copy that was taken is lost, and none that was given up comes later.
#[test]
fn calls_and_copies_beside_restarts_are_whole() {
    let node = open(Options { deadline: Some(Duration::from_secs(20)), ..Options::default() });
    let (ends, taken, begin) = (AtomicBool::new(false), AtomicU64::new(0), Instant::now());
    // Before the first end of the device.
    let buffers = [0, 1, 2].map(|thread| node.buffer(&[thread; 700]).expect("room"));
    std::thread::scope(|scope| {
        for (thread, buffer) in (0..).zip(&buffers) {
            let (node, ends, taken) = (&node, &ends, &taken);
            scope.spawn(move || {
                let is_on = |_: &u64| !ends.load(Ordering::Relaxed) && begin.elapsed() < Duration::from_secs(120);
                for n in (1000 * thread..).take_while(is_on) {
                    // Of a copy that has failed, nothing is said.
                    let known = node.put(&[n; 700], buffer.ptr()).ok().map(|()| n);
                    if let Ok(back) = node.sync(echo::with(n)) {
                        assert_eq!(back, n);
                    }
                    if let (Some(known), Ok(back)) = (known, node.read(buffer.ptr())) {
                        assert_eq!(back, [known; 700], "thread {thread}");
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for round in 0..15 {
            let before = taken.load(Ordering::Relaxed);
            hamr_tests::conformance::until("copies go on", || taken.load(Ordering::Relaxed) > before + 20);
            match round % 3 {
                0 => {
                    let pid = node.info().pid.to_string();
                    std::process::Command::new("kill").args(["-9", &pid]).status().expect("there is such a program");
                }
                1 => drop(node.sync(null::with())),
                _ => {}
            }
            hamr_tests::conformance::until("it starts again", || node.restart().is_ok());
        }
        ends.store(true, Ordering::Relaxed);
    });
    still_works(&node);
}

#[test]
fn log_lines_outlive_the_epoch_that_a_fault_ended() {
    logs::outlive_their_epoch(&open(Options::default()));
}
