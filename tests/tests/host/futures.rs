//! Calls as futures: combinators without a runtime, tokio, a descriptor for `epoll`, and what
//! dropping one does. Over devices in threads of this program (`hamr_tests::threaded`), with and
//! without doorbells.

use futures_util::future::{Either, join_all, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use hamr::{BufferError, CallError, CallOptions, Error, Node, Options, Pending, SharedStream, WaitMode, WakeFd};
use hamr_tests::conformance::{Gate, until};
use hamr_tests::threaded::Card;
use hamr_tests_kernels::waits::gather_at;
use hamr_tests_kernels::{echo, wait_at};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(8);

fn options() -> Options {
    Options { heap: 1 << 20, streams: Some(4), ring: 64, tickets: 8, deadline: Some(SOON), ..Options::default() }
}

/// One device that notifies and one that is polled. A caller drops the node before
/// the card, as variables of a pattern are: from the last to the first.
fn cards() -> [(Card, Node); 2] {
    [true, false].map(|doorbells| {
        let card = Card::new(&options(), doorbells);
        let node = card.attach("card", options());
        (card, node)
    })
}

fn readable(fd: &WakeFd, limit: Duration) -> bool {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&limit)).expect("polls") == 1
}

/// Waits until a call is done, as a program with `epoll` does.
fn done_by_descriptor<S: hamr::StreamRef, H: hamr::Handler>(fd: &WakeFd, pending: &mut Pending<H, S>) {
    while !pending.poll_done(fd.waker()) {
        assert!(readable(fd, 2 * SOON), "woken at the deadline, if not before");
        fd.clear();
    }
}

#[test]
fn join_all_needs_no_runtime() {
    for (_card, node) in cards() {
        let shared = node.shared_stream().expect("free");
        let calls = (0..200u64).map(|n| shared.offload(echo::with(n)).expect("sent"));
        let values = pollster::block_on(join_all(calls));
        let values: Vec<u64> = values.into_iter().map(|value| value.expect("runs")).collect();
        assert_eq!(values, (0..200).collect::<Vec<_>>());
    }
}

#[test]
fn results_come_in_the_order_of_their_ends() {
    for (_card, node) in cards() {
        let shared = node.shared_stream().expect("free");
        let (first, second) = (Gate::new(&node), Gate::new(&node));
        let calls = [gather_at::with(first.ptr(), 1), gather_at::with(second.ptr(), 2)];
        let mut calls: FuturesUnordered<_> =
            calls.map(|call| shared.offload(call).expect("sent")).into_iter().collect();
        second.open();
        assert_eq!(pollster::block_on(calls.next()).expect("two calls").expect("runs"), 2);
        first.open();
        assert_eq!(pollster::block_on(calls.next()).expect("one is left").expect("runs"), 1);
        assert!(pollster::block_on(calls.next()).is_none());
    }
}

#[test]
fn select_over_two_devices_keeps_the_other_call() {
    let [(_one, notified), (_other, polled)] = cards();
    for (slow, fast) in [(&notified, &polled), (&polled, &notified)] {
        let gate = Gate::new(slow);
        let waits = slow.shared_stream().expect("free").offload(wait_at::with(gate.ptr(), 1)).expect("sent");
        let comes = fast.shared_stream().expect("free").offload(echo::with(2u64)).expect("sent");
        let Either::Right((value, waits)) = pollster::block_on(select(waits, comes)) else {
            panic!("the gate is closed");
        };
        assert_eq!(value.expect("runs"), 2);
        gate.open();
        assert_eq!(pollster::block_on(waits).expect("runs"), 1);
    }
}

#[test]
fn a_thousand_tokio_tasks_share_a_stream() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime");
    for (_card, node) in cards() {
        let shared = node.shared_stream().expect("free");
        let tasks: Vec<_> = (0..1000u64).map(|n| tokio.spawn(three_calls(shared.clone(), n))).collect();
        let values = tokio.block_on(async { join_all(tasks).await });
        for (n, value) in values.into_iter().enumerate() {
            assert_eq!(value.expect("no panic").expect("three calls"), n as u64 + 3);
        }
        assert_eq!(shared.outstanding(), 0);
    }
}

async fn three_calls(shared: SharedStream, mut n: u64) -> Result<u64, CallError> {
    for _ in 0..3 {
        n = shared.offload(echo::with(n))?.await? + 1;
    }
    Ok(n)
}

#[test]
fn a_timeout_that_drops_a_call_loses_its_result_only() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    for (_card, node) in cards() {
        let shared = node.shared_stream().expect("free");
        let gate = Gate::new(&node);
        let waits = shared.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
        gate.wait_for(1);
        let timed = tokio.block_on(async { tokio::time::timeout(Duration::from_millis(20), waits).await });
        assert!(timed.is_err(), "the gate is closed");
        // The handler still has the buffer.
        let put = node.put(&[0u32], gate.ptr());
        assert!(matches!(put, Err(Error::Buffer { why: BufferError::Busy, .. })), "{put:?}");
        let next = shared.offload(echo::with(5u64)).expect("sent");
        gate.open();
        assert_eq!(tokio.block_on(next).expect("the device goes on"), 5);
        shared.flush().expect("both have ended");
        node.put(&[0u32], gate.ptr()).expect("no call has the buffer");
        assert_eq!(shared.outstanding(), 0);
    }
}

#[test]
fn a_timeout_over_a_reference_keeps_the_call() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    for (_card, node) in cards() {
        let shared = node.shared_stream().expect("free");
        let gate = Gate::new(&node);
        let mut waits = shared.offload(wait_at::with(gate.ptr(), 7)).expect("sent");
        let timed = tokio.block_on(async { tokio::time::timeout(Duration::from_millis(20), &mut waits).await });
        assert!(timed.is_err(), "the gate is closed");
        gate.open();
        assert_eq!(waits.wait().expect("runs"), 7);
    }
}

#[test]
fn a_call_cancelled_before_its_drop_does_not_run() {
    for (_card, node) in cards() {
        let shared = node.shared_stream().expect("free");
        let (gate, other) = (Gate::new(&node), Gate::new(&node));
        let first = shared.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
        gate.wait_for(1);
        let second = shared.offload(wait_at::with(other.ptr(), 2)).expect("sent");
        second.cancel();
        drop(second);
        gate.open();
        assert_eq!(first.wait().expect("runs"), 1);
        shared.flush().expect("the second ends without its gate");
        assert_eq!(node.words(other.ptr()).expect("alive").get(16).expect("32 words").observe(), 0, "it did not run");
    }
}

#[test]
fn a_future_that_is_polled_after_its_end_returns_an_error() {
    let [(_card, node), (_other, _polled)] = cards();
    let mut call = node.shared_stream().expect("free").offload(echo::with(1u64)).expect("sent");
    assert_eq!(pollster::block_on(&mut call).expect("runs"), 1);
    let again = pollster::block_on(&mut call);
    assert!(matches!(again, Err(CallError::Corrupt(..))), "{again:?}");
}

#[test]
fn a_descriptor_becomes_readable_when_a_reply_came() {
    for mode in [WaitMode::Spin, WaitMode::Adaptive, WaitMode::Sleep] {
        let options = Options { wait: mode, longest_sleep: None, ..options() };
        let card = Card::new(&options, true);
        let node = card.attach("card", options);
        let shared = node.shared_stream().expect("free");
        let (fd, gate) = (WakeFd::new().expect("a descriptor"), Gate::new(&node));
        let mut waits = shared.offload(wait_at::with(gate.ptr(), 3)).expect("sent");
        gate.wait_for(1);
        assert!(!waits.poll_done(fd.waker()), "the gate is closed");
        assert!(!readable(&fd, Duration::from_millis(50)), "nothing came");
        gate.open();
        assert!(readable(&fd, SOON), "{mode:?}: the reply came");
        fd.clear();
        assert!(!readable(&fd, Duration::ZERO), "cleared");
        assert!(waits.poll_done(fd.waker()));
        assert_eq!(waits.wait().expect("runs"), 3);
    }
}

#[test]
fn one_descriptor_serves_many_calls_of_two_devices() {
    let fd = WakeFd::new().expect("a descriptor");
    let [(_one, notified), (_other, polled)] = cards();
    let shared = [&notified, &polled].map(|node| node.shared_stream().expect("free"));
    for round in 0..20u64 {
        let calls = (0..16u64).map(|n| shared[(n % 2) as usize].offload(echo::with(round << 8 | n)).expect("sent"));
        let calls: Vec<_> = calls.collect();
        for (n, mut call) in calls.into_iter().enumerate() {
            done_by_descriptor(&fd, &mut call);
            assert_eq!(call.wait().expect("runs"), round << 8 | n as u64);
        }
    }
}

#[test]
fn a_descriptor_becomes_readable_at_the_deadline() {
    for (_card, node) in cards() {
        let shared = node.shared_stream().expect("free");
        let (fd, gate) = (WakeFd::new().expect("a descriptor"), Gate::new(&node));
        let limit = CallOptions::deadline(Duration::from_millis(50));
        let mut waits = shared.offload_with(wait_at::with(gate.ptr(), 3), limit).expect("sent");
        done_by_descriptor(&fd, &mut waits);
        let outcome = waits.wait();
        assert!(matches!(outcome, Err(CallError::Deadline(_))), "{outcome:?}");
    }
}

#[test]
fn a_descriptor_becomes_readable_when_the_device_is_gone() {
    let card = Card::new(&options(), true);
    let node = card.attach("card", options());
    let shared = node.shared_stream().expect("free");
    let (fd, gate) = (WakeFd::new().expect("a descriptor"), Gate::new(&node));
    let mut waits = shared.offload(wait_at::with(gate.ptr(), 3)).expect("sent");
    gate.wait_for(1);
    assert!(!waits.poll_done(fd.waker()));
    card.pull_out();
    until("the descriptor tells", || {
        fd.clear();
        waits.poll_done(fd.waker())
    });
    let outcome = waits.wait();
    assert!(matches!(outcome, Err(CallError::DeviceLost(..))), "{outcome:?}");
}
