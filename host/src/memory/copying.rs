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

use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// One thread writes. The other bits are not used then.
const WRITING: u16 = 1 << 15;
/// A writer waits: readers that come later wait until it is done.
const WANTED: u16 = 1 << 14;

/// Rounds of polling and of yielding the processor before a thread sleeps between its checks.
const SPINS: u32 = 64;
const YIELDS: u32 = 256;
const PAUSE: Duration = Duration::from_micros(50);

/// Readers in the low bits, [`WANTED`] and [`WRITING`] above.
pub(super) struct CopyLock(AtomicU16);

/// This thread copies out of the buffer.
pub(super) struct Reading<'l>(&'l CopyLock);

/// This thread alone copies.
pub(super) struct Writing<'l>(&'l CopyLock);

impl CopyLock {
    pub(super) const fn new() -> Self {
        Self(AtomicU16::new(0))
    }

    /// SeqCst, as in [`Self::write`] and [`Self::is_taken`]: see `DeviceMemory::release`.
    #[inline(always)]
    pub(super) fn read(&self) -> Reading<'_> {
        if !self.try_read() {
            wait_for(|| self.try_read());
        }
        Reading(self)
    }

    /// [`Self::read`], unless that waits.
    #[inline(always)]
    pub(super) fn read_at_once(&self) -> Option<Reading<'_>> {
        self.try_read().then(|| Reading(self))
    }

    #[inline(always)]
    fn try_read(&self) -> bool {
        let state = self.0.load(Ordering::Relaxed);
        // One reader fewer than the bits could count: more threads than that wait as for a writer.
        state < WANTED - 1 && self.0.compare_exchange(state, state + 1, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    pub(super) fn write(&self) -> Writing<'_> {
        self.write_at_once().unwrap_or_else(|| {
            wait_for(|| self.try_write());
            Writing(self)
        })
    }

    /// [`Self::write`], unless that waits.
    #[inline(always)]
    pub(super) fn write_at_once(&self) -> Option<Writing<'_>> {
        self.0.compare_exchange(0, WRITING, Ordering::SeqCst, Ordering::Relaxed).is_ok().then(|| Writing(self))
    }

    /// For a writer that has found the buffer taken. One that succeeds, or that another writer's
    /// store overtakes, loses WANTED for all that wait; they set it again. It stays set only as
    /// long as a writer waits.
    fn try_write(&self) -> bool {
        let state = self.0.load(Ordering::Relaxed);
        match state {
            0 | WANTED => self.0.compare_exchange(state, WRITING, Ordering::SeqCst, Ordering::Relaxed).is_ok(),
            _ if state < WANTED => {
                let wanted = state | WANTED;
                // An error means that a reader came or left, and that the next round checks again.
                let _ = self.0.compare_exchange(state, wanted, Ordering::Relaxed, Ordering::Relaxed);
                false
            }
            _ => false,
        }
    }

    /// Does a thread copy? A copy that this does not see any more is complete, for the caller too.
    pub(super) fn is_taken(&self) -> bool {
        self.0.load(Ordering::SeqCst) & !WANTED != 0
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
        self.0.0.store(0, Ordering::Release);
    }
}

#[cold]
#[inline(never)]
fn wait_for(mut attempt: impl FnMut() -> bool) {
    let mut rounds = 0;
    while !attempt() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32};

    #[test]
    fn copy_lock_admits_readers_or_one_writer() {
        let lock = CopyLock::new();
        let (one, other) = (lock.read(), lock.read());
        assert!(lock.is_taken() && !lock.try_write(), "two threads read");
        assert!(!lock.try_read(), "a writer waits, and goes first");
        drop((one, other));
        assert!(!lock.is_taken() && lock.try_write(), "no thread reads any more");
        let writing = Writing(&lock);
        assert!(!lock.try_read() && !lock.try_write(), "one thread writes");
        drop(writing);
        assert!(!lock.is_taken() && lock.try_read());
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
                        let _reading = lock.read();
                        let [a, b] = pair.each_ref().map(|word| word.load(Ordering::Relaxed));
                        assert_eq!(a, b, "a reader beside a writer");
                    }
                });
            }
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..20_000 {
                            let _writing = lock.write();
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
