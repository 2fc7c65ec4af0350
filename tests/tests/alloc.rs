//! Calls do not allocate (shared memory, after a warm-up).

#![expect(unsafe_code)]
// UNSAFETY: only an allocator can count allocations; this one passes everything on.

use hamr::{Image, Node, Runtime};
use hamr_kernels::bench::{count, empty, sum_4};
use hamr_kernels::faults::spin_until_cancelled;
use hamr_tests_kernels::echo;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;

struct Counting;

thread_local! {
    // Per thread, because the test runner's own threads may allocate.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn note() {
    ALLOCATIONS.with(|n| n.set(n.get() + 1));
}

// SAFETY: each method hands its arguments to the system's allocator unchanged; the counter neither
// allocates nor unwinds (a thread-local of a constant without a destructor).
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note();
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, new_size) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `f` once to warm up, then counts what it allocates.
fn allocations(mut f: impl FnMut(u64)) -> u64 {
    f(2_000);
    let before = ALLOCATIONS.get();
    f(20_000);
    ALLOCATIONS.get() - before
}

fn open() -> Node {
    Runtime::new()
        .expect("a runtime")
        .open("shm", Image::find(hamr_tests::devices::IMAGE).expect("a name"))
        .expect("a device")
}

#[test]
fn the_counter_counts() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(1)));
    drop(std::hint::black_box(vec![0u8; 100]));
    assert_eq!(ALLOCATIONS.get() - before, 2);
}

#[test]
fn calls_that_are_waited_for_do_not_allocate() {
    let node = open();
    let stream = node.stream().expect("a stream is free");
    let counter = node.buffer(&[0u64]).expect("room");
    let calls = |n: u64| {
        for i in 0..n / 4 {
            stream.sync(empty::with()).expect("runs");
            assert_eq!(stream.sync(sum_4::with(i, 1, 2, 3)).expect("runs"), i + 6);
            assert_eq!(node.sync(echo::with(i)).expect("runs"), i);
            stream.sync(count::with(counter.ptr())).expect("runs");
        }
    };
    assert_eq!(allocations(calls), 0);
}

#[test]
fn pipelined_calls_do_not_allocate() {
    let node = open();
    let stream = node.stream().expect("a stream is free");
    let mut window = VecDeque::with_capacity(64);
    let calls = |n: u64| {
        for i in 0..n {
            if window.len() == 64
                && let Some((sent, oldest)) = window.pop_front()
            {
                let pending: hamr::Pending<echo<u64>, &hamr::Stream> = oldest;
                assert_eq!(pending.wait().expect("runs"), sent);
            }
            window.push_back((i, stream.offload(echo::with(i)).expect("sent")));
        }
        window.drain(..).for_each(|(sent, pending)| assert_eq!(pending.wait().expect("runs"), sent));
    };
    assert_eq!(allocations(calls), 0);
}

#[test]
fn one_way_calls_do_not_allocate() {
    let node = open();
    let stream = node.stream().expect("a stream is free");
    let calls = |n: u64| {
        for _ in 0..n {
            stream.send(empty::with()).expect("sent");
        }
        stream.flush().expect("all ran");
    };
    // Where the ring is full, calls go another way, for which a thread has memory from its first one on.
    stream.send(spin_until_cancelled::with(20_000_000)).expect("sent");
    calls(1000);
    assert_eq!(allocations(calls), 0);
}

#[test]
fn transfers_do_not_allocate() {
    let node = open();
    let stream = node.stream().expect("a stream is free");
    let buffer = node.buffer(&[0u64; 512]).expect("room");
    let mut data = [1u64; 512];
    let transfers = |n: u64| {
        for i in 0..n / 4 {
            data[0] = i;
            node.put(&data[..1], buffer.ptr()).expect("writes");
            stream.put(&data[1..], buffer.ptr().slice(1..512).expect("inside")).expect("writes");
            node.get(buffer.ptr(), &mut data).expect("reads");
            stream.get(buffer.ptr(), &mut data[..8]).expect("reads");
            assert_eq!(data[0], i);
        }
    };
    assert_eq!(allocations(transfers), 0);
}
