//! A waker that panics affects its own task only.

use super::small;
use hamr::{Node, Options, Pending, SharedStream, WaitMode};
use hamr_kernels::bench::empty;
use hamr_tests::conformance::{Gate, until};
use hamr_tests::threaded::Card;
use hamr_tests_kernels::wait_at;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

struct Panics;
impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker of a task panics");
    }
}
impl Drop for Panics {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "a waker of a task panics when it is dropped");
    }
}

struct Flag(AtomicBool);
impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

fn options() -> Options {
    Options { wait: WaitMode::Sleep, longest_sleep: None, ..small() }
}

/// A task waits, and then its reply is published.
fn answered(node: &Node, waker: Waker) -> Pending<wait_at, SharedStream> {
    let stream = node.shared_stream().expect("free");
    let gate = Gate::new(node);
    let mut pending = stream.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
    gate.wait_for(1);
    let polled = Pin::new(&mut pending).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending(), "the gate is closed");
    drop(waker);
    gate.open();
    pending
}

#[test]
fn a_waker_that_panics_leaves_other_tasks_awake() {
    let cards = [Card::new(&options(), true), Card::new(&options(), true)];
    let [one, other] = [cards[0].attach("one", options()), cards[1].attach("other", options())];
    let woken = |node| {
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        let pending = answered(node, Waker::from(flag.clone()));
        until("the task is woken", || flag.0.load(Ordering::Acquire));
        pending
    };
    drop(woken(&other));
    let panics = answered(&one, Waker::from(Arc::new(Panics)));
    until("the device has answered", || panics.is_done());
    // Its waker is called soon after the notification; the reactor must survive that.
    std::thread::sleep(Duration::from_millis(100));
    drop(woken(&other));
    drop(woken(&one));
}

#[test]
fn a_waker_that_panics_does_not_unwind_the_call_that_woke_it() {
    let card = Card::new(&options(), true);
    let node = card.attach("card", options());
    let (gate, shared) = (Gate::new(&node), node.shared_stream().expect("free"));
    let (waits, task) = std::thread::scope(|scope| {
        // Sleeps on the doorbell itself, and wakes the task when it is notified.
        let waits = scope.spawn(|| {
            let stream = node.stream().expect("free");
            stream.sync(wait_at::with(gate.ptr(), 1))
        });
        gate.wait_for(1);
        std::thread::sleep(Duration::from_millis(200));
        let mut pending = shared.offload(empty::with()).expect("sent");
        let waker = Waker::from(Arc::new(Panics));
        assert!(Pin::new(&mut pending).poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        gate.open();
        (waits.join().is_ok(), pending.wait_timeout(Duration::from_secs(2)).is_ok())
    });
    // Its call has a reply, so no call uses the buffer.
    let put = node.put(&[0u32], gate.ptr());
    assert!(
        waits && put.is_ok(),
        "the caller came back: {waits}, the task's call: {task}; the caller's buffer: {put:?}"
    );
}

/// A waker that waits, when it is dropped, until the library's thread goes on.
struct Waits {
    /// Lets the first function end,
    go: mpsc::Sender<()>,
    /// and waits until the second one has begun.
    begun: Mutex<mpsc::Receiver<()>>,
    told: mpsc::Sender<bool>,
}

impl Wake for Waits {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Waits {
    fn drop(&mut self) {
        let _ = self.go.send(());
        let begun = self.begun.lock().expect("no panic").recv_timeout(Duration::from_secs(20));
        let _ = self.told.send(begun.is_ok());
    }
}

#[test]
fn a_waker_is_dropped_without_a_lock() {
    let card = Card::new(&options(), true);
    let node = card.attach("wakers", options());
    let stream = node.shared_stream().expect("a stream");
    let (go, may_go) = mpsc::channel();
    let (begin, begun) = mpsc::channel();
    let (told, tells) = mpsc::channel();
    let mut first = stream.run_on_host(move || may_go.recv().ok()).expect("a thread");
    let second = stream.run_on_host(move || begin.send(())).expect("a thread");
    let waker = Waker::from(Arc::new(Waits { go, begun: Mutex::new(begun), told }));
    assert!(!first.poll_done(&waker));
    drop(waker);
    // The known waker is replaced, and so dropped.
    first.poll_done(Waker::noop());
    assert_eq!(tells.recv(), Ok(true), "the library's thread waits for a lock in which the waker is dropped");
    drop(second);
}
