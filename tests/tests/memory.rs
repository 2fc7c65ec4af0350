//! Buffers between threads, devices and calls that nobody waits for.

use hamr::{BufferError, Error, Node, Options};
use hamr_kernels::bench::{count, empty};
use hamr_tests::conformance::{options, until};

fn shm(options: Options) -> Node {
    hamr_tests::devices::open("shm", options)
}

/// An eighth of the heap is named by each call, and one buffer at a time is alive.
#[test]
fn one_way_calls_give_their_buffers_back_when_answered() {
    let node = shm(Options { heap: 1 << 20, ..options() });
    let stream = node.stream().expect("free");
    for _ in 0..16 {
        let mut buffer = None;
        // The call before may still run.
        until("there is room", || {
            buffer = node.buffer(&[0u64; 16 << 10]).ok();
            buffer.is_some()
        });
        stream.send(count::with(buffer.as_ref().expect("just made").ptr())).expect("sent");
    }
}

#[test]
fn detached_calls_give_their_buffers_back_when_answered() {
    let node = shm(Options { heap: 1 << 20, ..options() });
    let buffer = node.buffer(&[0u64; 8]).expect("room");
    drop(node.offload(count::with(buffer.ptr())).expect("sent"));
    until("the buffer is free", || match node.put(&[1u64], buffer.ptr()) {
        Err(Error::Buffer { why: BufferError::Busy, .. }) => false,
        other => other.map(|()| true).expect("no other error"),
    });
    // All of the heap, given back by a failing allocation.
    drop(buffer);
    let all = node.allocate::<u64>((1 << 20) / 8).expect("room");
    drop(node.offload(count::with(all.ptr())).expect("sent"));
    drop(all);
    until("the heap is free", || node.allocate::<u64>((1 << 20) / 8).is_ok());
}

#[test]
fn a_dropped_started_call_gives_its_buffer_back_when_answered() {
    let node = shm(options());
    let stream = node.stream().expect("free");
    let buffer = node.buffer(&[0u64; 8]).expect("room");
    drop(stream.start(count::with(buffer.ptr())).expect("sent"));
    until("the buffer is free", || {
        stream.start(empty::with()).expect("sent").get().expect("runs");
        node.put(&[1u64], buffer.ptr()).is_ok()
    });
}
