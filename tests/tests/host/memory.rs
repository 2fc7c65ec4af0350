//! Buffers between threads, devices and calls whose results are dropped.

use hamr::{BufferError, CallError, CallOptions, Error, Image, Node, Options, Runtime};
use hamr_comm::BufferPtr;
use hamr_comm::abi::buffer::{BufferParts, WireBuffer};
use hamr_comm::abi::ids::NodeId;
use hamr_kernels::bench::{count, empty};
use hamr_kernels::demo::axpy;
use hamr_tests::conformance::{options, until};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn loopback(options: Options) -> Node {
    let image = Image::find(hamr_tests::devices::IMAGE).expect("a name");
    hamr_tests::devices::runtime().open_with("loopback", image, options).expect("a loopback device")
}

fn shm(options: Options) -> Node {
    hamr_tests::devices::open("shm", options)
}

/// Each call uses an eighth of the heap, and one buffer at a time exists.
#[test]
fn one_way_calls_release_their_buffers_at_the_reply() {
    let node = shm(Options { heap: 1 << 20, ..options() });
    let stream = node.stream().expect("free");
    for _ in 0..16 {
        let buffer = node.buffer(&[0u64; 16 << 10]).expect("all calls but the last have given theirs back");
        stream.send(count::with(buffer.ptr())).expect("sent");
        // Its reply comes after those of the calls before.
        stream.offload(empty::with()).expect("sent").wait().expect("runs");
    }
}

#[test]
fn detached_calls_release_their_buffers_at_the_reply() {
    let node = shm(Options { heap: 1 << 20, ..options() });
    let buffer = node.buffer(&[0u64; 8]).expect("room");
    drop(node.offload(count::with(buffer.ptr())).expect("sent"));
    until("the buffer is free", || match node.put(&[1u64], buffer.ptr()) {
        Err(Error::Buffer { why: BufferError::Busy, .. }) => false,
        other => other.map(|()| true).expect("no other error"),
    });
    // All of the heap; a failing allocation collects what is free.
    drop(buffer);
    let all = node.allocate::<u64>((1 << 20) / 8).expect("room");
    drop(node.offload(count::with(all.ptr())).expect("sent"));
    drop(all);
    until("the heap is free", || node.allocate::<u64>((1 << 20) / 8).is_ok());
}

#[test]
fn a_dropped_started_call_releases_its_buffer_at_the_reply() {
    let node = shm(options());
    let stream = node.stream().expect("free");
    let buffer = node.buffer(&[0u64; 8]).expect("room");
    drop(stream.start(count::with(buffer.ptr())).expect("sent"));
    until("the buffer is free", || {
        stream.start(empty::with()).expect("sent").wait().expect("runs");
        node.put(&[1u64], buffer.ptr()).is_ok()
    });
}

/// Threads put whole pages of one byte, and read them again: a page of two bytes was torn.
#[test]
fn transfers_of_threads_do_not_tear() {
    const PAGE: usize = 16 << 10;
    let node = loopback(options());
    let (one, other) = (node.buffer(&[0u8; PAGE]).expect("room"), node.buffer(&[0u8; PAGE]).expect("room"));
    std::thread::scope(|scope| {
        for byte in [1, 2] {
            let (node, one, other) = (&node, &one, &other);
            scope.spawn(move || {
                let mut back = [0; PAGE];
                for _ in 0..10_000 {
                    node.put(&[byte; PAGE], one.ptr()).expect("writes");
                    node.get(one.ptr(), &mut back).expect("reads");
                    assert!(back.iter().all(|b| *b == back[0]), "torn in the buffer that is put into");
                    // In both directions, so that two threads take both buffers in both orders.
                    let (from, to) = if byte == 1 { (one, other) } else { (other, one) };
                    node.copy(from.ptr(), to.ptr()).expect("copies");
                    node.get(other.ptr(), &mut back).expect("reads");
                    assert!(back.iter().all(|b| *b == back[0]), "torn in the buffer that is copied into");
                }
            });
        }
    });
}

/// Threads that allocate, write, read and free, together all of the heap.
#[test]
fn threads_allocate_write_read_and_free() {
    let node = loopback(options());
    let each = node.free_bytes() as usize / 4;
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let node = &node;
            scope.spawn(move || {
                let (mut data, mut back) = (vec![0u8; each], vec![0u8; each]);
                for round in 0..40 {
                    data.fill(thread * 40 + round);
                    let buffer = node.buffer(&data).expect("a quarter of the heap");
                    node.get(buffer.ptr(), &mut back).expect("reads");
                    assert!(back == data, "bytes of another thread");
                }
            });
        }
    });
    assert_eq!((node.live_buffers(), node.free_bytes() as usize), (0, 4 * each));
}

/// Parts of one buffer are filled and read by several threads: none of them is refused.
#[test]
fn threads_fill_parts_of_one_buffer() {
    let node = loopback(options());
    let buffer = node.buffer(&[0u32; 4000]).expect("room");
    std::thread::scope(|scope| {
        for part in 0..4u32 {
            let (node, buffer) = (&node, &buffer);
            scope.spawn(move || {
                let at = part as usize * 1000;
                let mine = buffer.ptr().slice(at..at + 1000).expect("inside");
                for n in 0..2000 {
                    node.put(&[part * 10_000 + n; 1000], mine).expect("writes");
                    let back = node.read(mine).expect("reads");
                    assert!(back.iter().all(|b| *b == part * 10_000 + n), "another thread's part");
                }
            });
        }
    });
}

/// A pointer names the device whose memory it is, as long as that memory exists.
#[test]
fn node_ids_are_unique_among_live_devices() {
    let tiny = || Options { heap: 4096, streams: Some(1), ring: 2, tickets: 1, chunk: 64, max_buffers: 4, ..options() };
    let (first, closed) = (loopback(tiny()), loopback(tiny()));
    let buffer = first.buffer(&[1u64]).expect("room");
    let orphan = closed.buffer(&[1u64]).expect("room");
    let taken = [first.info().node, closed.info().node];
    drop(closed);
    let runtime = Runtime::new().expect("another runtime");
    for _ in 0..4096 {
        let image = Image::find(hamr_tests::devices::IMAGE).expect("a name");
        let other = runtime.open_with("loopback", image, tiny()).expect("opens");
        assert!(!taken.contains(&other.info().node), "{} is in use", other.info().node);
    }
    let other = loopback(tiny());
    let theirs = other.buffer(&[2u64]).expect("room");
    for pointer in [buffer.ptr(), orphan.ptr()] {
        let put = other.put(&[3u64], pointer);
        assert!(matches!(put, Err(Error::Buffer { why: BufferError::Foreign { .. }, .. })), "{put:?}");
    }
    assert_eq!(other.read(theirs.ptr()).expect("there"), [2]);
}

/// Each call is refused, whether it finds the buffer or its end, and leaves no use of it. There is
/// one record, so that the next buffer gets it at once.
#[test]
fn a_buffer_dropped_beside_a_submission_leaves_no_use() {
    let node = loopback(Options { max_buffers: 1, heap: 4096, ..options() });
    let words = [AtomicU64::new(0), AtomicU64::new(0)];
    // A pointer to no buffer: the call is refused after its first pointer, and is not sent.
    let node_id = NodeId(node.info().node);
    let none = BufferParts { off: 0, index: 7, len: 1, generation: 0, node: node_id };
    let none = BufferPtr::<f64>::from_wire(WireBuffer::pack(none));
    for _ in 0..50 {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let stream = node.stream().expect("free");
                while !stop.load(Ordering::Relaxed) {
                    let wire = words.each_ref().map(|word| word.load(Ordering::Relaxed));
                    let pointer = BufferPtr::<f64>::from_wire(WireBuffer::from_words(wire));
                    assert!(stream.sync(axpy::with(1.0, pointer, none)).is_err());
                }
            });
            for _ in 0..20_000 {
                if let Ok(buffer) = node.allocate::<f64>(1) {
                    let [a, b] = buffer.ptr().wire().words();
                    words[0].store(a, Ordering::Relaxed);
                    words[1].store(b, Ordering::Relaxed);
                    std::hint::spin_loop();
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        let (live, again) = (node.live_buffers(), node.allocate::<f64>(1).map(drop));
        assert!(live == 0 && again.is_ok(), "no `Buffer` exists and no call is in flight: {live} live, {again:?}");
    }
}

/// Bytes that no heap has, at the ends of their numbers: each is an error, and nothing is in use afterwards.
#[test]
fn room_that_no_heap_has_is_refused() {
    let node = loopback(options());
    let one = node.buffer(&[1u64; 8]).expect("room");
    let (free, live) = (node.free_bytes(), node.live_buffers());
    for bytes in [usize::MAX, usize::MAX - 63, usize::MAX - 64, usize::MAX - 127, usize::MAX / 2, usize::MAX / 2 + 1] {
        let outcome = node.sync_with(count::with(one.ptr()), CallOptions::reply_capacity(bytes));
        assert!(matches!(outcome, Err(CallError::Submit(_))), "{bytes:#x}: {outcome:?}");
        assert!(node.allocate::<u8>(bytes).is_err(), "{bytes:#x}");
        assert_eq!((node.free_bytes(), node.live_buffers()), (free, live));
    }
    assert_eq!(one.read().expect("no call names it"), [1; 8]);
    for heap in [1 << 63, (1 << 63) - 4096, 1 << 62] {
        let image = Image::find(hamr_tests::devices::IMAGE).expect("a name");
        let opened = hamr_tests::devices::runtime().open_with("loopback", image, Options { heap, ..options() });
        assert!(matches!(opened, Err(Error::InvalidConfig { .. })), "{heap:#x}: {opened:?}");
    }
}
