//! A device that is a task of embassy's executor, beside another task.

use embassy_executor::Executor;
use futures_util::task::AtomicWaker;
use hamr::{Options, WaitMode};
use hamr_comm::abi::sync::Coherent;
use hamr_comm::abi::window::{DeviceWindow, Shared};
use hamr_comm::migrate::MAX_MESSAGE;
use hamr_comm::registry::Table;
use hamr_device_fw::{Board, Device};
use hamr_tests::conformance::options;
use hamr_tests::threaded::{Card, Doorbells};
use hamr_tests_kernels::echo;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// What the doorbell's interrupt of a board does, here a thread.
#[derive(Default)]
struct Interrupt {
    waker: AtomicWaker,
    is_pending: AtomicBool,
    /// How long the board's task sleeps at most.
    micros: AtomicU32,
}

struct OfTask {
    window: Option<DeviceWindow<Shared>>,
    doorbells: Arc<Doorbells>,
    interrupt: Arc<Interrupt>,
    started: Instant,
}

impl Board for OfTask {
    type Keep = Shared;
    type Order = Coherent;
    fn name(&self) -> &'static str {
        "task"
    }
    fn window(&mut self) -> Option<DeviceWindow<Shared>> {
        self.window.take()
    }
    fn notify(&mut self) {
        self.doorbells.notify_host();
    }
    fn doorbell(&self) -> bool {
        true
    }
    fn wake(&mut self, waker: &Waker, micros: u32) {
        SLEEPS.fetch_add(1, Ordering::Relaxed);
        self.interrupt.micros.store(micros, Ordering::Relaxed);
        self.interrupt.waker.register(waker);
        if self.interrupt.is_pending.swap(false, Ordering::AcqRel) {
            waker.wake_by_ref();
        }
    }
    fn sleep(&mut self, _micros: u32) {
        unreachable!("a task does not block");
    }
    fn idle(&mut self, _rounds: u32) {
        unreachable!("a task does not block");
    }
    fn micros(&mut self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }
}

/// Sleeps of the device's task, and turns of the other.
static SLEEPS: AtomicU32 = AtomicU32::new(0);
static TURNS: AtomicU32 = AtomicU32::new(0);

#[embassy_executor::task]
async fn serves(board: OfTask) {
    let device = Device::new(board, Table::of_this_image(), vec![0; MAX_MESSAGE].leak());
    let never = device.expect("a window").serving().await;
    match never {}
}

#[embassy_executor::task]
async fn counts() {
    std::future::poll_fn::<(), _>(|cx| {
        TURNS.fetch_add(1, Ordering::Relaxed);
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn run(window: DeviceWindow<Shared>, doorbells: Arc<Doorbells>, beside: bool) {
    let interrupt = Arc::new(Interrupt::default());
    let (bell, theirs) = (doorbells.clone(), interrupt.clone());
    std::thread::spawn(move || {
        loop {
            bell.wait_for_host(theirs.micros.load(Ordering::Relaxed).clamp(100, 50_000));
            theirs.is_pending.store(true, Ordering::Release);
            theirs.waker.wake();
        }
    });
    let board = OfTask { window: Some(window), doorbells, interrupt, started: Instant::now() };
    Box::leak(Box::new(Executor::new())).run(|spawner| {
        spawner.spawn(serves(board).expect("one of these"));
        if beside {
            spawner.spawn(counts().expect("one of these"));
        }
    })
}

/// Each call finds the device asleep, and another task has its turns meanwhile.
#[test]
fn a_device_is_a_task_beside_others() {
    let options = Options { wait: WaitMode::Sleep, longest_sleep: None, heap: 1 << 20, ..options() };
    let card = Card::of_device(&options, |window, doorbells| run(window, doorbells, true));
    let node = card.attach("task", options);
    for n in 0..200u64 {
        let turns = TURNS.load(Ordering::Relaxed);
        assert_eq!(node.sync(echo::with(n)).expect("runs"), n);
        hamr_tests::conformance::until("the other task has a turn", || TURNS.load(Ordering::Relaxed) > turns);
    }
    let stream = node.stream().expect("free");
    let calls: Vec<_> = (0..10_000u64).map(|n| stream.offload(echo::with(n)).expect("sent")).collect();
    for (n, call) in (0..).zip(calls) {
        assert_eq!(call.wait().expect("runs"), n);
    }
    assert!(SLEEPS.load(Ordering::Relaxed) > 100, "{SLEEPS:?}");
}

/// Without work the executor sleeps.
#[test]
fn a_device_without_calls_takes_no_turns() {
    let options = Options { wait: WaitMode::Sleep, longest_sleep: None, heap: 1 << 20, ..options() };
    let card = Card::of_device(&options, |window, doorbells| run(window, doorbells, false));
    let node = card.attach("task", options);
    assert_eq!(node.sync(echo::with(1u64)).expect("runs"), 1);
    // The clock of `run` wakes it 20 times in a second.
    let calm = || {
        let before = SLEEPS.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(500));
        SLEEPS.load(Ordering::Relaxed) - before
    };
    let fewest = (0..5).map(|_| calm()).min();
    assert!(fewest <= Some(60), "{fewest:?} sleeps in half a second");
    assert_eq!(node.sync(echo::with(2u64)).expect("runs"), 2);
}
