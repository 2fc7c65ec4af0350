//! Buffers between threads, devices and calls that nobody waits for.

use hamr::{BufferError, Error, Image, Node, Options, Runtime};
use hamr_kernels::bench::{count, empty};
use hamr_tests::conformance::{options, until};

fn loopback(options: Options) -> Node {
    let image = Image::find(hamr_tests::devices::IMAGE).expect("a name");
    hamr_tests::devices::runtime().open_with("loopback", image, options).expect("a loopback device")
}

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

/// A pointer names the device whose memory it is, as long as that memory is there.
#[test]
fn node_ids_are_unique_among_live_devices() {
    let tiny = || Options { heap: 4096, streams: 1, ring: 2, tickets: 1, chunk: 64, max_buffers: 4, ..options() };
    let (first, closed) = (loopback(tiny()), loopback(tiny()));
    let buffer = first.buffer(&[1u64]).expect("room");
    let orphan = closed.buffer(&[1u64]).expect("room");
    let taken = [first.info().node, closed.info().node];
    drop(closed);
    let runtime = Runtime::new().expect("another runtime");
    for _ in 0..4096 {
        let image = Image::find(hamr_tests::devices::IMAGE).expect("a name");
        let other = runtime.open_with("loopback", image, tiny()).expect("opens");
        assert!(!taken.contains(&other.info().node), "{} is alive", other.info().node);
    }
    let other = loopback(tiny());
    let theirs = other.buffer(&[2u64]).expect("room");
    for pointer in [buffer.ptr(), orphan.ptr()] {
        let put = other.put(&[3u64], pointer);
        assert!(matches!(put, Err(Error::Buffer { why: BufferError::Foreign { .. }, .. })), "{put:?}");
    }
    assert_eq!(other.read(theirs.ptr()).expect("there"), [2]);
}
