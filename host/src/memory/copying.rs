//! One buffer's copies: several threads of this program read, or one writes.
//!
//! `Node` is `Sync` and a transfer is a `memcpy`: without this, two threads of safe code that put
//! into one buffer would race. A transfer that meets another one waits for it, which takes no
//! longer than that copy: nothing that a caller supplies runs inside of one. Refusing it instead
//! would fail programs in which threads fill parts of one buffer, at random.
//!
//! The lock is taken by one locked instruction before the copy. A writer releases it by a plain
//! store: a locked instruction behind the copy would wait for the data just put to reach memory
//! before the next request may follow it.
//!
//! Short copies mostly do without. A lock that a thread has held for one, and no other wanted, is
//! *biased* towards it: this thread states that it holds the lock in a word that no other thread
//! writes, and looks whether the bias is still there. A thread that wants the lock, also for long
//! copies, takes the bias first, by a barrier that the system makes in all threads of this process,
//! and then waits for the copy that it may find (contract "biased locks"). A bias survives
//! its buffer only if that thread frees it.
//!
//! `tests/model` includes this file.

use super::bias::{self, Held, NoBarrier};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU16, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// The number of a thread follows: no other one copies. Of number 0 there is none.
const BIASED: u16 = 1 << 15;
/// One thread writes. The other bits are not used then.
const WRITING: u16 = 1 << 14;
/// A writer waits: readers that come later wait until it is done.
const WANTED: u16 = 1 << 13;

/// Rounds of polling and of yielding the processor before a thread sleeps between its checks.
const SPINS: u32 = 64;
const YIELDS: u32 = 256;
const PAUSE: Duration = Duration::from_micros(50);

/// The one word that says who copies: [`BIASED`], [`WRITING`], or readers in the low bits and [`WANTED`].
pub(super) struct CopyLock(AtomicU16);

/// This thread copies out of the buffer.
pub(super) struct Reading<'l>(&'l CopyLock);

/// This thread alone copies.
pub(super) struct Writing<'l> {
    lock: &'l CopyLock,
    /// The word behind it: 0, or this thread's own bias.
    after: u16,
}

impl CopyLock {
    pub(super) fn new() -> Self {
        Self(AtomicU16::new(0))
    }

    /// To read or to write, if the lock is biased towards this thread. No other lock may be asked for
    /// before this one is dropped.
    #[inline(always)]
    pub(super) fn by_bias(&self) -> Option<Held> {
        let mine = bias::mine();
        let held = mine.hold(self.address());
        (self.0.load(Ordering::Acquire) == BIASED | mine.number).then_some(held)
    }

    /// Biases the lock towards this thread, unless one holds it.
    pub(super) fn bias(&self) {
        if let Some(mine) = bias::mine_for_bias() {
            // SeqCst: see `DeviceMemory::release`, which reads this word. An error: as it is.
            let _ = self.0.compare_exchange(0, BIASED | mine.number, Ordering::SeqCst, Ordering::Relaxed);
        }
    }

    /// Takes this thread's own bias back, so that no other one needs a barrier.
    pub(super) fn unbias(&self) {
        let biased = BIASED | bias::mine().number;
        if self.0.load(Ordering::Relaxed) == biased {
            let _ = self.0.compare_exchange(biased, 0, Ordering::SeqCst, Ordering::Relaxed);
        }
    }

    /// SeqCst, as in [`Self::write`] and [`Self::is_taken`]: see `DeviceMemory::release`.
    pub(super) fn read(&self) -> Result<Reading<'_>, NoBarrier> {
        wait_for(|| self.try_read())
    }

    /// [`Self::read`], unless that waits.
    #[inline(always)]
    pub(super) fn read_at_once(&self) -> Option<Reading<'_>> {
        let state = self.0.load(Ordering::Relaxed);
        // This thread's own bias ends.
        let free = if state == BIASED | bias::mine().number { 0 } else { state };
        // One reader fewer than the bits could count: more threads than that wait as for a writer.
        let is_taken =
            free < WANTED - 1 && self.0.compare_exchange(state, free + 1, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        is_taken.then(|| Reading(self))
    }

    fn try_read(&self) -> Result<Option<Reading<'_>>, NoBarrier> {
        match self.read_at_once() {
            None => Ok(self.revoked()?.map(Writing::into_reading)),
            reading => Ok(reading),
        }
    }

    pub(super) fn write(&self) -> Result<Writing<'_>, NoBarrier> {
        match self.write_at_once() {
            None => wait_for(|| self.try_write()),
            Some(writing) => Ok(writing),
        }
    }

    /// [`Self::write`], unless that waits.
    #[inline(always)]
    pub(super) fn write_at_once(&self) -> Option<Writing<'_>> {
        let state = self.0.load(Ordering::Relaxed);
        let after = if state == BIASED | bias::mine().number { state } else { 0 };
        let is_taken = self.0.compare_exchange(after, WRITING, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        is_taken.then(|| Writing { lock: self, after })
    }

    /// For a writer that has found the buffer taken. One that succeeds, or that another writer's
    /// store overtakes, loses WANTED for all that wait; they set it again. It stays set only as
    /// long as a writer waits.
    fn try_write(&self) -> Result<Option<Writing<'_>>, NoBarrier> {
        let state = self.0.load(Ordering::Relaxed);
        match state {
            0 | WANTED => {
                let is_taken = self.0.compare_exchange(state, WRITING, Ordering::SeqCst, Ordering::Relaxed).is_ok();
                Ok(is_taken.then(|| Writing { lock: self, after: 0 }))
            }
            _ if state < WANTED => {
                let wanted = state | WANTED;
                // An error means that a reader came or left, and that the next round checks again.
                let _ = self.0.compare_exchange(state, wanted, Ordering::Relaxed, Ordering::Relaxed);
                Ok(None)
            }
            _ => self.revoked(),
        }
    }

    /// The lock, if it was biased: behind the copy of the thread that had the bias.
    #[cold]
    fn revoked(&self) -> Result<Option<Writing<'_>>, NoBarrier> {
        let state = self.0.load(Ordering::Relaxed);
        let Some(writing) = self.revoke(state)? else { return Ok(None) };
        let is_left = || Ok((!self.is_held(state)).then_some(()));
        wait_for(is_left)?;
        Ok(Some(writing))
    }

    /// Takes the bias that is `state`. The thread that had it may be in its last copy; of a later one it
    /// sees that the bias is gone. Without a barrier nothing changes.
    fn revoke(&self, state: u16) -> Result<Option<Writing<'_>>, NoBarrier> {
        if state & BIASED == 0 || self.0.compare_exchange(state, WRITING, Ordering::SeqCst, Ordering::Relaxed).is_err()
        {
            return Ok(None);
        }
        let mut writing = Writing { lock: self, after: state };
        // This thread itself is in no copy.
        if state != BIASED | bias::mine().number {
            bias::barrier()?;
            bias::hold_off(state & !BIASED);
        }
        writing.after = 0;
        Ok(Some(writing))
    }

    fn is_held(&self, state: u16) -> bool {
        bias::is_held(state & !BIASED, self.address())
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Does a thread copy, as far as that is to be seen without a barrier?
    #[inline(always)]
    pub(super) fn is_seen_taken(&self) -> bool {
        // Neither free nor, as its sign says, biased.
        (self.0.load(Ordering::Acquire) & !WANTED).cast_signed() > 0
    }

    /// Does a thread copy? A copy that this does not see any more is complete, for the caller too. A bias ends, but where
    /// the system has no barrier: then only the thread that has it finds its last copy complete.
    pub(super) fn is_taken(&self) -> bool {
        let state = self.0.load(Ordering::SeqCst);
        if state & BIASED == 0 {
            return state & !WANTED != 0;
        }
        let Ok(Some(mut writing)) = self.revoke(state) else { return true };
        let is_held = self.is_held(state);
        if is_held {
            // To be asked again.
            writing.after = state;
        }
        is_held
    }
}

impl<'l> Writing<'l> {
    /// Other threads may read, too.
    fn into_reading(self) -> Reading<'l> {
        let lock = self.lock;
        // No other thread changes the word while WRITING is set.
        lock.0.store(1, Ordering::Release);
        std::mem::forget(self);
        Reading(lock)
    }
}

impl Drop for Reading<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: a writer that comes later stores behind these loads.
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

impl Drop for Writing<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // No other thread changes the word while WRITING is set: a plain store loses nothing.
        self.lock.0.store(self.after, Ordering::Release);
    }
}

#[cold]
#[inline(never)]
fn wait_for<T>(mut attempt: impl FnMut() -> Result<Option<T>, NoBarrier>) -> Result<T, NoBarrier> {
    let mut rounds = 0;
    loop {
        if let Some(done) = attempt()? {
            return Ok(done);
        }
        #[cfg(loom)]
        loom::thread::yield_now();
        rounds += 1;
        if rounds <= SPINS {
            std::hint::spin_loop();
        } else if rounds <= YIELDS {
            std::thread::yield_now();
        } else {
            // The thread that copies has no processor, or copies much.
            std::thread::sleep(PAUSE);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32};

    #[test]
    fn copy_lock_admits_readers_or_one_writer() {
        let lock = CopyLock::new();
        let read = || lock.try_read().expect("a barrier");
        let write = || lock.try_write().expect("a barrier");
        let (one, other) = (read(), read());
        assert!(lock.is_taken() && write().is_none(), "two threads read");
        assert!(read().is_none(), "a writer waits, and goes first");
        drop((one, other));
        let writing = write();
        assert!(writing.is_some() && lock.is_taken() && lock.is_seen_taken(), "no thread reads any more");
        assert!(read().is_none() && write().is_none(), "one thread writes");
        drop(writing);
        assert!(!lock.is_taken() && read().is_some());
    }

    /// What another thread does with a lock.
    fn beside<T: Send>(then: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(then).join().expect("no panic"))
    }

    fn biased() -> CopyLock {
        bias::register();
        let lock = CopyLock::new();
        assert!(lock.by_bias().is_none(), "no bias is there before it is given");
        // It may be held off.
        assert!((0..=1024).any(|_| {
            lock.bias();
            lock.by_bias().is_some()
        }));
        lock
    }

    #[test]
    fn bias_is_of_one_thread_until_another_wants_the_lock() {
        let lock = biased();
        assert!(lock.by_bias().is_some() && lock.by_bias().is_some());
        assert!(beside(|| lock.by_bias().is_none() && !lock.is_seen_taken()));
        beside(|| drop(lock.write().expect("a barrier")));
        assert!(lock.by_bias().is_none(), "it was revoked");
        lock.bias();
        assert!(lock.by_bias().is_none(), "it is held off");
        biased();
    }

    #[test]
    fn bias_stays_where_its_thread_takes_the_lock_itself() {
        let lock = biased();
        drop(lock.write().expect("at once"));
        assert!(lock.by_bias().is_some(), "behind a long copy into the buffer");
        drop(lock.read().expect("at once"));
        assert!(lock.by_bias().is_none());
        lock.bias();
        assert!(lock.by_bias().is_some(), "given again at once, as no other thread has taken it");
        lock.unbias();
        assert!(lock.by_bias().is_none());
    }

    /// The other thread takes the bias and waits until this one's copy ends, of which it frees nothing before.
    #[test]
    fn a_revoked_bias_is_left_before_the_lock_is_had() {
        for writes in [false, true] {
            // On a thread of its own: the next one's bias is held off.
            beside(|| a_revoked_bias_is_left(writes));
        }
    }

    fn a_revoked_bias_is_left(writes: bool) {
        let lock = biased();
        let held = lock.by_bias().expect("biased");
        assert!(beside(|| lock.is_taken()), "this thread copies");
        let has_come = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                match writes {
                    true => drop(lock.write().expect("a barrier")),
                    false => drop(lock.read().expect("a barrier")),
                }
                has_come.store(true, Ordering::Release);
            });
            while !lock.is_seen_taken() {
                std::thread::yield_now();
            }
            assert!(!has_come.load(Ordering::Acquire), "a copy beside this one");
            drop(held);
        });
        assert!(has_come.into_inner() && !lock.is_taken());
    }

    #[test]
    fn without_a_barrier_a_bias_stays_and_others_are_refused() {
        let lock = biased();
        let refused = beside(|| {
            bias::tests::IS_REFUSED.set(true);
            (lock.write().err(), lock.read().err(), lock.is_taken())
        });
        assert_eq!(refused, (Some(NoBarrier), Some(NoBarrier), true));
        assert!(lock.by_bias().is_some(), "nothing has changed");
        assert!(!lock.is_taken(), "this thread needs no barrier");
    }

    /// As a short transfer takes the lock.
    #[expect(dead_code, reason = "held until dropped")]
    enum Hold<'l> {
        Biased(Held),
        Reading(Reading<'l>),
        Writing(Writing<'l>),
    }

    impl<'l> Hold<'l> {
        fn of(lock: &'l CopyLock, reads: bool) -> Self {
            if let Some(held) = lock.by_bias() {
                return Self::Biased(held);
            }
            lock.bias();
            match reads {
                true => Self::Reading(lock.read().expect("a barrier")),
                false => Self::Writing(lock.write().expect("a barrier")),
            }
        }
    }

    /// Writers increment two words that must never differ; readers compare them.
    #[test]
    fn copy_lock_keeps_pairs_whole() {
        let lock = CopyLock::new();
        let pair = [AtomicU32::new(0), AtomicU32::new(0)];
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        let _reading = Hold::of(&lock, true);
                        let [a, b] = pair.each_ref().map(|word| word.load(Ordering::Relaxed));
                        assert_eq!(a, b, "a reader beside a writer");
                    }
                });
            }
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..20_000 {
                            let _writing = Hold::of(&lock, false);
                            for word in &pair {
                                word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                            }
                        }
                    })
                })
                .collect();
            let ended = writers.into_iter().all(|writer| writer.join().is_ok());
            done.store(true, Ordering::Relaxed);
            assert!(ended);
        });
        assert_eq!(pair.map(AtomicU32::into_inner), [40_000; 2], "no increment is lost");
    }
}
