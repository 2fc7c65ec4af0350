//! Threads that have locks biased towards them (`copying`), and the barrier that takes a bias from another thread.
//!
//! A thread gets a number at its first short transfer that took a lock, and gives it back when it ends. The next thread
//! with that number has the locks of the one before: it has ended, and with it its copies.

// Contract "biased locks". A buffer's lock (`host/src/memory/copying.rs`) may be biased towards one
// thread, which takes it without a locked instruction for copies of up to 4 KiB: it stores the lock's
// address in its own slot (`bias.rs`), then finds its number in the lock's word and the pointer's
// generation in the record. No other thread copies meanwhile, nor frees the buffer:
// - A thread that wants the lock, or frees the buffer, changes the word or the generation, asks the
//   system for a barrier (`membarrier`, PRIVATE_EXPEDITED), and waits until the slot is left, or frees
//   later. A store to a slot before the barrier is seen; a thread that stores after it finds the bias
//   gone.
// - Leaving the slot releases, the wait acquires; so do a free lock that becomes biased, and a slot
//   that goes to another thread.
// - Biases are given only if the system granted the barrier when a `Runtime` was made. Where it
//   refuses later, the bias stays, and transfers by other threads are refused
//   (`BufferError::NoBarrier`).
// Model: `copies` (`docs/model.md`).

use rustix::thread::{MembarrierCommand, membarrier};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, compiler_fence};

/// Threads with a number at once, and one more slot. Other threads use locked instructions.
const SLOTS: usize = 256;
/// A barrier takes as long as the locked instructions of a few hundred transfers. So a thread that has lost a bias makes
/// so many transfers with them until it is given the next one: threads that take turns in a buffer gain nothing by a
/// bias.
const HOLD_OFF: u32 = 1024;

/// One thread's, in a cache line of its own.
#[repr(align(64))]
pub(super) struct Slot {
    /// The address of the lock that the thread holds by its bias, or 0. Written by this thread alone.
    holds: AtomicUsize,
    hold_off: AtomicU32,
    is_taken: AtomicBool,
}

/// The first is of all threads without a number.
static THREADS: [Slot; SLOTS] =
    [const { Slot { holds: AtomicUsize::new(0), hold_off: AtomicU32::new(0), is_taken: AtomicBool::new(false) } };
        SLOTS];

/// Does the system have the barrier?
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static MINE: Cell<Mine> = const { Cell::new(Mine { number: 0, slot: &THREADS[0] }) };
    static NUMBER: Number = Number::take();
}

/// A thread, by its number; 0 is none.
#[derive(Clone, Copy)]
pub(super) struct Mine {
    pub(super) number: u16,
    slot: &'static Slot,
}

/// Gives the number back when the thread ends.
struct Number(u16);

/// A lock that the thread of a slot holds by its bias.
pub(super) struct Held(&'static Slot);

/// The system refuses `membarrier`, which it had granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NoBarrier;

/// Asks the system for the barrier, once. Later than the first other thread this takes it some 20 ms.
pub(crate) fn register() {
    let granted = |command| membarrier(command).is_ok();
    if !IS_REGISTERED.load(Ordering::Relaxed)
        && granted(MembarrierCommand::RegisterPrivateExpedited)
        && granted(MembarrierCommand::PrivateExpedited)
    {
        IS_REGISTERED.store(true, Ordering::Relaxed);
    }
}

/// Behind this every thread of this process has made what it did before [`Mine::hold`]'s fence visible, or will see what
/// this thread did in front of it.
pub(super) fn barrier() -> Result<(), NoBarrier> {
    #[cfg(test)]
    if tests::IS_REFUSED.get() {
        return Err(NoBarrier);
    }
    membarrier(MembarrierCommand::PrivateExpedited).map_err(|_| NoBarrier)
}

/// This thread.
#[inline(always)]
pub(super) fn mine() -> Mine {
    MINE.get()
}

/// This thread, with a number, unless it is not to be given a bias (again, yet).
pub(super) fn mine_for_bias() -> Option<Mine> {
    // No number before the barrier is there, nor while the thread's values are dropped.
    if !IS_REGISTERED.load(Ordering::Relaxed) || NUMBER.try_with(|number| number.0).unwrap_or(0) == 0 {
        return None;
    }
    let mine = mine();
    match mine.slot.hold_off.load(Ordering::Relaxed) {
        0 => Some(mine),
        left => {
            // One that another thread's store overtakes shortens the time, or doubles it.
            mine.slot.hold_off.store(left - 1, Ordering::Relaxed);
            None
        }
    }
}

/// Does the thread with that number hold the lock at that address by its bias? True also while it finds out that it has
/// lost the bias. To be asked behind [`barrier`].
pub(super) fn is_held(number: u16, address: usize) -> bool {
    // Acquire: pairs with the release when the thread leaves, so that its copy is complete.
    THREADS.get(usize::from(number)).is_some_and(|slot| slot.holds.load(Ordering::Acquire) == address)
}

/// The thread with that number has lost a bias.
pub(super) fn hold_off(number: u16) {
    if let Some(slot) = THREADS.get(usize::from(number)) {
        slot.hold_off.store(HOLD_OFF, Ordering::Relaxed);
    }
}

impl Mine {
    /// States that this thread holds the lock at `address`, if it is biased towards it: to be looked at behind this, and
    /// whatever the lock protects behind that.
    #[inline(always)]
    pub(super) fn hold(self, address: usize) -> Held {
        self.slot.holds.store(address, Ordering::Relaxed);
        // The other half of `barrier`, which stands for a fence of the processor here.
        compiler_fence(Ordering::SeqCst);
        Held(self.slot)
    }
}

impl Drop for Held {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.holds.store(0, Ordering::Release);
    }
}

impl Number {
    fn take() -> Self {
        // Acquire: pairs with the release of the thread that had the number.
        let take = |slot: &Slot| !slot.is_taken.swap(true, Ordering::Acquire);
        let Some((number, slot)) = THREADS.iter().enumerate().skip(1).find(|(_, slot)| take(slot)) else {
            return Self(0);
        };
        slot.hold_off.store(0, Ordering::Relaxed);
        MINE.set(Mine { number: number as u16, slot });
        Self(number as u16)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        let Mine { number, slot } = MINE.replace(Mine { number: 0, slot: &THREADS[0] });
        if number != 0 {
            slot.is_taken.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    thread_local! {
        /// The system refuses the barrier to this thread.
        pub(in crate::memory) static IS_REFUSED: Cell<bool> = const { Cell::new(false) };
    }

    #[test]
    fn numbers_are_of_one_thread_until_it_ends() {
        register();
        let number = || mine_for_bias().map_or(0, |mine| mine.number);
        let beside = || std::thread::spawn(number).join().expect("no panic");
        let mine = number();
        // More than there are: each is given back.
        let others: Vec<_> = (0..SLOTS).map(|_| beside()).collect();
        assert!(mine != 0 && others.iter().all(|other| ![0, mine].contains(other)), "{mine}, {others:?}");
    }
}
