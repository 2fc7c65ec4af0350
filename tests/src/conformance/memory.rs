//! Buffers and transfers.

use super::{Gate, Log, Open, driven, options, refusal};
use hamr::{
    BufferError, CallError, CallOptions, Error, MemoryChange, MemoryEvent, MemoryHook, Node, Options, SubmitError,
};
use hamr_comm::BufferPtr;
use hamr_kernels::bench::empty;
use hamr_kernels::demo::{axpy, dot_f64, fill};
use hamr_tests_kernels::slices::{count, view_again};
use hamr_tests_kernels::{append, append_named, increment_after, wait_at};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(super) fn why<T: std::fmt::Debug>(outcome: Result<T, Error>) -> BufferError {
    match outcome {
        Err(Error::Buffer { why, .. }) => why,
        other => panic!("expected a buffer error, got {other:?}"),
    }
}

pub(super) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ seed).collect()
}

/// Every size up to a megabyte, byte for byte.
pub fn there_and_back(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    for len in [0, 1, 8, 63, 64, 65, 4095, 4096, 1 << 20] {
        let (first, second) = (pattern(len, 0), pattern(len, 0xFF));
        let buffer = node.buffer(&first).expect("room");
        assert_eq!((buffer.len(), buffer.bytes(), buffer.is_empty()), (len, len as u64, len == 0));
        assert_eq!(node.read(buffer.ptr()).expect("reads"), first, "{len} bytes");
        stream.put(&second, buffer.ptr()).expect("writes");
        let mut back = vec![0; len];
        stream.get(buffer.ptr(), &mut back).expect("reads");
        assert_eq!(back, second, "{len} bytes");
        // Fewer elements than the buffer has: the front is written.
        node.put(&first[..len / 2], buffer.ptr()).expect("writes");
        node.get(buffer.ptr(), &mut back).expect("reads");
        assert_eq!((&back[..len / 2], &back[len / 2..]), (&first[..len / 2], &second[len / 2..]));
    }
    assert_eq!((node.live_buffers(), node.free_bytes()), (0, 8 << 20));
    let (x, y) = (node.buffer(&[1.0, 2.0, 3.0]).expect("room"), node.buffer(&[4.0, 5.0, 6.0]).expect("room"));
    assert_eq!(node.sync(dot_f64::with(x.ptr(), y.ptr())).expect("runs"), 32.0);
    node.sync(axpy::with(2.0, x.ptr(), y.ptr())).expect("runs");
    assert_eq!(node.read(y.ptr()).expect("reads"), [6.0, 9.0, 12.0]);
}

/// Parts of a buffer, for transfers and for handlers.
pub fn slices(open: Open) {
    let node = open(options());
    let numbers: Vec<u32> = (0..1000).collect();
    let buffer = node.buffer(&numbers).expect("room");
    let part = |range| buffer.ptr().slice(range).expect("inside");
    assert_eq!(node.read(part(10..13)).expect("reads"), [10, 11, 12]);
    assert_eq!(node.read(part(1000..1000)).expect("reads"), [0u32; 0]);
    assert!(buffer.ptr().slice(999..1001).is_none() && buffer.ptr().slice(1001..1001).is_none());
    node.put(&[7, 8], part(998..1000)).expect("writes");
    node.sync(fill::with(5u32, part(1..3))).expect("runs");
    // A slice of a slice counts from the start of the slice.
    let inner = part(500..600).slice(50..60).expect("inside");
    node.sync(fill::with(9u32, inner)).expect("runs");
    let mut expected = numbers;
    expected[1..3].fill(5);
    expected[550..560].fill(9);
    expected[998..].copy_from_slice(&[7, 8]);
    assert_eq!(node.read(buffer.ptr()).expect("reads"), expected);
    // Bytes of any number, at any place: nothing beside them changes.
    let bytes = node.buffer(&[0xFFu8; 32]).expect("room");
    for (at, len) in (0..9).flat_map(|at| (0..24).map(move |len| (at, len))) {
        let (mut expected, mut back) = ([0xFF; 32], vec![0; len]);
        expected[at..at + len].copy_from_slice(&pattern(len, 7));
        let part = bytes.ptr().slice(at..at + len).expect("inside");
        node.put(&expected[at..at + len], part).expect("writes");
        node.get(part, &mut back).expect("reads");
        assert_eq!(back, &expected[at..at + len]);
        assert_eq!(bytes.read().expect("reads"), expected, "{len} bytes at {at}");
        node.put(&[0xFF; 32], bytes.ptr()).expect("writes");
    }
}

/// From buffer to buffer, also within one.
pub fn copies(open: Open) {
    let node = open(options());
    for len in [0, 1, 8, 63, 64, 4096, 1 << 20] {
        let data = pattern(len, 3);
        let (from, to) = (node.buffer(&data).expect("room"), node.buffer(&vec![0u8; len]).expect("room"));
        node.copy(from.ptr(), to.ptr()).expect("copies");
        assert_eq!(node.read(to.ptr()).expect("reads"), data, "{len} bytes");
    }
    let buffer = node.buffer(&[1u64, 2, 3, 4, 5, 6]).expect("room");
    let part = |range| buffer.ptr().slice(range).expect("inside");
    node.copy(part(0..4), part(2..6)).expect("ranges may overlap");
    assert_eq!(node.read(buffer.ptr()).expect("reads"), [1, 2, 1, 2, 3, 4]);
    node.copy(part(2..6), part(0..4)).expect("either way");
    assert_eq!(node.read(buffer.ptr()).expect("reads"), [1, 2, 3, 4, 3, 4]);
    let refused = why(node.copy(part(0..3), part(0..2)));
    assert!(matches!(refused, BufferError::Overrun { wanted: 24, has: 16 }), "{refused:?}");
}

/// A transfer beyond the buffer's end is refused, and nothing is written.
pub fn overruns(open: Open) {
    let node = open(options());
    let (buffer, neighbour) = (node.buffer(&[1u32; 16]).expect("room"), node.buffer(&[2u32; 16]).expect("room"));
    let refused = why(node.put(&[9; 17], buffer.ptr()));
    assert_eq!(refused, BufferError::Overrun { wanted: 68, has: 64 });
    assert_eq!(why(node.get(buffer.ptr(), &mut [0; 17])), refused);
    let slice = buffer.ptr().slice(8..12).expect("inside");
    assert_eq!(why(node.put(&[9; 5], slice)), BufferError::Overrun { wanted: 20, has: 16 }, "the slice's end counts");
    // A pointer with a length beyond its allocation.
    let mut parts = buffer.ptr().parts();
    parts.len = 32;
    let forged = BufferPtr::<u32>::from_wire(hamr_comm::abi::buffer::WireBuffer::pack(parts));
    assert!(matches!(why(node.read(forged)), BufferError::Overrun { .. }));
    let error = refusal(node.sync(fill::with(3u32, forged)).expect_err("refused before it is sent"));
    assert!(matches!(error, SubmitError::Buffer { .. }), "{error:?}");
    assert_eq!(node.read(buffer.ptr()).expect("reads"), [1; 16]);
    assert_eq!(node.read(neighbour.ptr()).expect("reads"), [2; 16]);
}

/// The pointer of a freed buffer is refused everywhere, also when the memory has a new owner.
pub fn freed_pointers(open: Open) {
    let node = open(Options { max_buffers: 1, ..options() });
    let old = node.buffer(&[1u32, 2, 3]).expect("room").ptr();
    for _ in 0..2 {
        assert!(matches!(why(node.put(&[9], old)), BufferError::Freed { .. }));
        assert!(matches!(why(node.read(old)), BufferError::Freed { .. }));
        assert!(matches!(why(node.copy(old, old)), BufferError::Freed { .. }));
        assert!(node.words(old).is_err());
        let sync = refusal(node.sync(fill::with(9u32, old)).expect_err("freed"));
        let offload = node.offload(fill::with(9u32, old)).err().expect("freed");
        for error in [sync, offload] {
            assert!(matches!(error, SubmitError::Buffer { why: BufferError::Freed { .. }, .. }), "{error:?}");
        }
        // The heap's only record again, with the same memory: another generation.
        let new = node.buffer(&[4u32, 5, 6]).expect("room");
        assert!(matches!(why(node.put(&[9], old)), BufferError::Freed { .. }));
        assert_eq!(node.read(new.ptr()).expect("reads"), [4, 5, 6]);
    }
}

/// Another device's pointer is refused by name.
pub fn foreign_pointers(open: Open) {
    let (one, other) = (open(options()), open(options()));
    assert_ne!(one.info().node, other.info().node, "this suite's devices belong to one runtime, which numbers them");
    let theirs = other.buffer(&[1u32; 4]).expect("room");
    let ours = one.buffer(&[2u32; 4]).expect("room");
    let expected = BufferError::Foreign { owner: other.info().node, here: one.info().node };
    assert_eq!(why(one.put(&[9], theirs.ptr())), expected);
    assert_eq!(why(one.read(theirs.ptr())), expected);
    assert_eq!(why(one.copy(ours.ptr(), theirs.ptr())), expected);
    let error = refusal(one.sync(fill::with(9u32, theirs.ptr())).expect_err("foreign"));
    assert!(matches!(&error, SubmitError::Buffer { why, .. } if *why == expected), "{error:?}");
    assert!(error.to_string().contains("belongs to node"), "{error}");
    assert_eq!(other.read(theirs.ptr()).expect("reads"), [1; 4]);
}

/// A transfer is refused while a call in flight uses the buffer, unless it is ordered with the
/// call.
pub fn busy_buffers(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let gate = Gate::new(&node);
    let (data, free) = (node.buffer(&[1u64; 8]).expect("room"), node.buffer(&[5u64; 8]).expect("room"));
    driven(&node, || {
        let call = stream.offload(increment_after::with(gate.ptr(), data.ptr())).expect("sent");
        gate.wait_for(1);
        let slice = data.ptr().slice(0..1).expect("inside");
        assert_eq!(why(node.put(&[9; 8], data.ptr())), BufferError::Busy);
        assert_eq!(why(node.put(&[9], slice)), BufferError::Busy, "no part of it either");
        assert_eq!(why(node.read(data.ptr())), BufferError::Busy);
        assert_eq!(why(node.copy(free.ptr(), data.ptr())), BufferError::Busy);
        assert_eq!(why(node.copy(data.ptr(), free.ptr())), BufferError::Busy);
        node.put(&[6; 8], free.ptr()).expect("no call uses this one");
        gate.open();
        assert_eq!(call.wait().expect("runs"), 16);
    });
    node.put(&[3; 8], data.ptr()).expect("answered");
    assert_eq!(node.read(data.ptr()).expect("reads"), [3; 8]);
}

/// A stream's own transfers wait for its calls instead.
pub fn ordered_transfers(open: Open) {
    let node = open(options());
    let stream = node.stream().expect("a stream is free");
    let gate = Gate::new(&node);
    gate.open();
    let data = node.buffer(&[0u64; 4]).expect("room");
    for n in 0..100u64 {
        stream.put(&[n; 4], data.ptr()).expect("waits for the last call");
        let call = stream.offload(increment_after::with(gate.ptr(), data.ptr())).expect("sent");
        let mut seen = [0; 4];
        stream.get(data.ptr(), &mut seen).expect("waits for the call");
        assert_eq!(seen, [n + 1; 4]);
        drop(call);
        stream.send(increment_after::with(gate.ptr(), data.ptr())).expect("sent");
    }
    // This stream does not wait for the calls of another one.
    let (other, shut) = (node.stream().expect("a stream is free"), Gate::new(&node));
    stream.flush().expect("all ran");
    driven(&node, || {
        let call = other.offload(increment_after::with(shut.ptr(), data.ptr())).expect("sent");
        shut.wait_for(1);
        assert_eq!(why(stream.put(&[0; 4], data.ptr())), BufferError::Busy);
        shut.open();
        call.wait().expect("runs");
    });
}

/// A buffer that is dropped while a call uses it keeps its memory until the reply.
pub fn dropped_while_named(open: Open) {
    const ALL: usize = 1 << 20;
    let node = open(Options { heap: ALL as u64, ..options() });
    let stream = node.stream().expect("a stream is free");
    let gate = Gate::new(&node);
    let rest = (node.free_bytes() / 8) as usize;
    driven(&node, || {
        let data = node.buffer(&vec![1u64; rest]).expect("all that is left");
        let old = data.ptr();
        let call = stream.offload(increment_after::with(gate.ptr(), old)).expect("sent");
        gate.wait_for(1);
        drop(data);
        assert_eq!((node.live_buffers(), node.free_bytes()), (2, 0));
        match node.allocate::<u64>(1) {
            Err(Error::OutOfMemory { free: 0, deferred, .. }) => assert_eq!(deferred, rest as u64 * 8),
            other => panic!("the memory is not free before the reply: {other:?}"),
        }
        assert!(node.read(old).is_err(), "its owner has dropped it");
        assert!(stream.offload(append_named::with(old, 1)).is_err(), "no new call may name it");
        gate.open();
        assert_eq!(call.wait().expect("runs undisturbed"), 2 * rest as u64);
        assert_eq!((node.live_buffers(), node.free_bytes()), (1, rest as u64 * 8));
        node.allocate::<u64>(rest).expect("now it is free");
    });
}

/// The error contains the free size and the option that provides more.
pub fn out_of_memory(open: Open) {
    let node = open(Options { heap: 1 << 20, ..options() });
    let whole = node.allocate::<u8>(1 << 20).expect("the whole heap");
    let error = node.allocate::<u8>(1).expect_err("nothing is left");
    assert!(matches!(error, Error::OutOfMemory { wanted: 1, free: 0, total: 0x10_0000, .. }), "{error:?}");
    assert!(error.to_string().contains("Options::heap"), "{error}");
    drop(whole);
    for len in [(1 << 20) + 1, 1 << 40, usize::MAX / 8, usize::MAX] {
        assert!(matches!(node.allocate::<u64>(len), Err(Error::OutOfMemory { .. })), "{len} elements");
    }
    let pieces: Vec<_> = (0..16).map(|_| node.allocate::<u8>(1 << 16).expect("sixteen pieces fit")).collect();
    assert_eq!(node.free_bytes(), 0);
    // The same for a call that needs memory for its reply; it uses nothing afterwards.
    let error = refusal(node.sync(hamr_kernels::faults::make_many::with(1)).expect_err("no room for the reply"));
    assert!(matches!(error, SubmitError::NoRoom { .. }), "{error:?}");
    drop(pieces);
    assert_eq!(node.free_bytes(), 1 << 20, "no fragments are left");
    node.allocate::<u8>(1 << 20).expect("in one piece again");
}

/// The records run out before the memory does.
pub fn too_many_buffers(open: Open) {
    let node = open(Options { max_buffers: 4, ..options() });
    let buffers: Vec<_> = (0..4).map(|n| node.buffer(&[n]).expect("four records")).collect();
    let error = node.buffer(&[5]).expect_err("there is no fifth");
    assert!(matches!(error, Error::TooManyBuffers { limit: 4, .. }), "{error:?}");
    assert!(error.to_string().contains("Options::max_buffers"), "{error}");
    for (n, buffer) in buffers.iter().enumerate() {
        assert_eq!(node.read(buffer.ptr()).expect("reads"), [n as i32]);
    }
    drop(buffers);
    node.buffer(&[5]).expect("records come back");
}

/// A buffer is read, written and cut as its pointer is on the node, as long as the node is there.
pub fn buffers_read_and_write(open: Open) {
    let node = open(options());
    let buffer = node.buffer(&[1u32, 2, 3, 4]).expect("room");
    buffer.write(&[5, 6]).expect("fits");
    assert_eq!(buffer.read().expect("reads"), [5, 6, 3, 4]);
    assert_eq!(node.read(buffer.slice(1..3).expect("inside")).expect("reads"), [6, 3]);
    let end = 5;
    assert_eq!(buffer.slice(2..end), Err(BufferError::Overrun { wanted: 20, has: 16 }));
    let long = buffer.write(&[0; 5]).expect_err("longer than the buffer");
    assert!(matches!(long, Error::Buffer { why: BufferError::Overrun { wanted: 20, has: 16 }, .. }), "{long:?}");
    let gone = node.buffer(&[7u32; 4]).expect("room");
    let part = gone.slice(1..2).expect("inside");
    drop(gone);
    assert!(
        matches!(node.read(part), Err(Error::Buffer { why: BufferError::Freed { .. }, .. })),
        "a part is freed too"
    );
    drop(node);
    assert!(matches!(buffer.read(), Err(Error::Lost { .. })));
    assert!(matches!(buffer.write(&[1]), Err(Error::Lost { .. })));
}

/// Transfers that borrow, and their errors when no caller waits for them.
pub fn scopes(open: Open) {
    let node = open(options());
    let (x, y) = (node.buffer(&[0u32; 4]).expect("room"), node.buffer(&[7u32; 4]).expect("room"));
    let (from, mut to) = ([1, 2, 3, 4], [0; 4]);
    let answer = node.scope(|s| {
        let put = s.put(&from, x.ptr());
        let get = s.get(y.ptr(), &mut to);
        put.wait().expect("writes");
        get.wait().expect("reads");
        42
    });
    assert_eq!(answer.expect("both were complete"), 42);
    assert_eq!((to, node.read(x.ptr()).expect("reads")), ([7; 4], from.to_vec()));
    let long = [0; 5];
    let error = node.scope(|s| drop(s.put(&long, x.ptr()))).expect_err("no caller waited for its error");
    assert!(matches!(error, Error::Buffer { why: BufferError::Overrun { .. }, .. }), "{error:?}");
    node.scope(|s| assert!(s.put(&long, x.ptr()).wait().is_err())).expect("this error was waited for");
}

/// Many short-lived buffers: records, generations and memory are reused.
pub fn records_are_reused(open: Open) {
    let node = open(Options { max_buffers: 3, heap: 64 << 10, ..options() });
    let log = Log::new(&node, 2000);
    for n in 0..2000u64 {
        let (a, b) =
            (node.buffer(&[n; 8]).expect("room"), node.allocate::<u8>(1000 + n as usize % 1000).expect("room"));
        if n % 8 == 0 {
            node.sync(fill::with(n + 1, a.ptr())).expect("runs");
            assert_eq!(node.read(a.ptr()).expect("reads"), [n + 1; 8]);
        }
        drop(a);
        drop(b);
    }
    node.sync(append::with(log.words(), 1)).expect("runs");
    node.sync(empty::with()).expect("runs");
    still_there(&node, &log);
}

/// A hook is told of every buffer, on the thread that has it, and of nothing else.
pub fn hooks(open: Open) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = told.clone();
    let hook = MemoryHook::new(move |event: MemoryEvent<'_>| {
        let place = (event.node, event.heap_off, event.bytes);
        let here = std::thread::current().id();
        tell.lock().expect("no panic").push((event.change, event.device.to_string(), place, here));
    });
    let node = open(Options { memory_hook: Some(hook), ..options() });
    let take = || std::mem::take(&mut *told.lock().expect("no panic"));
    let x = node.buffer(&[1u64; 5]).expect("room");
    let (p, here) = (x.ptr().parts(), std::thread::current().id());
    let place = (node.info().node, p.off, 40);
    let began = (MemoryChange::Allocated, node.info().name, place, here);
    assert_eq!(take(), std::slice::from_ref(&began));
    // A refused buffer, a long message, a slice.
    node.allocate::<u8>(1 << 30).expect_err("larger than the heap");
    assert_eq!(node.sync(hamr_kernels::faults::make_many::with(500)).expect("runs")[1], 501);
    x.slice(1..2).expect("inside");
    assert!(take().is_empty());
    let there = std::thread::spawn(move || {
        drop(x);
        std::thread::current().id()
    });
    let there = there.join().expect("no panic");
    assert_eq!(take(), [(MemoryChange::Freed, began.1, place, there)]);
    let y = node.buffer(&[2u8]).expect("room");
    // At any time: without one, and with another.
    let first = node.set_memory_hook(None).expect("there was one");
    drop(node.buffer(&[3u8]).expect("room"));
    assert_eq!(take().len(), 1);
    let others = Arc::new(Mutex::new(0));
    let count = others.clone();
    let second = MemoryHook::new(move |_| *count.lock().expect("no panic") += 1);
    assert_eq!(node.set_memory_hook(Some(second.clone())), None);
    drop(node.buffer(&[3u8]).expect("room"));
    assert_eq!((take().len(), *others.lock().expect("no panic")), (0, 2));
    assert_eq!(node.set_memory_hook(Some(first)), Some(second));
    drop(node);
    drop(y);
    assert_eq!((take().len(), *others.lock().expect("no panic")), (1, 2), "also of a buffer that outlives its node");
}

/// Slices of the program as arguments: read, written, both; copied back by a success only.
pub fn staged_slices(open: Open) {
    let node = open(Options { heap: 1 << 20, ..options() });
    let (xs, mut ys) = ([1.0, 2.0, 3.0], [10.0, 20.0, 30.0]);
    node.sync_staged(|s| axpy::with(2.0, s.input(&xs), s.in_out(&mut ys))).expect("runs");
    assert_eq!(ys, [12.0, 24.0, 36.0]);
    let dot = node.sync_staged(|s| dot_f64::with(s.input(&xs), s.input(&ys[..]))).expect("runs");
    assert_eq!(dot, 12.0 + 48.0 + 108.0);
    for len in [0, 1, 127, 128, 5000] {
        let mut out = vec![0u32; len];
        node.sync_staged(|s| fill::with(7u32, s.output(&mut out))).expect("runs");
        assert_eq!(out, vec![7; len]);
    }
    // Beside a buffer, which is not staged.
    let y = node.buffer(&[1.0f64; 3]).expect("room");
    node.sync_staged(|s| axpy::with(1.0, s.input(&xs), y.ptr())).expect("runs");
    assert_eq!(y.read().expect("reads"), [2.0, 3.0, 4.0]);
    // The handler refuses slices of two lengths, and both are as before.
    let mut short = [5.0; 2];
    let refused = node.sync_staged(|s| axpy::with(1.0, s.input(&xs), s.in_out(&mut short)));
    assert!(matches!(refused, Err(CallError::Fault(_))), "{refused:?}");
    assert_eq!(short, [5.0; 2]);
    let mut long = vec![1.0f64; 1 << 17];
    let full = refusal(node.sync_staged(|s| axpy::with(1.0, s.input(&xs), s.in_out(&mut long))).expect_err("no room"));
    assert!(matches!(&full, SubmitError::NoRoom { why, .. } if why.contains("Options::heap")), "{full}");
    assert_eq!(long[0], 1.0);
    assert_eq!(node.live_buffers(), 1, "nothing of a call stays");
}

/// A result of as many elements as the handler wants, up to what the caller has room for; staged
/// slices of every length about what one message carries.
pub fn slice_results(open: Open) {
    use hamr_tests_kernels::slices::{add_scaled, multiples};

    let node = open(Options { heap: 1 << 20, ..options() });
    let free = node.free_bytes();
    let numbers: Vec<u32> = (0..20_000).collect();
    for (of, len) in [(1u32, 20_000), (1, 0), (3, 16), (3, 17), (3, 4000), (50_000, 1)] {
        let input = &numbers[..len];
        let found: Vec<u32> = node.sync_to_vec(len, |s, out| multiples::with(of, s.input(input), out)).expect("runs");
        assert!(found.iter().eq(input.iter().filter(|x| x.is_multiple_of(of))), "of {of} below {len}: {found:?}");
    }
    // The handler writes what it has room for, and says how many it has found.
    let short = node.sync_to_vec::<u32, _>(10, |s, out| multiples::with(1, s.input(&numbers[..11]), out));
    match short {
        Err(CallError::Corrupt(_, what)) => assert!(what.contains("11 as the length") && what.contains("10"), "{what}"),
        other => panic!("expected a length beyond the room, got {other:?}"),
    }
    let large = node.sync_to_vec::<u32, _>(1 << 20, |s, out| multiples::with(1, s.input(&numbers), out));
    let full = refusal(large.expect_err("no room"));
    assert!(matches!(&full, SubmitError::NoRoom { why, .. } if why.contains(&free.to_string())), "{full}");
    for len in 0..20 {
        let (xs, mut ys) = (vec![1.5f64; len], vec![2.0; len]);
        node.sync_staged(add_scaled::staged(2.0, &xs, &mut ys)).expect("runs");
        assert_eq!(ys, vec![5.0; len]);
        node.sync_staged(|s| add_scaled::with(1.0, s.input(&xs), s.in_out(&mut ys))).expect("runs");
        assert_eq!(ys, vec![6.5; len]);
    }
    assert_eq!((node.live_buffers(), node.free_bytes()), (0, free));
}

/// Handlers whose arguments are slices: with slices of the program and with buffers.
pub fn slice_arguments(open: Open) {
    use hamr_tests_kernels::slices::{add_scaled, budget, count, sums, view_again};

    let node = open(Options { heap: 1 << 20, ..options() });
    let (xs, mut ys) = ([1.0, 2.0, 3.0], [10.0, 20.0, 30.0]);
    node.sync_staged(add_scaled::staged(2.0, &xs, &mut ys)).expect("runs");
    assert_eq!(ys, [12.0, 24.0, 36.0]);
    for len in [0u64, 1, 7, 5000] {
        let data: Vec<u64> = (0..len).map(|i| i % 3).collect();
        assert_eq!(node.sync_staged(count::staged(&data, 0)).expect("runs"), len.div_ceil(3));
    }
    let inputs: [Vec<u32>; 5] = std::array::from_fn(|i| (0..100).map(|x| x * (i as u32 + 1)).collect());
    let [a, b, c, d, e] = &inputs;
    let mut out = [0; 100];
    assert_eq!(node.sync_staged(sums::staged(a, b, c, d, e, &mut out)).expect("runs"), 5);
    assert!(out.iter().enumerate().all(|(i, &sum)| sum == 15 * i as u32), "{out:?}");
    let refused = node.sync_staged(sums::staged(a, b, c, d, e, &mut out[1..])).expect_err("another length");
    assert!(refused.to_string().contains("slices of different lengths"), "{refused}");

    // The same handlers take buffers: nothing is copied, and the calls go every way.
    let (x, y) = (node.buffer(&xs).expect("room"), node.buffer(&ys).expect("room"));
    node.sync(add_scaled::with(1.0, x.ptr(), y.ptr())).expect("runs");
    let pending = node.offload(add_scaled::with(1.0, x.ptr(), y.ptr())).expect("sent");
    pending.wait().expect("runs");
    node.sync_staged(|s| add_scaled::with(1.0, s.input(&xs), y.ptr())).expect("runs");
    assert_eq!(y.read().expect("reads"), [15.0, 30.0, 45.0]);
    let overlap = node.sync(add_scaled::with(1.0, y.ptr(), y.ptr())).expect_err("read and written at once");
    assert!(overlap.to_string().contains("overlap"), "{overlap}");

    // No view over a slice, whichever buffer is asked for.
    let bytes = node.buffer(&[0u8; 64]).expect("room");
    let refused = node.sync(view_again::with(bytes.ptr(), bytes.ptr())).expect_err("it has the buffer already");
    assert!(matches!(&refused, CallError::Fault(_)), "{refused}");
    assert_eq!(bytes.read().expect("reads"), [1; 64]);

    // The rest of the context is there.
    let budgets = node.allocate::<u32>(2).expect("room");
    let limit = CallOptions { deadline: Some(Duration::from_secs(30)), ..CallOptions::default() };
    assert!(!node.sync_with(budget::with(budgets.ptr()), limit).expect("runs"));
    assert!(budgets.read().expect("reads").iter().all(|&us| us > 1_000_000));
    assert_eq!(node.live_buffers(), 4, "nothing of a call stays");
}

fn still_there(node: &Node, log: &Log) {
    assert_eq!(log.entries(node), [1]);
    let gate = Gate::new(node);
    gate.open();
    assert_eq!(node.sync(wait_at::with(gate.ptr(), 3)).expect("runs"), 3);
}

/// One copy for memory of the program and of any device.
pub fn unified(open: Open) {
    let (one, two) = (open(options()), open(options()));
    let data: Vec<u64> = (0..10_000).collect();
    let (x, y) = (one.allocate::<u64>(data.len()).expect("room"), two.allocate::<u64>(data.len()).expect("room"));
    let z = one.allocate::<u64>(data.len()).expect("room");
    hamr::copy(&data[..], (&one, &x)).expect("to a device");
    hamr::copy((&one, &x), (&two, &y)).expect("between devices");
    hamr::copy((&one, x.ptr()), (&one, &z)).expect("on one device");
    for (node, buffer) in [(&two, &y), (&one, &z)] {
        let mut back = vec![0; data.len()];
        hamr::copy((node, buffer), &mut back[..]).expect("from a device");
        assert_eq!(back, data);
        let from = hamr::Memory::from((node, buffer));
        assert_eq!((from.len(), from.is_empty()), (data.len(), false));
        assert!(from.device().is_some_and(|device| std::ptr::eq(device, node)));
    }
    let mut here = vec![0; data.len()];
    hamr::copy(&data[..], &mut here[..]).expect("in the program");
    assert_eq!(here, data);
    assert!(hamr::Memory::Host(&data[..]).device().is_none());
    for wrong in [
        hamr::copy(&data[1..], (&one, &x)),
        hamr::copy((&one, &x), &mut here[1..]),
        hamr::copy((&one, &x), (&two, y.slice(1..10_000).expect("inside"))),
        hamr::copy(&data[1..], &mut here[..]),
    ] {
        match wrong {
            Err(Error::Buffer { why: BufferError::Overrun { .. }, .. } | Error::InvalidConfig { .. }) => {}
            other => panic!("expected lengths that differ, got {other:?}"),
        }
    }
    assert!(matches!(why(hamr::copy(&data[..], (&two, x.ptr()))), BufferError::Foreign { .. }));
}

/// Slices beyond the heap, in portions.
pub fn portions(open: Open) {
    let node = open(Options { heap: 1 << 20, ..options() });
    let data: Vec<u64> = (0..500_000).map(|n| n % 1000).collect();
    assert!(size_of_val(&data[..]) > 3 << 20, "more than the heap");
    let sums = node.stream_in(&data, |portion, _| count::with(portion, 7u64)).expect("runs");
    assert!(sums.len() >= 15, "{} portions", sums.len());
    assert_eq!(sums.iter().sum::<u64>(), 500);
    let mut to = vec![0u64; data.len()];
    let mut ranges = Vec::new();
    let done = node.stream_out(&mut to, |portion, range| {
        ranges.push(range.clone());
        fill::with(range.start as u64, portion)
    });
    assert_eq!(done.expect("runs").len(), ranges.len());
    let mut end = 0;
    for range in ranges {
        assert_eq!(range.start, end, "in order, without gaps");
        assert!(to[range.clone()].iter().all(|value| *value == range.start as u64), "{range:?}");
        end = range.end;
    }
    assert_eq!(end, to.len());
    assert!(node.stream_in(&[0u64; 0], |portion, _| count::with(portion, 7)).expect("nothing to do").is_empty());
    assert_eq!(node.stream_in(&[7u64], |portion, _| count::with(portion, 7)).expect("runs"), [1]);
    // The first failure ends it.
    let mut sent = 0;
    let failed = node.stream_in(&data, |portion, _| {
        sent += 1;
        view_again::with(BufferPtr::from_wire(portion.wire()), BufferPtr::from_wire(portion.wire()))
    });
    assert!(matches!(failed, Err(CallError::Fault(_))), "{failed:?}");
    assert!(sent <= 3, "{sent} portions were sent");
    assert_eq!(node.live_buffers(), 0, "what was sent has run");
    let full = node.allocate::<u8>(node.free_bytes() as usize).expect("all of it");
    match refusal(node.stream_in(&data, |portion, _| count::with(portion, 7u64)).expect_err("no room")) {
        SubmitError::NoRoom { .. } => {}
        other => panic!("expected no room, got {other}"),
    }
    drop(full);
}
