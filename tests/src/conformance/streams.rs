//! Streams and threads.

use super::{Gate, Log, Open, driven, is_loopback, options, until};
use hamr::{CallOptions, Error, Options, SharedStream, StreamOptions, StreamState, SubmitError};
use hamr_kernels::bench::sum_4;
use hamr_kernels::faults::{background, echo_many, panics};
use hamr_tests_kernels::{append, append_named, echo, wait_at};
use std::time::Duration;

/// Node, own stream, thread's stream and shared stream take the same calls in the same ways.
pub fn receivers_are_alike(open: Open) {
    let node = open(options());
    let log = Log::new(&node, 100);
    macro_rules! check {
        ($on:expr) => {{
            let (on, log) = (&$on, log.words());
            let failed = on.one_way_failures();
            assert_eq!(on.outstanding(), 0);
            let room = CallOptions::reply_capacity(4096);
            let before = on.sync(append::with(log, 0)).expect("runs");
            assert_eq!(on.sync_with(append::with(log, 1), room).expect("runs"), before + 1);
            let first = on.offload(append::with(log, 2)).expect("sent");
            let second = on.offload_with(append::with(log, 3), room).expect("sent");
            on.send(append::with(log, 4)).expect("sent");
            on.send(panics::with(5)).expect("sent");
            on.flush().expect("all ran");
            assert_eq!((on.outstanding(), on.one_way_failures()), (2, failed + 1));
            assert!(first.is_done() && second.is_done(), "a flush is over when they have run");
            assert_eq!(second.wait_timeout(Duration::ZERO).expect("ran"), before + 3);
            assert_eq!(first.wait().expect("ran"), before + 2);
            assert_eq!(on.sync(append::with(log, 6)).expect("runs"), before + 5);
            assert_eq!(on.outstanding(), 0);
        }};
    }
    node.flush().expect("this thread has no stream yet");
    assert_eq!((node.outstanding(), node.one_way_failures()), (0, 0));
    check!(node);
    assert_eq!(node.local().expect("it has one now").one_way_failures(), 1, "the node's calls are on it");
    check!(node.stream().expect("a stream is free"));
    check!(node.shared_stream().expect("a stream is free"));
    // A new thread has a new stream.
    std::thread::scope(|scope| {
        scope.spawn(|| check!(node.local().expect("a stream is free")));
    });
    assert_eq!(log.entries(&node), [0, 1, 2, 3, 4, 6].repeat(4));
}

/// Four threads, one stream: every result reaches the thread that called.
pub fn shared_by_threads(open: Open) {
    let node = open(Options { ring: 16, ..options() });
    let shared = node.shared_stream().expect("a stream is free");
    std::thread::scope(|scope| {
        for t in 0..4u64 {
            let shared = shared.clone();
            scope.spawn(move || {
                for n in 0..150 {
                    let mine = t << 32 | n;
                    match n % 4 {
                        0 => assert_eq!(shared.sync(echo::with(mine)).expect("runs"), mine),
                        1 => {
                            let pending: Vec<_> =
                                (0..5).map(|i| shared.offload(sum_4::with(mine, i, 0, 0)).expect("sent")).collect();
                            for (i, pending) in pending.into_iter().enumerate().rev() {
                                assert_eq!(pending.wait().expect("runs"), mine + i as u64);
                            }
                        }
                        2 => assert_eq!(shared.sync(echo_many::with([mine; 100])).expect("runs"), [mine; 100]),
                        _ => assert_eq!(shared.sync(background::with(mine)).expect("runs"), 3 * mine),
                    }
                }
            });
        }
    });
    shared.flush().expect("all ran");
}

/// A pending result of a shared stream may be read in another thread, and outlives every other
/// handle of the stream.
pub fn shared_results_move(open: Open) {
    let node = open(options());
    let shared: SharedStream = node.shared_stream().expect("a stream is free");
    let pending: Vec<_> = (0..50u64).map(|n| shared.offload(echo::with(n)).expect("sent")).collect();
    drop(shared);
    let reader =
        std::thread::spawn(move || pending.into_iter().rev().map(|p| p.wait().expect("runs")).collect::<Vec<u64>>());
    // On a loopback device, the reading thread polls the device.
    assert_eq!(reader.join().expect("reads"), (0..50).rev().collect::<Vec<_>>());
    let shared = node.shared_stream().expect("a stream is free");
    let pending = shared.offload(background::with(4)).expect("sent");
    let value = std::thread::spawn(move || pollster::block_on(pending)).join().expect("reads").expect("runs");
    assert_eq!(value, 12);
}

/// Eight threads with one stream each, at once: no data is mixed up.
pub fn one_for_each_thread(open: Open) {
    let node = open(options());
    std::thread::scope(|scope| {
        for t in 0..8u64 {
            let node = &node;
            scope.spawn(move || {
                let stream = node.stream().expect("eight streams");
                let log = Log::new(node, 200);
                for n in 0..40 {
                    let mine = t << 32 | n;
                    assert_eq!(stream.sync(echo::with(mine)).expect("runs"), mine);
                    let pending: Vec<_> =
                        (0..4).map(|_| stream.offload(append::with(log.words(), mine)).expect("sent")).collect();
                    for (i, pending) in pending.into_iter().enumerate().rev() {
                        assert_eq!(pending.wait().expect("runs"), n * 5 + i as u64);
                    }
                    assert_eq!(stream.sync(append_named::with(log.ptr(), mine)).expect("runs"), n * 5 + 4);
                    assert_eq!(stream.sync(echo_many::with([mine; 100])).expect("runs"), [mine; 100]);
                }
                let expected: Vec<u64> = (0..200).map(|i| t << 32 | (i / 5)).collect();
                assert_eq!(log.entries(node), expected);
            });
        }
    });
    assert_eq!(node.live_buffers(), 0);
}

/// The error contains the limit and the option; a dropped stream makes room.
pub fn too_many(open: Open) {
    let node = open(Options { streams: Some(2), ..options() });
    let one = node.stream().expect("the first");
    let two = node.stream().expect("the second");
    for _ in 0..3 {
        let error = node.stream().err().expect("there is no third");
        assert!(matches!(error, Error::TooManyStreams { limit: 2, .. }), "{error:?}");
        assert!(error.to_string().contains("Options::streams"), "{error}");
        // The thread's own stream would be a third: it has the one that such threads share.
        assert_eq!(node.sync(echo::with(1u64)).expect("runs"), 1);
    }
    drop(one);
    let three = node.shared_stream().expect("there is room again");
    assert_eq!(three.sync(echo::with(3u64)).expect("runs"), 3);
    assert_eq!(two.sync(echo::with(2u64)).expect("runs"), 2);
}

/// The counts of a queue pair continue from stream to stream, so no reply of an earlier stream is
/// taken for one of a later.
pub fn opened_a_thousand_times(open: Open) {
    let node = open(Options { streams: Some(1), ring: 8, tickets: 2, ..options() });
    for n in 0..1000u64 {
        let stream = node.stream().expect("the last one was closed");
        for i in 0..n % 5 {
            assert_eq!(stream.sync(echo::with(n + i)).expect("runs"), n + i);
        }
        let pending: Vec<_> = (0..n % 7).map(|i| stream.offload(echo::with(n * i)).expect("sent")).collect();
        match n % 3 {
            0 => drop(pending),
            _ => pending.into_iter().zip(0..).for_each(|(p, i)| assert_eq!(p.wait().expect("runs"), n * i)),
        }
        if n % 4 == 0 {
            drop(stream.offload(background::with(n)).expect("sent"));
        }
    }
    let stream = node.stream().expect("the last one was closed");
    stream.flush().expect("all ran");
    assert_eq!(stream.outstanding(), 0);
}

/// `node.sync` and `node.offload` from short-lived threads.
pub fn threads_without_streams_of_their_own(open: Open) {
    let node = open(Options { streams: Some(4), ..options() });
    for round in 0..10u64 {
        std::thread::scope(|scope| {
            for t in 0..4 {
                let node = &node;
                scope.spawn(move || {
                    let mine = round << 8 | t;
                    assert_eq!(node.sync(echo::with(mine)).expect("runs"), mine);
                    let pending: Vec<_> = (0..10).map(|i| node.offload(echo::with(mine + i)).expect("sent")).collect();
                    for (i, pending) in pending.into_iter().enumerate().rev() {
                        assert_eq!(pending.wait().expect("runs"), mine + i as u64);
                    }
                });
            }
        });
        // A scope ends when the closures have returned; the threads release their streams a moment
        // later.
        until("the threads have ended", || {
            let free: Vec<_> = (0..4).map(|_| node.stream()).collect();
            free.iter().all(Result::is_ok)
        });
    }
}

/// A stream that is dropped with calls in flight: they run, and their memory becomes free when the
/// queue pair is used again.
pub fn dropped_with_calls_in_flight(open: Open) {
    let node = open(Options { streams: Some(3), ..options() });
    let log = Log::new(&node, 100);
    let gate = Gate::new(&node);
    driven(&node, || {
        let other = node.shared_stream().expect("a stream is free");
        let block = other.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
        gate.wait_for(1);
        let stream = node.stream().expect("a stream is free");
        for n in 0..50 {
            drop(stream.offload(append_named::with(log.ptr(), n)).expect("sent"));
        }
        drop(stream);
        assert!(matches!(node.put(&[1], log.ptr()), Err(Error::Buffer { .. })), "calls in flight name it");
        gate.open();
        block.wait().expect("runs");
    });
    // Any of the pairs may be the last.
    until("all three streams are free", || {
        let all: Vec<_> = (0..3).map(|_| node.stream()).collect();
        let all: Result<Vec<_>, _> = all.into_iter().collect();
        all.map(|all| all.iter().for_each(|s| s.flush().expect("all ran"))).is_ok()
    });
    assert_eq!(log.entries(&node), (0..50).collect::<Vec<_>>());
    drop((log, gate));
    assert_eq!(node.live_buffers(), 0);
}

/// While a thread has a block of a shared stream, no call of another thread comes between its own.
pub fn blocks_keep_together(open: Open) {
    const BLOCKS: u64 = 20;
    const CALLS: u64 = 10;
    let node = open(options());
    let shared = node.shared_stream().expect("a stream is free");
    let log = Log::new(&node, (4 * BLOCKS * CALLS) as usize);
    let begin = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (shared, words, begin) = (shared.clone(), log.words(), &begin);
            scope.spawn(move || {
                begin.wait();
                for n in 0..BLOCKS {
                    let _block = shared.block();
                    for call in 0..CALLS {
                        let value = (thread * BLOCKS + n) * CALLS + call;
                        // Time for the others to come between, if they could.
                        if call == 5 {
                            std::thread::sleep(Duration::from_micros(200));
                        }
                        match call {
                            // Waits inside, and a block in a block.
                            3 => drop(shared.sync(append::with(words, value)).expect("runs")),
                            6 => {
                                let _inner = shared.block();
                                shared.send(append::with(words, value)).expect("sent");
                            }
                            _ => drop(shared.offload(append::with(words, value)).expect("sent")),
                        }
                    }
                }
            });
        }
    });
    shared.flush().expect("all ran");
    let entries = log.entries(&node);
    assert_eq!(entries.len() as u64, 4 * BLOCKS * CALLS);
    for block in entries.chunks(CALLS as usize) {
        let first = block[0];
        assert!(first % CALLS == 0 && block.iter().zip(first..).all(|(value, wanted)| *value == wanted), "{block:?}");
    }
}

/// Attributes of a stream, its state, and a point behind all that was queued.
pub fn attributes_and_states(open: Open) {
    let node = open(options());
    {
        // A queue pair may have had another limit.
        let stream = node.stream().expect("free");
        drop((0..50u64).map(|n| stream.offload(echo::with(n)).expect("sent")).collect::<Vec<_>>());
        stream.flush().expect("all ran");
    }
    for _ in 0..2 {
        let stream =
            node.stream_with(StreamOptions { max_outstanding: Some(3), ..StreamOptions::default() }).expect("free");
        let mut kept: Vec<_> = (0..3u64).map(|n| stream.offload(echo::with(n)).expect("sent")).collect();
        match stream.offload(echo::with(3u64)) {
            Err(SubmitError::Full { limit: 3, .. }) => {}
            other => panic!("expected a full stream, got {:?}", other.map(|_| ())),
        }
        assert_eq!(kept.remove(0).wait().expect("runs"), 0);
        assert_eq!(stream.offload(echo::with(3u64)).expect("sent").wait().expect("runs"), 3);
    }
    let has = node.info().task_stack;
    let stack = |bytes| StreamOptions { task_stack: Some(bytes), ..StreamOptions::default() };
    drop(node.stream_with(stack(has)).expect("as the image has"));
    match node.stream_with(stack(has + 1)) {
        Err(Error::InvalidConfig { option: "StreamOptions::task_stack", expected, got }) => {
            assert!(expected.contains(&has.to_string()) && got == (has + 1).to_string(), "{expected}, {got}");
        }
        other => panic!("expected a refusal, got {:?}", other.map(|_| ())),
    }
    let shared = node.shared_stream_with(StreamOptions::default()).expect("free");
    let mut many: Vec<_> = (0..100u64).map(|n| shared.offload(echo::with(n)).expect("sent")).collect();
    assert_eq!(many.pop().expect("sent").wait().expect("runs"), 99);
    drop(many);
    let stream = node.stream().expect("free");
    assert_eq!((shared.state(), stream.state()), (StreamState::Idle, StreamState::Idle));
    let gate = Gate::new(&node);
    driven(&node, || {
        let waiting = shared.offload(wait_at::with(gate.ptr(), 5)).expect("sent");
        gate.wait_for(1);
        let point = shared.sync_point().expect("a thread");
        let later = shared.offload(echo::with(1u64)).expect("sent");
        assert!(!point.is_done() && shared.state() == StreamState::Running);
        assert_eq!(stream.state(), StreamState::Idle, "another stream");
        gate.open();
        point.wait().expect("the calls before have run");
        assert_eq!(waiting.wait().expect("runs"), 5);
        assert_eq!(later.wait().expect("runs"), 1);
    });
    node.stop();
    assert_eq!((shared.state(), stream.state()), (StreamState::Lost, StreamState::Lost));
    node.restart().expect("starts again");
    assert_eq!((shared.state(), stream.state()), (StreamState::Idle, StreamState::Idle));
}

/// A program finds its devices, and the streams that its threads have opened on them.
pub fn are_listed(open: Open) {
    let node = open(options());
    let number = node.info().node;
    // Loopback devices and the test's own machine have runtimes of their own.
    let of_runtime = || {
        crate::devices::runtime()
            .nodes()
            .into_iter()
            .find(|found| found.info().node == number)
            .map(|found| found.state())
    };
    let is_there = !is_loopback(&node) && node.info().board != "qemu-microvm";
    assert!(node.streams().is_empty(), "{:?}", node.streams());
    let shared =
        node.shared_stream_with(StreamOptions { max_outstanding: Some(7), ..StreamOptions::default() }).expect("free");
    let stream = node.stream().expect("free");
    let gate = Gate::new(&node);
    driven(&node, || {
        let waiting = shared.offload(wait_at::with(gate.ptr(), 5)).expect("sent");
        gate.wait_for(1);
        let later: Vec<_> = (0..3u64).map(|n| shared.offload(echo::with(n)).expect("sent")).collect();
        let mut streams = std::thread::scope(|scope| scope.spawn(|| node.streams()).join().expect("no panic"));
        streams.retain(|stream| stream.max_outstanding == 7 || stream.unanswered != 0);
        let [found] = &streams[..] else { panic!("{streams:?}") };
        assert_eq!((found.max_outstanding, found.is_of_body), (7, false));
        // The task has left its slot; an inline handler has not.
        let ahead = u32::from(node.info().tasks == 0);
        assert!((3 + ahead..=4).contains(&found.unanswered), "{found:?}");
        let state = of_runtime();
        gate.open();
        assert_eq!(state.is_some(), is_there);
        if let Some(state) = state {
            assert_eq!((state.info, state.lost, state.streams.len()), (node.info(), None, node.streams().len()));
        }
        assert_eq!(waiting.wait().expect("runs"), 5);
        assert!(later.into_iter().zip(0..).all(|(call, n)| call.wait().expect("runs") == n));
    });
    assert!(node.streams().iter().all(|stream| stream.unanswered == 0), "{:?}", node.streams());
    assert_eq!(node.info().task_stack == 0, node.info().tasks == 0);
    let open_streams = node.streams().len();
    drop(stream);
    assert_eq!(node.streams().len(), open_streams - 1);
    node.stop();
    let lost = of_runtime().and_then(|state| state.lost);
    assert_eq!(lost.is_some_and(|lost| lost.contains("stopped by this program")), is_there);
    drop((shared, gate));
    drop(node);
    assert!(of_runtime().is_none(), "it was dropped");
}
