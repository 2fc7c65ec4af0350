//! Ends of epochs that no thread is polling for, over shared memory. A waiter that sleeps without a
//! limit is woken for the end. A device that is stopped while its next epoch begins is stopped when
//! the call returns.

use hamr::link::{Decorator, FaultInjector, Link};
use hamr::{CallError, LaunchRequest, Launcher, Node, Options, ShmLauncher, SubmitError, WaitMode};
use hamr_comm::abi::preamble::{DeviceState, word};
use hamr_kernels::faults::panics;
use hamr_tests::conformance::{options, until};
use hamr_tests::crashes::still_works;
use hamr_tests::{devices, processes};
use hamr_tests_kernels::crashes::null;
use hamr_tests_kernels::echo;
use hamr_tests_kernels::variants::RESETS;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// No machine is so slow: after this time, only the deadline can have woken the waiter.
const LOST: Duration = Duration::from_secs(10);

/// Stops the threads of a test, also when the test fails.
struct Stop<'o>(&'o AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Only a notification or the deadline wakes its callers.
fn deep() -> Options {
    let deadline = Some(LOST * 3);
    Options {
        wait: WaitMode::Sleep,
        longest_sleep: None,
        deadline,
        start_deadline: devices::START_TIMEOUT,
        ..options()
    }
}

/// A device whose process survives the ends of its epochs.
fn open_reset() -> Node {
    devices::runtime().open_with("shm", devices::variant("shm", RESETS), deep()).expect("a device")
}

/// Ends an epoch by a message whose reply is not read. Returns when it is over and no thread has
/// noticed.
fn end_unnoticed(node: &Node) {
    let path = hamr_tests::logs::window(node).path;
    let stream = node.stream().expect("free");
    // The device sleeps at first; the last of sixteen messages wakes it for certain.
    (0..15_u64).for_each(|n| stream.send(echo::with(n)).expect("sent"));
    stream.send(panics::with(1)).expect("sent");
    until("the epoch is over", || {
        let mut bytes = [0; 4];
        let file = std::fs::File::open(&path).expect("our own window");
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, word::DEVICE_STATE).expect("in the window");
        u32::from_le_bytes(bytes) == DeviceState::STOPPED.0
    });
}

/// Runs a call that must end with its epoch. Another outcome is a failure, and so is an end that
/// comes with the deadline.
fn ends<T: std::fmt::Debug>(what: impl FnOnce() -> Result<T, CallError>) {
    let begin = Instant::now();
    let outcome = what();
    assert!(matches!(outcome, Err(CallError::DeviceLost(..) | CallError::PeerReset(_))), "{outcome:?}");
    assert!(begin.elapsed() < LOST, "{:?}", begin.elapsed());
}

#[test]
fn a_waiting_thread_is_woken_by_an_unnoticed_end() {
    let node = open_reset();
    let stream = node.stream().expect("free");
    for _ in 0..5 {
        assert_eq!(stream.sync(echo::with(1u64)).expect("works"), 1);
        end_unnoticed(&node);
        ends(|| stream.sync(echo::with(2u64)));
        still_works(&node);
    }
}

#[test]
fn a_waiting_task_is_woken_by_an_unnoticed_end() {
    let node = open_reset();
    let stream = node.stream().expect("free");
    for _ in 0..5 {
        assert_eq!(stream.sync(echo::with(1u64)).expect("works"), 1);
        end_unnoticed(&node);
        let call = stream.offload(echo::with(2u64)).expect("sent");
        ends(|| pollster::block_on(call));
        still_works(&node);
    }
}

/// Threads and tasks sleep while epochs end and begin. Each of them soon has its value, or the end
/// of an epoch.
#[test]
fn waiters_have_a_value_or_the_end_of_an_epoch() {
    const EPOCHS: u32 = 300;
    let node = open_reset();
    let over = AtomicBool::new(false);
    let check = |n: u64, outcome: Result<u64, CallError>| match outcome {
        Ok(value) => assert_eq!(value, n, "a made-up value"),
        Err(CallError::DeviceLost(..) | CallError::PeerReset(_)) => {}
        Err(CallError::Submit(why)) if matches!(*why, SubmitError::DeviceLost { .. }) => {}
        Err(other) => panic!("expected a value or the end of an epoch, got {other}"),
    };
    std::thread::scope(|scope| {
        for caller in 0..4_u64 {
            let (node, over) = (&node, &over);
            scope.spawn(move || {
                let stream = node.stream().expect("free");
                let mut n = caller << 32;
                while !over.load(Ordering::Acquire) {
                    n += 1;
                    let begin = Instant::now();
                    match caller % 2 {
                        0 => check(n, stream.sync(echo::with(n))),
                        _ => stream
                            .offload(echo::with(n))
                            .into_iter()
                            .for_each(|call| check(n, pollster::block_on(call))),
                    }
                    assert!(begin.elapsed() < LOST, "{:?}", begin.elapsed());
                }
            });
        }
        let _over = Stop(&over);
        let breaks = node.stream().expect("free");
        for epoch in 0..EPOCHS {
            if epoch % 2 == 0 {
                assert!(breaks.sync(panics::with(epoch)).is_err());
            } else {
                // The first thread that notices begins the next epoch.
                let _ = (breaks.send(panics::with(epoch)), breaks.flush());
            }
            while !node.is_alive() {
                let _ = breaks.sync(echo::with(epoch));
            }
        }
    });
}

/// A stop while the next epoch begins: there is no device when the stop returns.
#[test]
fn a_device_stopped_beside_its_next_epoch_is_stopped() {
    for round in 0..10 {
        let before = processes::children(std::process::id());
        let node = devices::open("shm", options());
        let (breaks, calls) = (node.shared_stream().expect("free"), node.shared_stream().expect("free"));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    let _ = breaks.sync(null::with());
                    let _ = calls.sync(echo::with(1u64));
                }
            });
            let _over = Stop(&over);
            std::thread::sleep(Duration::from_millis(10 + round));
            node.stop();
            let alive = |process: &u32| !before.contains(process) && !processes::has_ended(*process);
            for _ in 0..20 {
                let left: Vec<_> = processes::children(std::process::id()).into_iter().filter(alive).collect();
                assert!(left.is_empty() && !node.is_alive(), "{left:?}");
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }
}

/// A link whose device can be declared lost without a notification.
struct WithoutDoorbell(Box<dyn Link>);

impl Decorator for WithoutDoorbell {
    fn inner(&self) -> &dyn Link {
        &*self.0
    }
    fn wake(&self) {}
}

/// Such an end sends no notification: the thread that wakes tasks polls for it.
#[test]
fn a_waiting_task_is_woken_by_a_silent_end() {
    let options = deep();
    let target = devices::runtime().target("shm").expect("known").expect("takes an image");
    let image = devices::image("shm").resolve(&target).expect("an image");
    let request = LaunchRequest { image: Some(&image), ..devices::request("silent", &options) };
    let (link, faults) = FaultInjector::new(WithoutDoorbell(ShmLauncher.launch(&request).expect("starts")));
    let node = devices::runtime().attach("silent", Box::new(link), options).expect("a device");
    let gate = hamr_tests::conformance::Gate::new(&node);
    let stream = node.stream().expect("free");
    let call = stream.offload(hamr_tests_kernels::wait_at::with(gate.ptr(), 1)).expect("sent");
    gate.wait_for(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // So late that the task sleeps; an earlier end would prove nothing.
            std::thread::sleep(Duration::from_millis(300));
            faults.kill();
        });
        ends(|| pollster::block_on(call));
    });
}
