//! Waits end when they should, while other threads use the same stream.

use super::small;
use hamr::{CallError, Options, SubmitError};
use hamr_comm::abi::ids::Epoch;
use hamr_kernels::bench::{empty, sum_4};
use hamr_kernels::faults::background;
use hamr_tests::conformance::{Gate, until};
use hamr_tests::threaded::Card;
use hamr_tests_kernels::wait_at;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

/// Abi §2: epochs run from 1 to 2^32 - 1.
#[test]
fn the_last_possible_epoch_ends() {
    let card = Card::in_epoch(&small(), false, Epoch(u32::MAX - 1));
    let node = card.attach("card", small());
    assert_eq!(node.info().epoch, u32::MAX);
    let stream = node.shared_stream().expect("free");
    let gate = Gate::new(&node);
    let pending = stream.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
    gate.wait_for(1);
    card.pull_out();
    let begin = Instant::now();
    let outcome = pending.wait();
    let took = begin.elapsed();
    assert!(
        matches!(outcome, Err(CallError::DeviceLost(..))) && took < Duration::from_secs(2),
        "the device is gone since {took:?}: {outcome:?}"
    );
}

/// While `blocks` waits in another thread, which the gate ends, no other operation of the stream
/// waits.
fn others_do_not_wait(blocks: impl Fn(&hamr::SharedStream) + Sync) {
    let card = Card::new(&small(), false);
    let node = card.attach("card", small());
    let stream = node.shared_stream().expect("free");
    let gate = Gate::new(&node);
    let mut calls: Vec<_> = (0..4).map(|n| stream.offload(wait_at::with(gate.ptr(), n)).expect("sent")).collect();
    gate.wait_for(1);
    let took = std::thread::scope(|scope| {
        let blocked = scope.spawn(|| blocks(&stream));
        std::thread::sleep(Duration::from_millis(200));
        assert!(!blocked.is_finished(), "it waits");
        // Opened when all have returned, or to end those that wait for the other thread.
        let (returned, all_returned) = mpsc::channel::<()>();
        let gate = &gate;
        scope.spawn(move || {
            let _ = all_returned.recv_timeout(Duration::from_secs(3));
            gate.open();
        });
        let mut took = Vec::new();
        let mut time = |what, step: &mut dyn FnMut()| {
            let begin = Instant::now();
            step();
            took.push((what, begin.elapsed()));
        };
        let mut polled = calls.pop().expect("four");
        time("is_done", &mut || assert!(!polled.is_done()));
        time("poll", &mut || {
            assert!(Pin::new(&mut polled).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        });
        let mut dropped = Some(polled);
        time("drop", &mut || drop(dropped.take()));
        let cancelled = calls.pop().expect("three");
        time("cancel", &mut || cancelled.cancel());
        let mut late = calls.pop();
        time("wait_timeout", &mut || {
            let outcome = late.take().expect("one").wait_timeout(Duration::from_millis(50));
            assert!(matches!(outcome, Err(CallError::Deadline(_))), "{outcome:?}");
        });
        assert!(!blocked.is_finished(), "it waits still");
        drop(returned);
        took
    });
    let slow: Vec<_> = took.into_iter().filter(|(_, took)| *took > Duration::from_secs(1)).collect();
    assert!(slow.is_empty(), "nothing was to wait for another thread: {slow:?}");
}

#[test]
fn a_flush_does_not_block_others_of_its_stream() {
    others_do_not_wait(|stream| stream.flush().expect("every call runs"));
}

#[test]
fn a_full_ring_does_not_block_others_of_its_stream() {
    others_do_not_wait(|stream| {
        let more: Vec<_> = (0..small().ring).map(|_| stream.offload(empty::with()).expect("sent")).collect();
        more.into_iter().for_each(|call| call.wait().expect("runs"));
    });
}

#[test]
fn a_send_into_a_full_ring_does_not_block_others_of_its_stream() {
    others_do_not_wait(|stream| (0..small().ring).for_each(|_| stream.send(empty::with()).expect("sent")));
}

#[test]
fn a_wait_for_a_ticket_does_not_block_others_of_its_stream() {
    others_do_not_wait(|stream| {
        let more: Vec<_> =
            (0..small().tickets + 1).map(|n| stream.offload(background::with(n.into())).expect("sent")).collect();
        more.into_iter().for_each(|call| assert!(call.wait().is_ok()));
    });
}

#[test]
fn a_flush_does_not_wait_for_calls_that_other_threads_add() {
    let card = Card::new(&small(), false);
    let node = card.attach("card", small());
    let stream = node.shared_stream().expect("free");
    let (first, second) = (Gate::new(&node), Gate::new(&node));
    let before = stream.offload(wait_at::with(first.ptr(), 1)).expect("sent");
    first.wait_for(1);
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| stream.flush());
        std::thread::sleep(Duration::from_millis(200));
        assert!(!flush.is_finished(), "it waits for the call before it");
        let added = stream.offload(wait_at::with(second.ptr(), 2)).expect("sent");
        first.open();
        second.wait_for(1);
        until("the flush ends", || flush.is_finished());
        flush.join().expect("no panic").expect("every call before it has run");
        second.open();
        assert_eq!(added.wait().expect("runs"), 2);
    });
    assert_eq!(before.wait().expect("ran"), 1);
}

#[test]
fn a_queued_call_without_tickets_is_refused() {
    let options = || Options { tickets: 0, ..small() };
    let card = Card::new(&options(), false);
    let node = card.attach("card", options());
    let begin = Instant::now();
    let outcome = node.offload(background::with(1)).map(drop);
    let took = begin.elapsed();
    let Err(SubmitError::NoTickets { .. }) = &outcome else { panic!("{outcome:?}") };
    let text = outcome.expect_err("refused").to_string();
    assert!(text.contains("Options::tickets") && took < Duration::from_secs(1), "{took:?}: {text}");
    assert_eq!(node.sync(sum_4::with(1, 2, 3, 4)).expect("the others work"), 10);
    let Err(CallError::Submit(why)) = node.sync(background::with(1)) else { panic!("it is not sent") };
    assert!(matches!(*why, SubmitError::NoTickets { .. }), "{why}");
    let stream = node.stream().expect("free");
    assert!(matches!(stream.send(background::with(1)), Err(SubmitError::NoTickets { .. })));
}
