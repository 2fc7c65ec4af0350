//! Going to sleep and being woken, from both ends (abi §7, rules 20 to 24). Generic over the words and the fence, so that the
//! model checker runs this very code.
//!
//! ```text
//! waker                                  sleeper
//! publish a message                      store an odd value in its wait word
//! full fence                             full fence
//! load the wait word; ring if odd        poll everything; sleep if there is nothing
//! ```
//!
//! Whichever fence comes first, its side's store is seen by the other's load: the message is found, or the bell is rung.
//! Without either fence both loads may return what was there before, and nobody wakes anybody.

use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::sync::{AtomicU32, Order, Ordering};
use hamr_shared_abi::window::Word;

/// A wait word: even while its poller polls, odd while it wants to be rung.
pub trait WaitWord: Copy {
    /// Relaxed load.
    fn load(self) -> u32;
    /// Relaxed store, by the word's one writer.
    fn store(self, value: u32);
    /// Does its poller want to be rung? Perhaps it was rung already: [`Waker::glance`] knows.
    #[inline(always)]
    fn is_odd(self) -> bool {
        self.load() & 1 != 0
    }
}

impl WaitWord for Word<'_> {
    #[inline(always)]
    fn load(self) -> u32 {
        Word::load(self)
    }
    #[inline(always)]
    fn store(self, value: u32) {
        Word::store(self, value);
    }
}

/// Who publishes messages to a poller that may sleep. Shared by the threads of one side.
pub struct Waker {
    /// The odd value that was rung for last, or an even number: none of this epoch. Threads that look at once may both ring, which is
    /// harmless.
    rung: AtomicU32,
}

impl Default for Waker {
    fn default() -> Self {
        Self::new()
    }
}

impl Waker {
    /// Nobody has been rung yet.
    pub fn new() -> Self {
        Self { rung: AtomicU32::new(0) }
    }

    /// Starts over in a new epoch, in which wait words count anew. The number is another one than any thread has seen that is about to
    /// note a value of the epoch before.
    pub fn enter(&self) {
        let before = self.rung.load(Ordering::Relaxed);
        self.rung.store((before | 1).wrapping_add(1), Ordering::Relaxed);
    }

    /// Rule 21, after a message was published: is the peer to be rung? Sees a sleeper that went to sleep some time ago; one
    /// that does so at this moment is what [`Self::look`] is for.
    #[inline(always)]
    pub fn glance(&self, peer: impl WaitWord) -> bool {
        let value = peer.load();
        value & 1 != 0 && self.is_first_for(value)
    }

    /// Rule 22: everything published before is found by the peer, or it is to be rung now.
    #[inline]
    pub fn look<F: Order>(&self, peer: impl WaitWord) -> bool {
        F::full();
        self.glance(peer)
    }

    /// [`Self::glance`] for the threads of one side: calls `ring` if the peer is to be rung. The value is noted when that is done, so
    /// that no thread relies on the ring of another which has yet to make it; and only if nothing else was noted meanwhile, so that a
    /// thread held up since an earlier epoch notes nothing in this one.
    #[inline]
    pub fn glance_and_ring(&self, peer: impl WaitWord, ring: impl FnOnce()) {
        let before = self.rung.load(Ordering::Relaxed);
        let value = peer.load();
        if value & 1 != 0 && before != value {
            ring();
            let _ = self.rung.compare_exchange(before, value, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// [`Self::look`], likewise.
    #[inline]
    pub fn look_and_ring<F: Order>(&self, peer: impl WaitWord, ring: impl FnOnce()) {
        F::full();
        self.glance_and_ring(peer, ring);
    }

    #[cold]
    fn is_first_for(&self, value: u32) -> bool {
        let first = self.rung.load(Ordering::Relaxed) != value;
        self.rung.store(value, Ordering::Relaxed);
        first
    }
}

/// Who polls, and may sleep.
#[derive(Default)]
pub struct Sleeper {
    /// What the wait word holds.
    value: u32,
}

impl Sleeper {
    /// A poller that polls.
    pub const fn new() -> Self {
        Self { value: 0 }
    }

    /// One whose values are others than those of the epochs before: a waker that was held up since then must not take its own for one
    /// of these.
    pub const fn of_epoch(epoch: Epoch) -> Self {
        Self { value: epoch.0 << 16 }
    }

    /// Rule 23, the first half: from now on peers ring. What was published before is found by whoever polls everything now,
    /// and only one who found nothing may sleep. A poller that lies down again although it never got up does so with a
    /// fresh value, because a peer may have rung for the old one.
    #[inline]
    pub fn lie_down<F: Order>(&mut self, own: impl WaitWord) {
        self.value = self.value.wrapping_add(1 + (self.value & 1));
        own.store(self.value);
        F::full();
    }

    /// Rule 23, the second half: something was found, or the sleep is over.
    #[inline]
    pub fn get_up(&mut self, own: impl WaitWord) {
        if self.is_down() {
            self.value = self.value.wrapping_add(1);
            own.store(self.value);
        }
    }

    /// Is it between the two?
    pub fn is_down(&self) -> bool {
        self.value & 1 != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::cell::Cell;
    use hamr_shared_abi::sync::Coherent;

    impl WaitWord for &Cell<u32> {
        fn load(self) -> u32 {
            self.get()
        }
        fn store(self, value: u32) {
            self.set(value);
        }
    }

    #[test]
    fn a_peer_rings_once_for_each_odd_value() {
        let (word, mut sleeper, waker) = (Cell::new(0), Sleeper::new(), Waker::new());
        assert!(!waker.glance(&word), "it polls");
        sleeper.lie_down::<Coherent>(&word);
        assert!(sleeper.is_down() && waker.look::<Coherent>(&word) && !waker.glance(&word));
        sleeper.lie_down::<Coherent>(&word);
        assert_eq!(word.get(), 3);
        assert!(waker.glance(&word), "another sleep");
        sleeper.get_up(&word);
        sleeper.get_up(&word);
        assert_eq!(word.get(), 4);
        assert!(!waker.look::<Coherent>(&word));
    }

    #[test]
    fn no_thread_relies_on_a_ring_that_another_has_yet_to_make() {
        let (word, waker, rings) = (Cell::new(1), Waker::new(), Cell::new(0));
        let count = || rings.set(rings.get() + 1);
        waker.glance_and_ring(&word, || {
            // Another thread, while this one is held up before it rings.
            waker.look_and_ring::<Coherent>(&word, count);
            assert_eq!(rings.get(), 1);
            count();
        });
        waker.glance_and_ring(&word, count);
        assert_eq!(rings.get(), 2, "it was rung for this value");
    }

    #[test]
    fn a_thread_held_up_since_an_earlier_epoch_swallows_no_ring() {
        for rung_before in [false, true] {
            let (word, waker, rings) = (Cell::new(1), Waker::new(), Cell::new(0));
            let count = || rings.set(rings.get() + 1);
            if rung_before {
                waker.glance_and_ring(&word, count);
                word.set(3);
            }
            waker.glance_and_ring(&word, || waker.enter());
            // The new epoch has come to the same value.
            rings.set(0);
            waker.glance_and_ring(&word, count);
            assert_eq!(rings.get(), 1);
        }
    }

    #[test]
    fn values_go_round() {
        let (word, mut sleeper, waker) = (Cell::new(0), Sleeper { value: u32::MAX - 1 }, Waker::new());
        sleeper.lie_down::<Coherent>(&word);
        assert!(waker.glance(&word));
        sleeper.lie_down::<Coherent>(&word);
        assert_eq!(word.get(), 1);
        assert!(waker.glance(&word));
    }

    #[test]
    fn a_new_epoch_counts_from_zero() {
        let (word, waker) = (Cell::new(1), Waker::new());
        assert!(waker.glance(&word));
        waker.enter();
        assert!(waker.glance(&word));
    }
}
