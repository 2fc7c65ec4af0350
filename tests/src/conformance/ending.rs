//! Deadlines, cancellation, dropped results, futures. Each call has exactly one outcome, and a call
//! whose result is dropped leaves nothing behind.

use super::{Gate, Log, Open, driven, is_loopback, options, until};
use hamr::{CallError, CallOptions, Node, Options, SubmitError};
use hamr_kernels::bench::count;
use hamr_kernels::bench::{empty, sum_4};
use hamr_kernels::faults::{background, make_many, spin_until_cancelled};
use hamr_tests_kernels::{append, append_named, append_whenever, budget, echo, spin_at, wait_at};
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_millis(20);

fn is_deadline<E>(error: &CallError<E>) -> bool {
    matches!(error, CallError::Deadline(_))
}

/// Short, long, queued, with buffers: results dropped unread. The calls run, and after a flush no
/// completion entry and no memory is in use.
pub fn dropped_results_are_discarded(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let log = Log::new(&node, 2000);
    for n in 0..500 {
        drop(stream.offload(append::with(log.words(), n)).expect("sent"));
        drop(stream.offload(append_named::with(log.ptr(), n)).expect("sent"));
        drop(stream.offload(make_many::with(n)).expect("sent"));
        drop(stream.offload(append_whenever::with(log.words(), n)).expect("sent"));
    }
    // Some calls had their reply before the drop, some run only now.
    let answered = stream.offload(echo::with(1u64)).expect("sent");
    until("it is answered", || {
        let _ = node.ping();
        answered.is_done()
    });
    drop(answered);
    stream.flush().expect("all ran");
    assert_eq!(stream.outstanding(), 0);
    assert_eq!(node.live_buffers(), 1, "only the log");
    assert_eq!(log.entries(&node).len(), 1500);
    drop(log);
    assert_eq!((node.live_buffers(), node.free_bytes()), (0, node.info().heap));
}

/// The host gives up the call and discards its late reply; the memory that the call uses is free
/// after that reply.
pub fn deadline_of_a_pending(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let gate = Gate::new(&node);
    driven(&node, || {
        let call = stream.offload_with(wait_at::with(gate.ptr(), 1), CallOptions::deadline(SOON)).expect("sent");
        gate.wait_for(1);
        let begin = Instant::now();
        let error = call.wait().expect_err("the gate is shut");
        assert!(is_deadline(&error), "{error:?}");
        assert!(begin.elapsed() < Duration::from_secs(10));
        let text = error.to_string();
        assert!(text.contains("wait_at") && text.contains("deadline") && text.contains(&node.info().name), "{text}");
        assert_eq!(stream.outstanding(), 1, "its entry waits for the reply");
        let later = stream.offload(echo::with(7u64)).expect("sent");
        assert!(!later.is_done(), "the device is still at the gate");
        gate.open();
        assert_eq!(later.wait().expect("later calls are fine"), 7);
        stream.flush().expect("all ran");
        assert_eq!(stream.outstanding(), 0);
    });
    drop(gate);
    assert_eq!(node.live_buffers(), 0);
}

/// The same for a call that was waited for: the hot slot is busy until the late reply, and the
/// stream works all the same.
pub fn deadline_of_a_sync_call(open: Open) {
    let node = open(options());
    let (stream, other) = (node.stream().expect("free"), node.stream().expect("free"));
    let gate = Gate::new(&node);
    let log = Log::new(&node, 100);
    driven(&node, || {
        let block = other.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
        gate.wait_for(1);
        let error = stream.sync_with(append_named::with(log.ptr(), 0), CallOptions::deadline(SOON)).expect_err("late");
        assert!(is_deadline(&error), "{error:?}");
        assert!(matches!(node.put(&[1], log.ptr()), Err(hamr::Error::Buffer { .. })), "the call still names it");
        let behind: Vec<_> = (1..10).map(|n| stream.offload(append::with(log.words(), n)).expect("sent")).collect();
        let error = stream.sync_with(append::with(log.words(), 10), CallOptions::deadline(SOON)).expect_err("late too");
        assert!(is_deadline(&error), "{error:?}");
        gate.open();
        assert_eq!(stream.sync(append::with(log.words(), 11)).expect("works again"), 11);
        for (n, behind) in (1..).zip(behind) {
            assert_eq!(behind.wait().expect("runs"), n);
        }
        assert_eq!(block.wait().expect("runs"), 1);
        stream.flush().expect("all ran");
    });
    assert_eq!(log.entries(&node), (0..12).collect::<Vec<_>>(), "calls that were given up run in their order");
    drop((log, gate));
    assert_eq!(node.live_buffers(), 0);
}

/// A call waits for a full ring until its deadline, and is not sent then.
pub fn deadline_while_submitting(open: Open) {
    let node = open(Options { ring: 4, tickets: 1, ..options() });
    let (stream, other) = (node.stream().expect("free"), node.stream().expect("free"));
    let gate = Gate::new(&node);
    let log = Log::new(&node, 100);
    driven(&node, || {
        let block = other.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
        gate.wait_for(1);
        let pending: Vec<_> = (0..4).map(|n| stream.offload(append::with(log.words(), n)).expect("sent")).collect();
        let error = stream.offload_with(append_named::with(log.ptr(), 9), CallOptions::deadline(SOON)).err();
        assert!(matches!(error, Some(SubmitError::Deadline { .. })), "{error:?}");
        assert!(node.put(&[0u64; 0], log.ptr()).is_ok(), "a call that was not sent uses nothing");
        gate.open();
        for (n, pending) in (0..).zip(pending) {
            assert_eq!(pending.wait().expect("runs"), n);
        }
        block.wait().expect("runs");
        for n in 0..3 {
            assert_eq!(stream.sync(background::with(n)).expect("the ticket is free"), 3 * n);
        }
    });
    assert_eq!(log.entries(&node), [0, 1, 2, 3]);
}

/// A time limit of the read and not of the call.
pub fn wait_timeout(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let gate = Gate::new(&node);
    driven(&node, || {
        let call = stream.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
        gate.wait_for(1);
        let second = stream.offload(echo::with(2u64)).expect("sent");
        assert!(is_deadline(&call.wait_timeout(SOON).expect_err("the gate is shut")));
        assert!(is_deadline(&second.wait_timeout(Duration::ZERO).expect_err("it is behind the gate")));
        gate.open();
        let third = stream.offload(echo::with(3u64)).expect("sent");
        assert_eq!(third.wait_timeout(Duration::from_secs(20)).expect("runs"), 3);
        stream.flush().expect("all ran");
        assert_eq!(stream.outstanding(), 0);
    });
}

/// The time budget reaches the device on every path.
pub fn the_device_knows_the_deadline(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let limit = CallOptions::deadline(Duration::from_micros(12_345_678));
    assert_eq!(stream.sync(budget::with()).expect("runs"), 0);
    assert_eq!(stream.sync_with(budget::with(), limit).expect("runs"), 12_345_678);
    assert_eq!(stream.offload_with(budget::with(), limit).expect("sent").wait().expect("runs"), 12_345_678);
    assert_eq!(node.offload_with(budget::with(), limit).expect("sent").wait().expect("runs"), 12_345_678);
    let ages = CallOptions::deadline(Duration::from_secs(1 << 30));
    assert_eq!(stream.sync_with(budget::with(), ages).expect("runs"), 0, "none: the message has no room for it");
}

/// Cancelled before its turn in the queue: it never runs.
pub fn cancel_before_it_runs(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let gate = Gate::new(&node);
    let log = Log::new(&node, 10);
    driven(&node, || {
        let block = stream.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
        gate.wait_for(1);
        let plain = stream.offload(append::with(log.words(), 1)).expect("sent");
        let named = stream.offload(append_named::with(log.ptr(), 2)).expect("sent");
        let kept = stream.offload(append::with(log.words(), 3)).expect("sent");
        plain.cancel();
        named.cancel();
        named.cancel();
        arrives(&node);
        gate.open();
        let error = plain.wait().expect_err("cancelled");
        assert!(matches!(error, CallError::Cancelled(_)), "{error:?}");
        assert!(error.to_string().contains("append"), "{error}");
        assert!(matches!(named.wait(), Err(CallError::Cancelled(_))));
        assert_eq!(kept.wait().expect("runs"), 0);
        block.wait().expect("was not cancelled");
    });
    assert_eq!(log.entries(&node), [3]);
}

/// Whatever was published before is at the device, also where it travels: the second question goes behind what went with the first.
fn arrives(node: &Node) {
    for _ in 0..2 {
        let is_there = node.round_trip().is_some();
        assert!(is_there || node.info().remote.is_none(), "no answer");
    }
}

/// Cancelled while it runs: a handler that checks for it returns early.
pub fn cancel_while_it_runs(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let gate = Gate::new(&node);
    driven(&node, || {
        let call = stream.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
        gate.wait_for(1);
        assert!(!call.is_done());
        call.cancel();
        assert!(matches!(call.wait(), Err(CallError::Cancelled(_))));
        let spin = stream.offload(spin_until_cancelled::with(u64::MAX)).expect("sent");
        spin.cancel();
        assert!(matches!(spin.wait(), Err(CallError::Cancelled(_))));
        assert_eq!(stream.sync(sum_4::with(1, 2, 3, 4)).expect("the next call works"), 10);
    });
}

/// A queued call is cancelled in its ticket slot, before and while it runs.
pub fn cancel_a_queued_call(open: Open) {
    let node = open(options());
    let (stream, other) = (node.stream().expect("free"), node.stream().expect("free"));
    let gate = Gate::new(&node);
    let log = Log::new(&node, 10);
    driven(&node, || {
        let running = stream.offload(spin_at::with(gate.ptr(), 1)).expect("sent");
        gate.wait_for(1);
        let waiting = other.offload(append_whenever::with(log.words(), 1)).expect("sent");
        waiting.cancel();
        arrives(&node);
        running.cancel();
        assert!(matches!(running.wait(), Err(CallError::Cancelled(_))));
        assert!(matches!(waiting.wait(), Err(CallError::Cancelled(_))));
        for n in 0..20 {
            assert_eq!(other.sync(background::with(n)).expect("its ticket is free again"), 3 * n);
            assert_eq!(stream.sync(background::with(n)).expect("its ticket is free again"), 3 * n);
        }
    });
    assert_eq!(log.entries(&node), [0u64; 0]);
}

/// Cancelled too late: the value is kept.
pub fn cancel_after_it_ran(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    for n in 0..20u64 {
        let (plain, queued) = (stream.offload(echo::with(n)), stream.offload(background::with(n)));
        let (plain, queued) = (plain.expect("sent"), queued.expect("sent"));
        stream.flush().expect("both ran");
        assert!(plain.is_done() && queued.is_done());
        plain.cancel();
        queued.cancel();
        assert_eq!((plain.wait().expect("it ran"), queued.wait().expect("it ran")), (n, 3 * n));
        assert_eq!(stream.sync(echo::with(n)).expect("the next call is another one"), n);
        assert_eq!(stream.offload(echo::with(n)).expect("sent").wait().expect("and the next"), n);
    }
}

/// A cancelled short call does not affect a queued call that was submitted around it.
pub fn cancel_hits_one_call_only(open: Open) {
    let node = open(Options { tickets: 2, ..options() });
    let (stream, other) = (node.stream().expect("free"), node.stream().expect("free"));
    for _ in 0..20 {
        let gate = Gate::new(&node);
        driven(&node, || {
            // Entries that were used before still have the state of their last call.
            drop((0..4u64).map(|n| stream.offload(echo::with(n)).expect("sent")).collect::<Vec<_>>());
            stream.flush().expect("all ran");
            let block = other.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
            gate.wait_for(1);
            let queued: Vec<_> = (0..2).map(|n| stream.offload(background::with(n)).expect("sent")).collect();
            let plain: Vec<_> = (0..4u64).map(|n| stream.offload(echo::with(n)).expect("sent")).collect();
            plain.iter().for_each(|p| p.cancel());
            gate.open();
            for (n, plain) in (0..).zip(plain) {
                match plain.wait() {
                    Err(CallError::Cancelled(_)) => {}
                    Ok(value) if gate.is_far() => assert_eq!(value, n, "the mark came late"),
                    other => panic!("expected a cancelled call, got {other:?}"),
                }
            }
            for (n, queued) in (0..).zip(queued) {
                assert_eq!(queued.wait().expect("it was not cancelled"), 3 * n);
            }
            block.wait().expect("runs");
        });
    }
}

/// A pending result is a future.
pub fn futures(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let shared = node.shared_stream().expect("a stream is free");
    for n in 0..100u64 {
        assert_eq!(pollster::block_on(stream.offload(echo::with(n)).expect("sent")).expect("runs"), n);
        assert_eq!(pollster::block_on(shared.offload(echo::with(n)).expect("sent")).expect("runs"), n);
    }
    assert_eq!(pollster::block_on(node.offload(background::with(5)).expect("sent")).expect("runs"), 15);
    let long = pollster::block_on(stream.offload(make_many::with(5)).expect("sent")).expect("runs");
    assert_eq!(long[1023], 5 + 1023);
    // A future that is polled after its end returns an error, not a panic and not the result of
    // another call.
    let mut done = stream.offload(echo::with(1u64)).expect("sent");
    assert_eq!(pollster::block_on(&mut done).expect("runs"), 1);
    assert!(matches!(pollster::block_on(&mut done), Err(CallError::Corrupt(..))));
    assert_eq!(stream.outstanding(), 0);
}

/// Many futures in one task, finished in any order.
pub fn futures_join(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let mut futures: Vec<_> = (0..200u64).map(|n| Some(stream.offload(echo::with(n)).expect("sent"))).collect();
    let mut results = vec![None; futures.len()];
    let joined = std::future::poll_fn(|task| {
        // From the back, so that the polling order differs from the finishing order.
        for (future, result) in futures.iter_mut().zip(&mut results).rev() {
            if let Some(running) = future
                && let Poll::Ready(value) = Pin::new(running).poll(task)
            {
                *result = Some(value.expect("runs"));
                *future = None;
            }
        }
        if results.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    });
    pollster::block_on(joined);
    assert!(results.iter().zip(0..).all(|(result, n)| *result == Some(n)));
    assert_eq!(stream.outstanding(), 0);
}

/// A future respects the deadline of its call, and the device's default one.
pub fn futures_have_deadlines(open: Open) {
    let node = open(Options { deadline: Some(Duration::from_millis(100)), ..options() });
    let stream = node.stream().expect("a stream is free");
    let gate = Gate::new(&node);
    // On a loopback device the test itself would run the handler, and would wait at the gate for
    // ever.
    if is_loopback(&node) {
        let call = stream.offload_with(empty::with(), CallOptions::deadline(Duration::ZERO)).expect("sent");
        assert!(is_deadline(&pollster::block_on(call).expect_err("no time at all")));
        return;
    }
    let call = stream.offload_with(wait_at::with(gate.ptr(), 1), CallOptions::deadline(SOON)).expect("sent");
    assert!(is_deadline(&pollster::block_on(call).expect_err("the gate is shut")));
    let call = stream.offload(echo::with(1u64)).expect("sent");
    let begin = Instant::now();
    assert!(is_deadline(&pollster::block_on(call).expect_err("the default one")));
    assert!(begin.elapsed() >= Duration::from_millis(99));
    gate.open();
    let ample = CallOptions::deadline(Duration::from_secs(20));
    assert_eq!(pollster::block_on(stream.offload_with(echo::with(2u64), ample).expect("sent")).expect("runs"), 2);
}

/// A future that was polled to its end has returned its result. Reading it again is an error, and
/// affects no other call.
pub fn a_result_is_taken_once(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let mut first = stream.offload(echo::with(1u64)).expect("sent");
    assert_eq!(pollster::block_on(&mut first).expect("runs"), 1);
    let second = stream.offload(echo::with(2u64)).expect("sent");
    assert!(first.is_done());
    first.cancel();
    assert!(matches!(first.wait(), Err(CallError::Corrupt(..))));
    assert_eq!(second.wait().expect("untouched"), 2);
    let many: Vec<_> = (0..10u64).map(|n| stream.offload(echo::with(n)).expect("sent")).collect();
    for (n, pending) in (0..).zip(many) {
        assert_eq!(pending.wait().expect("each its own"), n);
    }
    assert_eq!(stream.outstanding(), 0);
}

/// A call in the hot slot is asked for and waited for as any other; after its time it is abandoned, and what it names is free when the
/// late reply has come.
pub fn wait_timeout_of_a_started_call(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let gate = Gate::new(&node);
    driven(&node, || {
        let call = stream.start(wait_at::with(gate.ptr(), 1)).expect("sent");
        gate.wait_for(1);
        assert!(!call.is_done(), "the gate is shut");
        let error = call.wait_timeout(SOON).expect_err("the gate is shut");
        assert!(is_deadline(&error), "{error:?}");
        // The hot slot is taken: this one comes through the ring.
        let behind = stream.start(echo::with(2u64)).expect("sent");
        assert!(!behind.is_done(), "it is behind the gate");
        gate.open();
        assert_eq!(behind.wait_timeout(Duration::from_secs(20)).expect("runs"), 2);
        stream.flush().expect("all ran");
    });
    let call = stream.start(echo::with(3u64)).expect("sent");
    until("it is answered", || call.is_done());
    assert!(call.is_done(), "until it is read");
    assert_eq!(call.wait_timeout(Duration::ZERO).expect("the reply is there"), 3);
    let call = stream.start(echo::with(4u64)).expect("sent");
    assert_eq!(call.wait_timeout(Duration::from_secs(20)).expect("runs"), 4);
    drop(gate);
    assert_eq!((stream.outstanding(), node.live_buffers()), (0, 0));
}

/// A flush runs a started call, whether or not its reply is there or read.
pub fn flush_runs_a_started_call(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let buffer = node.buffer(&[1u64]).expect("room");
    let started = stream.start(count::with(buffer.ptr())).expect("sent");
    stream.flush().expect("it ran");
    started.wait().expect("runs");
    assert_eq!(node.read(buffer.ptr()).expect("free again"), [2]);
    // Dropped instead of read: its reply is discarded, and the slot can be used again. The reply may
    // come between any two steps of the flush, so there are many.
    for ran in 3..3000 {
        drop(stream.start(count::with(buffer.ptr())).expect("sent"));
        stream.flush().expect("it ran");
        assert_eq!(node.read(buffer.ptr()).expect("free again"), [ran]);
    }
}
