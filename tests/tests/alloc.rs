//! Calls do not allocate (shared memory, after a warm-up), and a device that carries allocates no more than it has.

#![expect(unsafe_code)]
// UNSAFETY: only an allocator can count allocations; this one passes everything on, as long as there is memory left.

use hamr::{Image, Node, Runtime};
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::layout::{Layout as WindowLayout, Plan};
use hamr_comm::abi::preamble::{DeviceState, HostState, MAGIC, word};
use hamr_comm::abi::queue::QueueDescriptor;
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::slot::{RepHdr, ReqHdr};
use hamr_comm::abi::staging::Staging;
use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::am::{Requester, Responder, SlotAccess};
use hamr_comm::mirror::Driver;
use hamr_kernels::bench::{count, empty, sum_4};
use hamr_kernels::faults::spin_until_cancelled;
use hamr_tests::driving::{KEY, MANY, PLAN, again, copies, get, leave, offer, set};
use hamr_tests_kernels::echo;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::null_mut;

struct Counting;

thread_local! {
    // Per thread, because the test runner's own threads may allocate.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes that this thread may allocate; `NO_LIMIT`: any.
    static LEFT: Cell<usize> = const { Cell::new(NO_LIMIT) };
}

const NO_LIMIT: usize = usize::MAX;

/// Is there memory for `more` bytes in the place of `fewer`? Then it is taken.
fn take(more: usize, fewer: usize) -> bool {
    ALLOCATIONS.with(|n| n.set(n.get() + u64::from(more != 0)));
    LEFT.with(|left| match left.get() {
        NO_LIMIT => true,
        bytes => (bytes + fewer).checked_sub(more).map(|bytes| left.set(bytes)).is_some(),
    })
}

// SAFETY: each method hands its arguments to the system's allocator unchanged, or has no memory; the counters neither
// allocate nor unwind (thread-locals of constants without a destructor).
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        if take(layout.size(), 0) { unsafe { System.alloc(layout) } } else { null_mut() }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        if take(layout.size(), 0) { unsafe { System.alloc_zeroed(layout) } } else { null_mut() }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // The old block is there while it is copied.
        if !(take(new_size, 0) && take(0, layout.size())) {
            return null_mut();
        }
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, new_size) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        take(0, layout.size());
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

/// Carries an epoch of a device that drives its host's memory and has `bytes` for what carries: its table, calls in all slots with full chunks
/// each way, copies, and a fault. False: the device refuses the offer.
fn is_carried_in(bytes: usize, plan: Plan) -> bool {
    let len = WindowLayout::plan(&plan).expect("allowed").window_len();
    let [near, far] = &copies(len);
    let (host, own, notify, wake) = (again(near), again(far), Box::new(|| ()), Box::new(|| ()));
    LEFT.set(bytes);
    let driver = Driver::new(host, own, notify, wake);
    let mut left = LEFT.replace(NO_LIMIT);
    let mut driver = driver.expect("both are there");
    let mut steps = || {
        set(near, word::BELL, get(near, word::BELL) + 1);
        LEFT.set(left);
        (0..MANY).for_each(|_| _ = driver.step());
        left = LEFT.replace(NO_LIMIT);
    };
    let layout = offer(near, plan, Epoch(1));
    steps();
    if get(far, 0) != MAGIC {
        assert_eq!(get(near, word::DEVICE_STATE), DeviceState::REFUSED.0);
        return false;
    }
    set(near, word::OPEN_QUEUES, plan.streams + 1);
    let mut state = |state: DeviceState| {
        leave(far, 1, state);
        steps();
        assert_eq!(get(near, word::DEVICE_STATE), state.0);
    };
    state(DeviceState::ACCEPTED);
    set(near, word::HOST_STATE, HostState::READY.0);
    state(DeviceState::SERVING);
    let queue =
        |window: &Window<Shared>, index| window.queue(&layout.queue(near, index).expect("laid out")).expect("inside");
    let mut hosts: Vec<_> = (1..=plan.streams).map(|i| Requester::new(queue(near, i), Epoch(1))).collect();
    let mut devices: Vec<_> = (1..=plan.streams).map(|i| Responder::new(queue(far, i), Epoch(1))).collect();
    let chunk = vec![7; plan.chunk as usize];
    for host in &mut hosts {
        for slot in 1..=plan.ring {
            host.slots().write_request_chunk(slot, &[&chunk]).expect("fits");
            host.submit_ring(ReqHdr::inline(KEY, 16).in_chunk(), &[0, chunk.len() as u64]);
        }
    }
    let mut found = Vec::new();
    for _ in 0..plan.ring * plan.streams {
        steps();
        for (stream, device) in devices.iter_mut().enumerate() {
            while let Some(request) = device.next(true) {
                found.push((stream, request));
            }
        }
    }
    assert_eq!(found.len() as u32, plan.ring * plan.streams);
    for (stream, request) in found {
        let device = &devices[stream];
        device.slots().write_reply_chunk(request.slot, &chunk).expect("fits");
        device.slot(request.slot).write_reply(&[0, chunk.len() as u64]);
        device.slot(request.slot).publish_reply(RepHdr::inline(Status::OK, 16).in_chunk().0, request.seq);
    }
    steps();
    assert!(hosts.iter().all(|host| host.ring_reply(u64::from(plan.ring) - 1).is_some()));
    let staging = layout.section(SectionKind::STAGING).expect("planned");
    for (number, kind) in [(1, Staging::PUT), (2, Staging::GET)] {
        let range = [layout.heap().start, staging.len - Staging::DATA].map(u64::to_le_bytes);
        near.write_bytes(staging.off + Staging::OFF, range.as_flattened()).expect("inside");
        set(near, staging.off + Staging::KIND, kind);
        set(near, staging.off + Staging::NUMBER, number);
        steps();
        assert_eq!((get(near, staging.off + Staging::DONE), get(near, staging.off + Staging::STATUS)), (number, 0));
    }
    let mut state = |state: DeviceState| {
        leave(far, 1, state);
        steps();
        assert_eq!(get(near, word::DEVICE_STATE), state.0);
    };
    state(DeviceState::CRASHED);
    state(DeviceState::STOPPED);
    true
}

/// What a device has taken it can carry to its end: an image that has no memory left is over.
#[test]
fn a_device_takes_an_offer_only_where_it_has_the_memory_to_carry_it() {
    let plan = Plan { heap: 1 << 20, staging: Staging::BYTES, ..PLAN };
    let plans = [
        plan,
        Plan { table: 1 << 20, ..plan },
        Plan { host_table: 1 << 20, ..plan },
        Plan { streams: 16, ring: 64, tickets: 32, ..plan },
        Plan { chunk: QueueDescriptor::MAX_CHUNK, ..plan },
    ];
    for plan in plans {
        let sizes = (0..).map(|n| (64 << 10) + n * (192 << 10)).take_while(|bytes| *bytes < 24 << 20);
        let refused = sizes.take_while(|bytes| !is_carried_in(*bytes, plan)).count();
        assert!(refused > 2, "{refused} with {plan:?}");
    }
}
