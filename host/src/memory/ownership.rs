//! Transfers of a program in which one thread makes them all: without a locked instruction.
//!
//! The first thread that copies becomes the owner of a memory's transfers. It states in a word that
//! it alone writes whether it copies, and checks that it is still the owner. Any other thread takes
//! the ownership away, once and for good; from then on every transfer locks its record (`copying`).
//!
//! ```text
//! owner                              another thread
//! copies = true            (A)       owner = TAKING                             (B)
//! (the compiler keeps the order)     membarrier
//! load owner: still mine?  (B)       load copies until it is false              (A, E)
//! copy
//! copies = false           (E)       owner = EVERY: from now on by locks
//! ```
//!
//! `membarrier` puts a full fence into every running thread of this program, between two of its
//! instructions. If that is before the owner's load, the load sees B, and the owner goes the way of
//! all threads. If it is behind, A was stored before, and the other thread waits for E. So the rare
//! side pays for the fence that the frequent side would need. Without the system call no thread
//! becomes owner.

use super::copying::wait_for;
use rustix::thread::{MembarrierCommand, membarrier};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence};
use std::time::Duration;

// Values of `owner` that are no thread's.
/// No thread has copied.
const NOBODY: u64 = 1;
/// A thread waits for the former owner's copy.
const TAKING: u64 = 2;
/// Every transfer locks its record.
const EVERY: u64 = 3;

static NEXT_THREAD: AtomicU64 = AtomicU64::new(EVERY + 1);

thread_local! {
    /// This thread's number; 0 before it has one.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// Who may copy without a lock (see the module).
pub(super) struct Ownership {
    owner: AtomicU64,
    /// Written by the owner alone.
    copies: AtomicBool,
}

/// The owner copies.
pub(super) struct Copying<'o>(&'o Ownership);

impl Drop for Copying<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // E: pairs with the Acquire in `take`.
        self.0.copies.store(false, Ordering::Release);
    }
}

impl Ownership {
    pub(super) fn new() -> Self {
        let can_fence = membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok();
        Self { owner: AtomicU64::new(if can_fence { NOBODY } else { EVERY }), copies: AtomicBool::new(false) }
    }

    /// Begins a copy of the owner. `None`: this thread is not the owner, and locks.
    #[inline(always)]
    pub(super) fn copy(&self) -> Option<Copying<'_>> {
        if !self.is_mine() {
            return None;
        }
        self.copies.store(true, Ordering::Relaxed);
        let copying = Copying(self);
        compiler_fence(Ordering::SeqCst);
        (self.owner.load(Ordering::Relaxed) == THREAD.get()).then_some(copying)
    }

    /// Behind this, every copy without a lock that another thread had begun is complete, and no
    /// other thread begins one.
    #[inline(always)]
    pub(super) fn settle(&self) {
        self.is_mine();
    }

    /// Is this thread the owner? If not, no thread is.
    #[inline(always)]
    fn is_mine(&self) -> bool {
        // Acquire: pairs with the store of EVERY, and so with each E.
        let owner = self.owner.load(Ordering::Acquire);
        owner == THREAD.get() || owner != EVERY && self.take()
    }

    /// Makes this thread the owner when there is none, and takes the ownership from another one.
    #[cold]
    #[inline(never)]
    fn take(&self) -> bool {
        if THREAD.get() == 0 {
            THREAD.set(NEXT_THREAD.fetch_add(1, Ordering::Relaxed));
        }
        let (mine, change) = (THREAD.get(), |from, to| {
            self.owner.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).unwrap_or_else(|now| now)
        });
        match change(NOBODY, mine) {
            NOBODY => return true,
            EVERY => return false,
            owner if owner == mine => return true,
            // B. Of several threads that come here, each waits.
            owner => _ = change(owner, TAKING),
        }
        if membarrier(MembarrierCommand::PrivateExpedited).is_err() {
            // Forbidden meanwhile, by a filter of system calls. No processor keeps a store to
            // itself for so long.
            std::thread::sleep(Duration::from_millis(10));
        }
        wait_for(|| !self.copies.load(Ordering::Acquire));
        self.owner.store(EVERY, Ordering::Release);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn ownership_is_the_first_thread_s_until_another_one_copies() {
        let ownership = Ownership::new();
        if !ownership.is_mine() {
            return; // A kernel without the system call.
        }
        assert!(ownership.copy().is_some() && ownership.copy().is_some());
        assert!(std::thread::scope(|scope| scope.spawn(|| ownership.copy().is_none()).join()).expect("no panic"));
        assert!(ownership.copy().is_none(), "every thread locks");
        assert!(!ownership.copies.load(Ordering::Relaxed), "no thread is waited for");
    }

    /// The owner increments two words one after the other; the thread that takes the ownership finds
    /// them equal, whenever it comes.
    #[test]
    fn a_thread_that_takes_ownership_waits_for_the_copy() {
        for round in 0..100_u32 {
            let ownership = Ownership::new();
            let pair = [AtomicU32::new(0), AtomicU32::new(0)];
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while let Some(_copying) = ownership.copy() {
                        for word in &pair {
                            word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                            (0..round % 7).for_each(|_| std::hint::spin_loop());
                        }
                    }
                });
                while pair[0].load(Ordering::Relaxed) < round && ownership.owner.load(Ordering::Relaxed) != EVERY {
                    std::hint::spin_loop();
                }
                if !ownership.is_mine() {
                    let [a, b] = pair.each_ref().map(|word| word.load(Ordering::Relaxed));
                    assert_eq!(a, b, "round {round}: taken beside a copy");
                }
            });
        }
    }
}
