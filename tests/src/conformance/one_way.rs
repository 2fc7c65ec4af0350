//! Calls without results.

use super::{Log, Open, options};
use hamr::Options;
use hamr_kernels::bench::{count, empty};
use hamr_kernels::faults::{divide, panics};
use hamr_tests_kernels::{append, append_long, append_named, append_task};

/// The device counts what arrives; a flush waits for all of it.
pub fn sent_calls_run(open: Open) {
    let node = open(Options { ring: 16, ..options() });
    let stream = node.stream().expect("a stream is free");
    let shared = node.shared_stream().expect("a stream is free");
    let log = Log::new(&node, 6000);
    for n in 0..2000 {
        stream.send(append::with(log.words(), n)).expect("sent");
    }
    stream.flush().expect("all ran");
    assert_eq!(log.entries(&node), (0..2000).collect::<Vec<_>>());
    for n in 2000..3000 {
        shared.send(append::with(log.words(), n)).expect("sent");
    }
    shared.flush().expect("all ran");
    for n in 3000..3500 {
        stream.send(append_long::with(log.words(), n, [n; 20])).expect("sent");
    }
    stream.flush().expect("all ran");
    assert_eq!(log.entries(&node), (0..3500).collect::<Vec<_>>());
    assert_eq!((stream.outstanding(), stream.one_way_failures()), (0, 0));
    // A call that is waited for runs after the one-way calls before it.
    for n in 0..10 {
        stream.send(append::with(log.words(), n)).expect("sent");
        assert_eq!(stream.sync(append::with(log.words(), n)).expect("appends"), 3501 + 2 * n);
    }
}

/// Failures of one-way calls are counted.
pub fn failures_are_counted(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let log = Log::new(&node, 1);
    for n in 0..30 {
        stream.send(empty::with()).expect("sent");
        stream.send(panics::with(n)).expect("sent");
        stream.send(divide::with(1, 0)).expect("sent");
        stream.send(divide::with(1, 1)).expect("sent");
    }
    stream.flush().expect("all ran");
    assert_eq!(stream.one_way_failures(), 60);
    // Calls with buffers and queued ones are counted as well: of each three, one finds room in the
    // log.
    for n in 0..3 {
        stream.send(append_named::with(log.ptr(), n)).expect("sent");
    }
    stream.flush().expect("all ran");
    assert_eq!(stream.one_way_failures(), 62);
    for n in 0..3 {
        stream.send(append_task::with(log.words(), n)).expect("sent");
    }
    stream.flush().expect("all ran");
    assert_eq!(stream.one_way_failures(), 65);
    // A call with a dropped result is no one-way call.
    drop(stream.offload(panics::with(1)).expect("sent"));
    stream.flush().expect("all ran");
    assert_eq!((stream.one_way_failures(), stream.outstanding()), (65, 0));
    assert_eq!(log.entries(&node), [0]);
}

/// Buffers stay in use until the one-way call has run.
pub fn sent_calls_with_buffers(open: Open) {
    let node = open(Options { ring: 8, ..options() });
    let stream = node.stream().expect("a stream is free");
    let counter = node.buffer(&[0u64]).expect("room");
    for _ in 0..500 {
        stream.send(count::with(counter.ptr())).expect("sent");
    }
    let mut seen = [0];
    stream.get(counter.ptr(), &mut seen).expect("waits for them");
    assert_eq!(seen, [500]);
    stream.send(count::with(counter.ptr())).expect("sent");
    drop(counter);
    stream.flush().expect("all ran");
    assert_eq!((node.live_buffers(), stream.outstanding()), (0, 0));
}
