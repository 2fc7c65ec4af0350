//! Records and transfers, with one thread in the place of two.

use super::transfers::{PROVIDED, SHORT};
use super::*;
use hamr_comm::abi::window::STREAMED;
use std::sync::Arc;
use zerocopy::FromZeros;

fn memory(max_buffers: u32) -> DeviceMemory {
    memory_of(4096, max_buffers)
}

fn memory_of(heap_len: u64, max_buffers: u32) -> DeviceMemory {
    let window = hamr_comm::abi::window::Window::private(heap_len).share();
    let number = NodeNumber::take("memory").expect("few devices");
    let mut heap = Section::new_zeroed();
    heap.len = heap_len;
    let copies = Heap::mapped(window.copies(heap.off, heap.len).expect("it fits"));
    DeviceMemory::new(number, "memory", copies, heap, max_buffers, None)
}

/// The record of the one buffer of `memory`, as a submission has found it, and the pointer.
fn found(memory: &DeviceMemory, block: Block) -> (&Record, BufferParts) {
    let p = memory.pointer::<u8>(block, block.bytes as usize).parts();
    (memory.record(p, block.bytes).expect("alive"), p)
}

/// Between a submission's load of the record and its count the buffer is dropped, and the
/// record is another buffer's, which a second stream names.
#[test]
fn a_late_count_is_taken_back_and_harms_no_other() {
    for first_user in [1, 2] {
        let memory = memory(1);
        let old = memory.allocate(64).expect("room");
        let begin_use = memory.begin_use(memory.pointer::<u8>(old, 64).wire(), 64, first_user).expect("alive");
        memory.end_use(begin_use, first_user);
        let (record, p) = found(&memory, old);
        memory.release(old.index);
        let new = memory.allocate(64).expect("the record is free");
        let theirs = memory.begin_use(memory.pointer::<u8>(new, 64).wire(), 64, 2).expect("alive");
        assert!(record.count(p, 1).is_none(), "its buffer is gone");
        assert!(record.is_named(), "the second stream's call is unanswered");
        memory.release(new.index);
        assert_eq!(memory.live(), 1, "named, so not freed");
        memory.end_use(theirs, 2);
        assert_eq!((memory.live(), record.is_named()), (0, false), "nothing is left");
    }
}

/// The same with a count that the drop does not see and that does not see the drop: its call
/// was sent.
#[test]
fn a_count_on_a_freed_buffer_ends_with_its_call() {
    let memory = memory(1);
    let old = memory.allocate(64).expect("room");
    let (record, _) = found(&memory, old);
    memory.release(old.index);
    // What the other thread's store does when it arrives late.
    record.begin_use_as_other(1);
    let new = memory.allocate(64).expect("the record is free");
    let put = memory.put(&[1u8], memory.pointer::<u8>(new, 64));
    assert_eq!(put, Err(BufferError::Busy), "a call in flight may use this record");
    memory.end_use(old.index, 1);
    assert_eq!(memory.put(&[1u8], memory.pointer::<u8>(new, 64)), Ok(()));
    memory.release(new.index);
    assert_eq!(memory.live(), 0);
}

/// A transfer and a use that are not begun at once are refused with a reason, or wait.
#[test]
fn what_is_not_done_at_once_has_a_reason() {
    let memory = memory(2);
    let block = memory.allocate(64).expect("room");
    let whole = memory.pointer::<u8>(block, 64);
    let with = |change: fn(&mut BufferParts)| {
        let mut parts = whole.parts();
        change(&mut parts);
        BufferPtr::<u8>::from_wire(WireBuffer::pack(parts))
    };
    let refused = |ptr: BufferPtr<u8>| {
        let (data, mut back) = ([7; 8], [0; 8]);
        assert!(memory.put_at_once(&data, ptr).is_none() && memory.get_at_once(ptr, &mut back).is_none());
        assert!(memory.begin_put_at_once(ptr.wire(), ptr.bytes(), 8, 1).is_none());
        let why = memory.put(&data, ptr).expect_err("refused");
        assert_eq!(memory.get(ptr, &mut back), Err(why));
        why
    };
    let (here, foreign) = (memory.node().0, with(|p| p.node = NodeId(4095)));
    assert_eq!(refused(foreign), BufferError::Foreign { owner: 4095, here });
    assert_eq!(refused(with(|p| p.generation = 9)), BufferError::Freed { index: block.index, generation: 9 });
    assert_eq!(refused(with(|p| p.index = 77)), BufferError::Freed { index: 77, generation: 0 });
    assert_eq!(refused(with(|p| p.len = 65)), BufferError::Overrun { wanted: 65, has: 64 });
    assert_eq!(refused(with(|p| p.off += 1)), BufferError::Overrun { wanted: 65, has: 64 });
    assert_eq!(refused(with(|p| p.len = 7)), BufferError::Overrun { wanted: 8, has: 7 });
    // Before the start of its record.
    let next = memory.allocate(64).expect("room");
    let mut parts = memory.pointer::<u8>(next, 64).parts();
    parts.off -= 1;
    let before = BufferPtr::<u8>::from_wire(WireBuffer::pack(parts));
    assert_eq!(refused(before), BufferError::Overrun { wanted: 64, has: 64 });
    for stream in [1, 2] {
        let used = memory.begin_use_at_once(whole.wire(), 64, stream).expect("alive");
        assert_eq!(memory.index_of(used), block.index);
        assert_eq!(refused(whole), BufferError::Busy);
        used.end_use(stream);
    }
    let writing = memory.begin_put_at_once(whole.wire(), 64, 64, 1).expect("no call names it");
    assert_eq!(refused(whole), BufferError::Busy);
    writing.end_use(1);
    let reading = writing.copying.read();
    assert!(memory.put_at_once(&[1], whole).is_none(), "another thread copies");
    assert!(memory.begin_put_at_once(whole.wire(), 64, 1, 1).is_none(), "another thread copies");
    assert!(memory.get_at_once(whole, &mut [0]).is_some(), "both only read");
    drop(reading);
    assert!(memory.put_at_once(&[5; 64], whole).is_some());
    let mut back = [0; 64];
    assert!(memory.get_at_once(whole, &mut back).is_some());
    assert_eq!(back, [5; 64]);
}

/// A transfer that has the record's lock keeps the bytes from being given away.
#[test]
fn a_buffer_dropped_beside_its_transfer_is_freed_behind_it() {
    let memory = memory(2);
    let block = memory.allocate(64).expect("room");
    let (record, _) = found(&memory, block);
    let writing = record.copying.write();
    memory.release(block.index);
    assert_eq!(memory.live(), 1, "another thread still copies");
    drop(writing);
    assert_eq!(memory.live(), 0);
}

/// One byte around the length from which copies go around the caches, at odd addresses.
#[test]
fn a_put_of_any_length_arrives_whole() {
    let data: Vec<u8> = (0..STREAMED + 64).map(|i| (i % 251) as u8).collect();
    let memory = memory_of(STREAMED as u64 + 4096, 1);
    let whole = memory.allocate(STREAMED as u64 + 128).expect("room");
    let zeros = vec![0u8; STREAMED + 128];
    let mut found = vec![1u8; STREAMED + 128];
    let all = memory.pointer::<u8>(whole, STREAMED + 128);
    for (skip, at, len) in [(0, 0, STREAMED), (1, 3, STREAMED - 1), (3, 61, STREAMED + 1), (5, 64, STREAMED)] {
        let (part, to) = (&data[skip..skip + len], all.slice(at..STREAMED + 128).expect("inside"));
        memory.put(&zeros[..at], all).expect("free");
        memory.put(&zeros[at + len..], all.slice(at + len..STREAMED + 128).expect("inside")).expect("free");
        assert_eq!(memory.put_at_once(part, to).is_none(), len >= STREAMED, "others take the way out of line");
        assert_eq!(memory.put(part, to), Ok(()));
        memory.get(all, &mut found).expect("free");
        assert!(found[at..at + len] == *part, "{len} bytes from {skip} to {at}");
        assert!(found[..at].iter().chain(&found[at + len..]).all(|byte| *byte == 0), "bytes beside them");
    }
}

/// Where the device has other memory, a buffer is of no use until all of it was put, and is freed as any other.
#[test]
fn lost_buffers_are_found_by_a_put_of_all() {
    let memory = Arc::new(memory(3));
    let blocks = [(); 2].map(|()| memory.allocate(64).expect("room"));
    let [one, two] = blocks.map(|block| memory.pointer::<u8>(block, 64));
    let transfer = memory.submit(two, 8).expect("free");
    memory.lose();
    let mut back = [0; 64];
    assert_eq!(memory.begin_use(one.wire(), 64, 1), Err(BufferError::Lost));
    assert_eq!(memory.get(one, &mut back), Err(BufferError::Lost));
    assert_eq!(memory.put(&[1u8; 63], one), Err(BufferError::Lost));
    assert_eq!(memory.put(&[1u8; 63], one.slice(1..64).expect("inside")), Err(BufferError::Lost));
    assert_eq!(memory.submit(one, 64).map(drop), Err(BufferError::Lost));
    memory.put(&[7u8; 64], one).expect("all of it");
    memory.get(one, &mut back).expect("it is there again");
    assert_eq!(back, [7; 64]);
    // A transfer that was submitted before goes on, and no count of it stays.
    assert_eq!(memory.get(two, &mut back), Err(BufferError::Lost));
    drop(transfer);
    blocks.iter().for_each(|block| memory.release(block.index));
    assert_eq!((memory.live(), memory.get(one, &mut back)), (0, Err(super::freed(one.parts()))));
    let next = memory.allocate(64).expect("room");
    memory.put(&[1u8], memory.pointer::<u8>(next, 64)).expect("a new one was never lost");
}

/// Submitted transfers keep the memory of a dropped buffer, and no count of theirs stays.
#[test]
fn submitted_transfers_keep_memory_and_leave_nothing() {
    let memory = Arc::new(memory(1));
    let block = memory.allocate(64).expect("room");
    let whole = memory.pointer::<u8>(block, 64);
    let (first, second) = (memory.submit(whole, 64).expect("free"), memory.submit(whole, 8).expect("free"));
    first.write(&[7; 64]).expect("fits");
    let (mut back, mut long) = ([0; 8], [0; 9]);
    second.read(&mut back).expect("fits");
    assert_eq!(second.read(&mut long), Err(BufferError::Overrun { wanted: 9, has: 8 }), "more than was submitted");
    assert_eq!(back, [7; 8]);
    assert_eq!(memory.put(&[1u8], whole), Err(BufferError::InTransfer));
    drop(first);
    assert_eq!(memory.begin_use(whole.wire(), 64, 1), Err(BufferError::InTransfer));
    memory.release(block.index);
    assert!(matches!(memory.submit(whole, 64).map(drop), Err(BufferError::Freed { .. })));
    assert_eq!(memory.live(), 1, "one transfer has not ended");
    drop(second);
    assert_eq!(memory.live(), 0);
    let next = memory.allocate(64).expect("free again");
    let whole = memory.pointer::<u8>(next, 64);
    memory.put(&[1u8], whole).expect("no count is left");
    let call = memory.begin_use(whole.wire(), 64, 1).expect("free");
    assert_eq!(memory.submit(whole, 64).map(drop), Err(BufferError::Busy));
    memory.end_use(call, 1);
    memory.submit(whole, 64).map(drop).expect("the refused one left nothing");
}

/// The thread that has put or got at once does so by a bias from then on, until another one comes.
#[test]
fn short_transfers_of_one_thread_are_by_a_bias() {
    register_barrier();
    let memory = memory_of(1 << 16, 2);
    let block = memory.allocate(1 << 13).expect("room");
    let whole = memory.pointer::<u8>(block, 1 << 13);
    let (short, long) = ([7; SHORT], [8; SHORT + 1]);
    let mut back = [0; SHORT];
    assert!(memory.put_by_bias(&short, whole).is_none(), "none is given yet");
    assert!(memory.put_at_once(&short, whole).is_some());
    assert!(memory.put_by_bias(&long, whole).is_none(), "another thread would wait for a long copy");
    assert!(memory.put_by_bias(&short, whole).is_some() && memory.get_by_bias(whole, &mut back).is_some());
    assert_eq!(back, short);
    let call = memory.begin_use(whole.wire(), 1, 1).expect("free");
    assert!(memory.put_by_bias(&short, whole).is_none(), "a call names it");
    memory.end_use(call, 1);
    let beside = |then: &(dyn Fn() + Sync)| std::thread::scope(|scope| scope.spawn(then).join().expect("no panic"));
    beside(&|| {
        assert!(memory.put_by_bias(&[9], whole).is_none() && memory.put_at_once(&[9], whole).is_none());
        assert_eq!(memory.put(&[9], whole), Ok(()), "waits for nothing, but needs a barrier");
    });
    assert!(memory.get_by_bias(whole, &mut back).is_none(), "the other thread has taken it");
    assert!(memory.get_at_once(whole, &mut back).is_some() && back[0] == 9);
    // A pointer of a buffer that another thread drops names nothing, by a bias neither.
    let next = memory.allocate(64).expect("room");
    let next_whole = memory.pointer::<u8>(next, 64);
    let (record, _) = found(&memory, next);
    while record.copying.by_bias().is_none() {
        memory.put_at_once(&[1], next_whole).expect("free");
    }
    beside(&|| memory.release(next.index));
    assert_eq!(memory.live(), 1, "freed at once: no thread copies");
    assert!(memory.put_by_bias(&[1], next_whole).is_none());
}

/// Pages are provided up to where puts have reached.
#[test]
fn long_puts_have_pages_provided_once() {
    let memory = memory_of(1 << 20, 3);
    let used = || memory.used.load(Ordering::Relaxed);
    let blocks = [PROVIDED - 1, PROVIDED, 2 * PROVIDED].map(|bytes| memory.allocate(bytes).expect("room"));
    let all: Vec<u8> = (0..2 * PROVIDED).map(|at| at as u8).collect();
    let reached = blocks.map(|block| {
        let data = &all[..block.bytes as usize];
        let whole = memory.pointer::<u8>(block, data.len());
        memory.put(data, whole).expect("free");
        let mut back = vec![0; data.len()];
        memory.get(whole, &mut back).expect("free");
        assert!(back == data, "{} bytes", block.bytes);
        used()
    });
    let end = |block: Block| block.off + block.bytes;
    assert_eq!(reached, [0, end(blocks[1]), end(blocks[2])]);
    let whole = memory.pointer::<u8>(blocks[1], PROVIDED as usize);
    memory.put(&all[..PROVIDED as usize], whole).expect("free");
    assert_eq!(used(), end(blocks[2]));
}
