//! The lock of a buffer's copies, with and without a bias: no copy meets another one, nor one of the buffer that has the
//! memory next.
//!
//! The lock is production's. The barrier that the system makes in all threads is a fence of the thread that asks for it,
//! and one behind each statement of a thread that it holds a lock by its bias; without the barrier, that is none. The
//! checker takes SeqCst accesses for weaker ones: where production relies on them, there is a fence.

use std::cell::Cell;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::thread;

use crate::Model;

#[path = "../../../host/src/memory/copying.rs"]
#[allow(dead_code, reason = "what only other callers use")]
mod copying;

use copying::CopyLock;

mod bias {
    use super::WAY;
    use super::Way;
    use loom::sync::atomic::{AtomicUsize, Ordering, fence};
    use std::cell::Cell;

    loom::lazy_static! {
        static ref HOLDS: [AtomicUsize; 3] = [const { 0 }; 3].map(AtomicUsize::new);
    }
    loom::thread_local! {
        static NUMBER: Cell<u16> = Cell::new(0);
    }

    #[derive(Clone, Copy)]
    pub(super) struct Mine {
        pub(super) number: u16,
    }

    pub(super) struct Held(u16);

    #[derive(Debug)]
    pub(super) struct NoBarrier;

    /// This thread has a number from now on.
    pub(super) fn number(number: u16) {
        NUMBER.with(|mine| mine.set(number));
    }

    pub(super) fn mine() -> Mine {
        Mine { number: NUMBER.with(Cell::get) }
    }

    pub(super) fn mine_for_bias() -> Option<Mine> {
        Some(mine())
    }

    pub(super) fn barrier() -> Result<(), NoBarrier> {
        fence(Ordering::SeqCst);
        Ok(())
    }

    pub(super) fn is_held(number: u16, address: usize) -> bool {
        HOLDS[usize::from(number)].load(Ordering::Acquire) == address
    }

    pub(super) fn hold_off(_: u16) {}

    impl Mine {
        pub(super) fn hold(self, address: usize) -> Held {
            HOLDS[usize::from(self.number)].store(address, Ordering::Relaxed);
            if WAY.get() != Way::NoBarrier {
                fence(Ordering::SeqCst);
            }
            Held(self.number)
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            HOLDS[usize::from(self.0)].store(0, Ordering::Release);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Sound,
    /// The system makes no barrier.
    NoBarrier,
}

thread_local! {
    /// All threads of an execution are this one.
    static WAY: Cell<Way> = const { Cell::new(Way::Sound) };
}

struct Buffer {
    lock: CopyLock,
    is_live: AtomicU32,
    /// Its bytes: two words that a copy leaves alike.
    bytes: [AtomicU32; 2],
}

impl Buffer {
    fn new() -> Self {
        Self { lock: CopyLock::new(), is_live: AtomicU32::new(1), bytes: [0, 0].map(AtomicU32::new) }
    }

    /// Adds 1 to both words; nothing else does meanwhile.
    fn change(&self) {
        let [one, other] = self.bytes.each_ref().map(|word| word.load(Ordering::Relaxed));
        assert_eq!(one, other, "torn copy");
        for word in &self.bytes {
            word.store(one + 1, Ordering::Relaxed);
        }
    }

    /// As a short put, unless the buffer was dropped; was it made?
    fn put(&self) -> bool {
        let change = || {
            let is_live = self.is_live.load(Ordering::SeqCst) == 1;
            if is_live {
                self.change();
            }
            is_live
        };
        if let Some(_held) = self.lock.by_bias() {
            return change();
        }
        let changed = {
            let _writing = self.lock.write().expect("a barrier");
            fence(Ordering::SeqCst);
            change()
        };
        self.lock.bias();
        changed
    }

    /// As a short get.
    fn get(&self) {
        let same = || {
            let [one, other] = self.bytes.each_ref().map(|word| word.load(Ordering::Relaxed));
            assert_eq!(one, other, "torn copy");
        };
        if let Some(_held) = self.lock.by_bias() {
            return same();
        }
        let _reading = self.lock.read().expect("a barrier");
        same();
    }

    /// The owner drops it. Where no copy is seen its memory is another buffer's at once, into which this thread copies.
    fn release(&self) -> bool {
        self.is_live.swap(0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let is_free = !self.lock.is_taken();
        if is_free {
            self.change();
        }
        is_free
    }
}

/// A thread with number 1, to which the lock is biased, puts once or twice, and this one with number 2, too, or reads.
fn two_threads((way, puts, reads): (Way, u32, bool)) {
    WAY.set(way);
    let buffer = Arc::new(Buffer::new());
    bias::number(1);
    buffer.lock.bias();
    bias::number(2);
    let theirs = buffer.clone();
    let other = thread::spawn(move || {
        bias::number(1);
        (0..puts).for_each(|_| assert!(theirs.put()));
    });
    match reads {
        true => buffer.get(),
        false => assert!(buffer.put()),
    }
    other.join().expect("no panic");
    let [bytes, _] = buffer.bytes.each_ref().map(|word| word.load(Ordering::Relaxed));
    assert_eq!(bytes, puts + u32::from(!reads), "a copy is lost");
}

/// The same thread puts into a buffer that this one drops.
fn dropped((way, puts, _): (Way, u32, bool)) {
    WAY.set(way);
    let buffer = Arc::new(Buffer::new());
    bias::number(1);
    buffer.lock.bias();
    bias::number(2);
    let theirs = buffer.clone();
    let other = thread::spawn(move || {
        bias::number(1);
        (0..puts).filter(|_| theirs.put()).count() as u32
    });
    let is_freed = buffer.release();
    let made = other.join().expect("no panic");
    // By now no thread copies.
    let is_freed = is_freed || buffer.release();
    assert!(is_freed, "a bias keeps the memory");
    let [bytes, _] = buffer.bytes.each_ref().map(|word| word.load(Ordering::Relaxed));
    assert_eq!(bytes, made + 1, "a copy is lost");
}

#[test]
fn no_copy_meets_one_by_a_bias() {
    let cases = vec![(Way::Sound, 1, false), (Way::Sound, 1, true), (Way::Sound, 2, false), (Way::Sound, 2, true)];
    Model::new("copies, two threads", cases, two_threads).preempted_at_most(3).holds();
}

#[test]
fn no_copy_by_a_bias_meets_the_next_buffer() {
    let cases = vec![(Way::Sound, 1, false), (Way::Sound, 2, false)];
    Model::new("copies, dropped beside", cases, dropped).preempted_at_most(3).holds();
}

#[test]
fn without_a_barrier_copies_meet() {
    Model::new("copies, two threads, no barrier", vec![(Way::NoBarrier, 1, false)], two_threads).breaks("copy");
    Model::new("copies, a reader, no barrier", vec![(Way::NoBarrier, 1, true)], two_threads).breaks("torn copy");
    Model::new("copies, dropped beside, no barrier", vec![(Way::NoBarrier, 1, false)], dropped).breaks("copy");
}
