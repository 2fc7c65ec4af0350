//! Restarts of a device while a host uses it.

use super::{Gate, Log, Open, is_driven, is_loopback, options, refusal};
use hamr::{BufferError, CallError, Error, Node, SubmitError};
use hamr_kernels::faults::background;
use hamr_tests_kernels::{append, append_named, echo, wait_at};
use std::time::Duration;

fn ended<T: std::fmt::Debug, E: std::fmt::Debug>(outcome: Result<T, CallError<E>>) {
    match outcome {
        Err(e @ (CallError::PeerReset(_) | CallError::DeviceLost(..))) => {
            assert!(e.to_string().contains("kernels::"), "the handler is named: {e}");
        }
        other => panic!("expected the end of an epoch, got {other:?}"),
    }
}

/// Keeps the device busy until it is stopped. A loopback device is idle anyway unless a thread
/// waits.
fn block<'n>(node: &'n Node, stream: &hamr::Stream<'n>) -> Gate<'n> {
    let gate = Gate::new(node);
    if !is_loopback(node) {
        drop(stream.offload(wait_at::with(gate.ptr(), 1)).expect("sent"));
        gate.wait_for(1);
    }
    gate
}

/// Every call in flight has one outcome, on every kind of stream, read before or after the new
/// epoch began.
pub fn outstanding_calls_end_once(open: Open) {
    let node = open(options());
    let (stream, other) = (node.stream().expect("free"), node.stream().expect("free"));
    let shared = node.shared_stream().expect("free");
    let answered = stream.offload(echo::with(1u64)).expect("sent");
    stream.flush().expect("it ran");
    let gate = block(&node, &other);
    let log = Log::new(&node, 100);
    let plain: Vec<_> = (0..50).map(|n| stream.offload(append::with(log.words(), n)).expect("sent")).collect();
    let named: Vec<_> = (0..20).map(|n| stream.offload(append_named::with(log.ptr(), n)).expect("sent")).collect();
    let queued: Vec<_> = (0..5).map(|n| other.offload(background::with(n)).expect("sent")).collect();
    let moved: Vec<_> = (0..20).map(|n| shared.offload(background::with(n / 5)).map(|p| (n, p))).take(5).collect();
    stream.send(append::with(log.words(), 99)).expect("sent");
    node.restart().expect("starts again");
    drop(gate);
    assert!(node.is_alive());
    assert_eq!(answered.wait().expect("it was answered in the epoch before"), 1);
    plain.into_iter().for_each(|p| ended(p.wait()));
    queued.into_iter().for_each(|p| ended(pollster::block_on(p)));
    for pending in moved {
        let (_, pending) = pending.expect("sent");
        std::thread::spawn(move || ended(pending.wait())).join().expect("an end");
    }
    // These are dropped unread, and their memory becomes free all the same.
    drop(named);
    for stream in [&stream, &other] {
        stream.flush().expect("nothing is left");
        assert_eq!(stream.outstanding(), 0);
    }
    assert_eq!(log.entries(&node), [0u64; 0], "nothing of the old epoch runs in the new one");
    drop(log);
    assert_eq!(node.live_buffers(), 0);
}

/// Open streams and buffers still work after a restart.
pub fn streams_and_buffers_go_on(open: Open) {
    let node = open(options());
    let (stream, shared) = (node.stream().expect("free"), node.shared_stream().expect("free"));
    let data = node.buffer(&(0..1000u64).collect::<Vec<_>>()).expect("room");
    assert_eq!(stream.sync(echo::with(1u64)).expect("runs"), 1);
    let before = node.info();
    node.restart().expect("starts again");
    let after = node.info();
    assert_eq!(after.epoch, before.epoch + 1, "the next epoch; a device may have had others before");
    assert!(before.pid == 0 || before.pid != after.pid, "another process");
    assert_eq!(node.read(data.ptr()).expect("reads"), (0..1000).collect::<Vec<_>>());
    for n in 0..300u64 {
        assert_eq!(stream.sync(echo::with(n)).expect("runs"), n);
        assert_eq!(shared.sync(echo::with(n)).expect("runs"), n);
        assert_eq!(node.sync(echo::with(n)).expect("runs"), n);
        assert_eq!(stream.offload(background::with(n)).expect("sent").wait().expect("runs"), 3 * n);
    }
    node.sync(hamr_kernels::demo::fill::with(4u64, data.ptr())).expect("runs");
    assert_eq!(node.read(data.ptr()).expect("reads"), [4; 1000]);
    assert_eq!(node.stream().expect("a new one").sync(echo::with(5u64)).expect("runs"), 5);
}

/// While there is no device, everything that needs one fails at once, each time.
pub fn a_stopped_device_refuses(open: Open) {
    let node = open(options());
    let (stream, shared) = (node.stream().expect("free"), node.shared_stream().expect("free"));
    let data = node.buffer(&[3u64; 4]).expect("room");
    assert_eq!(node.sync(echo::with(1u64)).expect("runs"), 1);
    node.stop();
    assert!(!node.is_alive());
    let lost = |error: SubmitError| {
        assert!(matches!(&error, SubmitError::DeviceLost { .. }), "{error:?}");
        assert!(error.to_string().contains("stopped by this program"), "{error}");
    };
    for _ in 0..3 {
        lost(refusal(stream.sync(echo::with(1u64)).expect_err("no device")));
        lost(refusal(shared.sync(echo::with(1u64)).expect_err("no device")));
        lost(refusal(node.sync(append_named::with(data.ptr(), 1)).expect_err("no device")));
        lost(stream.offload(echo::with(1u64)).err().expect("no device"));
        lost(shared.offload(background::with(1)).err().expect("no device"));
        lost(node.offload(echo::with(1u64)).err().expect("no device"));
        lost(stream.send(append::with([0; 2], 1)).expect_err("no device"));
        lost(stream.send(append_named::with(data.ptr(), 1)).expect_err("no device"));
        assert!(node.ping().is_err());
        assert!(matches!(node.stream(), Err(Error::Lost { .. })));
    }
    assert_eq!(stream.outstanding(), 0);
    match node.read(data.ptr()) {
        // What drives its host's memory has its heap for itself, and gives nothing out of it without an image.
        Err(Error::Buffer { why: BufferError::Unreachable, .. }) if is_driven(&node) => {}
        read => assert_eq!(read.expect("the memory is the host's"), [3; 4]),
    }
    node.restart().expect("starts again");
    assert_eq!(stream.sync(echo::with(2u64)).expect("runs"), 2);
}

/// Stopped and started many times, with calls in flight.
pub fn again_and_again(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let first = node.info().epoch;
    for epoch in 1..=10u64 {
        assert_eq!(u64::from(node.info().epoch - first) + 1, epoch);
        assert_eq!(stream.sync(echo::with(epoch)).expect("runs"), epoch);
        let gate = block(&node, &stream);
        let pending: Vec<_> = (0..10u64).map(|n| stream.offload(echo::with(n)).expect("sent")).collect();
        if epoch % 2 == 0 {
            node.stop();
            assert!(!node.is_alive());
            let error = stream.sync(echo::with(0u64)).expect_err("there is no device");
            assert!(error.to_string().contains("stopped by this program"), "{error}");
        }
        node.restart().expect("starts again");
        pending.into_iter().for_each(|p| ended(p.wait()));
        drop(gate);
    }
    stream.flush().expect("nothing is left");
    assert_eq!((stream.outstanding(), node.live_buffers()), (0, 0));
}

/// A call that was started in the hot slot belongs to its epoch. After a restart it ends once, and
/// neither reading nor dropping it affects the call that uses the slot then.
pub fn a_started_call_ends_with_its_epoch(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let (read, dropped) = (node.stream().expect("free"), node.stream().expect("free"));
    let gate = block(&node, &stream);
    let old = read.start(echo::with(1u64)).expect("sent");
    let other = dropped.start(echo::with(2u64)).expect("sent");
    node.restart().expect("starts again");
    assert_eq!(read.sync(echo::with(3u64)).expect("the new epoch"), 3);
    let new = dropped.start(echo::with(4u64)).expect("sent");
    assert!(other.is_done() && old.is_done(), "their epoch is over");
    assert!(other.is_done() && old.is_done(), "their epoch is over");
    drop(other);
    assert_eq!(new.wait().expect("its own reply"), 4);
    ended(old.wait_timeout(Duration::from_secs(20)));
    assert_eq!(read.start(echo::with(5u64)).expect("sent").wait().expect("runs"), 5);
    drop(gate);
}

/// A thread waits until another one has restarted the device.
pub fn waited_for(open: Open) {
    let node = open(options());
    // A device that hosts share is not in its first epoch.
    let before = node.info().epoch;
    node.wait_until_back(Duration::ZERO).expect("it is there");
    let stream = node.stream().expect("free");
    let gate = block(&node, &stream);
    let log = Log::new(&node, 8);
    let old: Vec<_> = (0..8).map(|n| stream.offload(append::with(log.words(), n)).expect("sent")).collect();
    let is_far = gate.is_far();
    node.stop();
    drop(gate);
    let error = node.wait_until_back(Duration::from_millis(20)).expect_err("nothing restarts it").to_string();
    for part in ["stopped by this program", "waiting until it is back", "20ms"] {
        assert!(error.contains(part), "`{part}` in: {error}");
    }
    let epoch = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| node.wait_until_back(Duration::from_secs(60)).map(|()| node.info().epoch));
        node.restart().expect("starts again");
        waiting.join().expect("returns").expect("it is back")
    });
    assert_eq!(epoch, before + 1);
    old.into_iter().for_each(|p| ended(p.wait()));
    assert_eq!(stream.sync(echo::with(7u64)).expect("the stream goes on"), 7);
    let ran = log.entries(&node);
    // Marks that end calls reach a far device one by one: some may run before it leaves, in their order.
    let may_run = is_far && ran.is_sorted_by(|one, next| one < next) && ran.iter().all(|n| *n < 8);
    assert!(ran.is_empty() || may_run, "nothing of the old epoch runs in the new one: {ran:?}");
}
