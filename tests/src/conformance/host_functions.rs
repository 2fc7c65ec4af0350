//! Functions of the host in the order of a stream.

use super::{Gate, Log, Open, driven, is_loopback, options, until};
use hamr::{Error, Options};
use hamr_tests_kernels::waits::wait_task_at;
use hamr_tests_kernels::{append, echo, wait_at};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Each runs behind the calls before it, and behind the host functions before it.
pub fn run_in_stream_order(open: Open) {
    let node = open(options());
    let (stream, log) = (node.shared_stream().expect("a stream is free"), Log::new(&node, 200));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let pending: Vec<_> = (0..50u64)
        .map(|n| {
            let call = stream.offload(append::with(log.words(), n)).expect("sent");
            stream.send(append::with(log.words(), 100 + n)).expect("sent");
            let seen = seen.clone();
            let run = move || {
                assert!(call.is_done(), "the call before has its result");
                call.wait().expect("runs");
                seen.lock().expect("no panic").push(n);
                n
            };
            stream.run_on_host(run).expect("submitted")
        })
        .collect();
    for (n, pending) in pending.into_iter().enumerate() {
        assert_eq!(pending.wait().expect("runs"), n as u64);
    }
    assert_eq!(*seen.lock().expect("no panic"), (0..50).collect::<Vec<_>>());
    assert_eq!(log.entries(&node), (0..50).flat_map(|n| [n, 100 + n]).collect::<Vec<_>>());
}

/// While one waits for a call, and while it runs, later calls run.
pub fn leave_later_calls_alone(open: Open) {
    let node = open(options());
    let stream = node.shared_stream().expect("a stream is free");
    let (first, second) = (Gate::new(&node), Gate::new(&node));
    let (began, goes_on) = (Arc::new(AtomicU64::new(0)), channel());
    driven(&node, || {
        let before = stream.offload(wait_at::with(first.ptr(), 1)).expect("sent");
        let (count, released) = (began.clone(), goes_on.1);
        let function = move || {
            count.store(1, Ordering::Release);
            released.recv().is_ok()
        };
        let function = stream.run_on_host(function).expect("submitted");
        // A task, which leaves a loopback device to the thread that runs it.
        let behind = stream.offload(wait_task_at::with(second.ptr(), 2)).expect("sent");
        first.wait_for(1);
        assert_eq!((began.load(Ordering::Acquire), function.is_done()), (0, false), "a call before it runs");
        first.open();
        until("the host function runs", || began.load(Ordering::Acquire) == 1);
        second.wait_for(1);
        second.open();
        assert_eq!(behind.wait().expect("runs beside the host function"), 2);
        assert_eq!(stream.sync(echo::with(3u64)).expect("runs beside it too"), 3);
        assert!(!function.is_done());
        goes_on.0.send(()).expect("it waits");
        assert!(function.wait().expect("runs"));
        assert_eq!(before.wait().expect("runs"), 1);
    });
}

/// One may use its stream, and outlive every other handle of it.
pub fn may_call(open: Open) {
    let node = open(options());
    let stream = node.shared_stream().expect("a stream is free");
    let own = stream.clone();
    let nested = move || {
        let sum: u64 = (0..10u64).map(|n| own.sync(echo::with(n)).expect("runs")).sum();
        let last = own.run_on_host(move || sum + 1).expect("submitted");
        (sum, last)
    };
    let pending = stream.run_on_host(nested).expect("submitted");
    drop(stream);
    let (sum, last) = pollster::block_on(pending).expect("runs");
    assert_eq!((sum, pollster::block_on(last).expect("runs")), (45, 46));
}

/// A panic is its own outcome. Without the calls before it none runs.
pub fn have_an_end(open: Open) {
    let node = open(Options { deadline: Some(Duration::from_secs(20)), ..options() });
    let stream = node.shared_stream().expect("a stream is free");
    let panics = stream.run_on_host(|| -> u64 { panic!("on purpose {}", 7) }).expect("submitted");
    let next = stream.run_on_host(|| 8).expect("submitted");
    match panics.wait() {
        Err(Error::NoOutcome { stage: "running a host function", why, .. }) => {
            assert_eq!(why, "it panicked: on purpose 7");
        }
        other => panic!("expected its panic, got {other:?}"),
    }
    assert_eq!(next.wait().expect("runs"), 8);
    let ran = Arc::new(AtomicU64::new(0));
    let counts = |ran: &Arc<AtomicU64>| {
        let ran = ran.clone();
        move || ran.fetch_add(1, Ordering::Relaxed)
    };
    let gate = Gate::new(&node);
    driven(&node, || {
        let call = stream.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
        gate.wait_for(1);
        let late = stream.run_on_host(counts(&ran)).expect("submitted");
        let late = late.wait_timeout(Duration::from_millis(1));
        assert!(matches!(late, Err(Error::Timeout { .. })), "{late:?}");
        gate.open();
        call.wait().expect("runs");
        until("the detached one runs", || ran.load(Ordering::Relaxed) == 1);
    });
    // The thread of the host functions would run the handler of a loopback device, for ever.
    if !is_loopback(&node) {
        let gate = Gate::new(&node);
        let call = stream.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
        gate.wait_for(1);
        let never = stream.run_on_host(counts(&ran)).expect("submitted");
        node.restart().expect("starts again");
        assert!(matches!(never.wait(), Err(Error::Lost { .. })), "the call before it never ran");
        assert!(call.wait().is_err());
        assert_eq!(stream.run_on_host(|| 9).expect("submitted").wait().expect("runs in the new epoch"), 9);
    }
    assert_eq!(ran.load(Ordering::Relaxed), 1);
}
