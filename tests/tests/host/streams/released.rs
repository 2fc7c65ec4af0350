//! The remains of a dropped host do not affect the next host of the device.

use super::small;
use hamr::{CallOptions, Node};
use hamr_kernels::bench::empty;
use hamr_tests::conformance::Gate;
use hamr_tests::threaded::Card;
use hamr_tests_kernels::wait_at;
use std::sync::mpsc;
use std::time::Duration;

/// Through the ring, because the device also polls the hot slot of the last served stream while no
/// queue pair is open.
fn calls_are_served(node: &Node, behind: impl FnOnce()) {
    let stream = node.stream().expect("free");
    stream.sync(empty::with()).expect("works");
    behind();
    let limit = CallOptions::deadline(Duration::from_secs(3));
    let outcome = stream.offload_with(empty::with(), limit).expect("sent").wait();
    assert!(outcome.is_ok(), "the second host's call: {outcome:?}");
}

#[test]
fn a_stream_that_outlives_its_node_closes_no_stream_of_the_next_host() {
    let card = Card::new(&small(), false);
    let first = card.attach("first", small());
    let left = first.shared_stream().expect("free");
    left.sync(empty::with()).expect("works");
    drop(first);
    calls_are_served(&card.attach("second", small()), || drop(left));
}

#[test]
fn a_thread_that_ends_closes_no_stream_of_the_next_host() {
    let card = Card::new(&small(), false);
    let first = std::sync::Arc::new(card.attach("first", small()));
    let (end, told) = mpsc::channel::<()>();
    let (called, has_called) = mpsc::channel::<()>();
    let worker = {
        let node = first.clone();
        std::thread::spawn(move || {
            node.sync(empty::with()).expect("works");
            drop(node);
            called.send(()).expect("the test waits");
            told.recv().expect("the test continues");
        })
    };
    has_called.recv().expect("it called");
    drop(std::sync::Arc::into_inner(first).expect("the last one"));
    calls_are_served(&card.attach("second", small()), || {
        end.send(()).expect("the thread waits");
        worker.join().expect("ends");
    });
}

#[test]
fn a_call_of_a_released_host_cancels_no_call_of_the_next() {
    let card = Card::new(&small(), false);
    let first = card.attach("first", small());
    let left = first.shared_stream().expect("free");
    let old = {
        let gate = Gate::new(&first);
        let old = left.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
        gate.wait_for(1);
        // The gate stays closed, so that only the host's end can end the call.
        std::mem::forget(gate);
        old
    };
    drop(first);
    let second = card.attach("second", small());
    let stream = second.stream().expect("free");
    let gate = Gate::new(&second);
    let new = stream.offload(wait_at::with(gate.ptr(), 2)).expect("sent");
    gate.wait_for(1);
    old.cancel();
    // Time for the handler to read the bit.
    std::thread::sleep(Duration::from_millis(200));
    gate.open();
    let outcome = new.wait();
    assert!(matches!(outcome, Ok(2)), "the second host's call was not cancelled: {outcome:?}");
}
