//! Going to sleep and being woken, from both ends (abi §7, rules 20 to 24). Generic over the words
//! and the fence, so that the model checker runs this very code.
//!
//! ```text
//! notifier                               waiter
//! publish a message                      store an odd value in its wait word
//! full fence                             full fence
//! load the wait word; notify if odd      poll everything; sleep if there is nothing
//! ```
//!
//! Whichever fence comes first, the other side's load sees the store before it: the message is
//! found, or the waiter is notified. Without either fence both loads may return the old values, and
//! the waiter sleeps on with a message unread.

use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::sync::{AtomicU32, Order, Ordering};
use hamr_shared_abi::window::{KeptWord, Word};

/// A wait word: even while its poller polls, odd while the poller waits for a notification.
pub trait WaitWord: Copy {
    /// Relaxed load.
    fn load(self) -> u32;
    /// Relaxed store, by the word's one writer.
    fn store(self, value: u32);
    /// Does the poller need a notification? It may have been notified already;
    /// [`Notifier::needs_notify_relaxed`] checks that, too.
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

impl<K> WaitWord for &KeptWord<K> {
    #[inline(always)]
    fn load(self) -> u32 {
        self.word().load()
    }
    #[inline(always)]
    fn store(self, value: u32) {
        self.word().store(value);
    }
}

/// When a device notifies the host of messages in one host queue (abi §12).
#[derive(Default)]
pub struct QueueNotifier {
    /// The odd value that the host was notified for last, and the newest message then.
    value: u32,
    newest: u64,
}

impl QueueNotifier {
    /// One that has not notified yet.
    pub const fn new() -> Self {
        Self { value: 0, newest: 0 }
    }

    /// Rules 21 and 22 of abi §12: must the host be notified of the messages up to `newest`? Again
    /// for the same odd value, when all messages that it was notified of have replies: it may have
    /// taken them before the notification came.
    #[inline(always)]
    pub fn needs_notify(
        &mut self,
        host: impl WaitWord,
        newest: Option<u64>,
        is_answered: impl Fn(u64) -> bool,
    ) -> bool {
        let word = host.load();
        let Some(newest) = newest.filter(|_| word & 1 != 0) else { return false };
        if is_answered(newest) || word == self.value && !is_answered(self.newest) {
            return false;
        }
        (self.value, self.newest) = (word, newest);
        true
    }
}

/// The side that publishes messages to a poller that may sleep. Shared by the threads of the side.
pub struct Notifier {
    /// The odd value that was notified for last; an even number is none of this epoch. Threads that
    /// check at the same time may both notify, which is harmless.
    notified: AtomicU32,
}

impl Default for Notifier {
    fn default() -> Self {
        Self::new()
    }
}

impl Notifier {
    /// A notifier that has not notified yet.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { notified: AtomicU32::new(0) }
    }

    /// The checker's atomics are not made in constants.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self { notified: AtomicU32::new(0) }
    }

    /// Starts over in a new epoch, whose wait words start over, too. The new number differs from
    /// any that a thread has loaded which is about to store a value of the former epoch.
    pub fn enter(&self) {
        let before = self.notified.load(Ordering::Relaxed);
        self.notified.store((before | 1).wrapping_add(1), Ordering::Relaxed);
    }

    /// Rule 21, after a message was published: must the peer be notified? It finds a waiter that
    /// went to sleep some time ago; one that does so at this moment needs [`Self::needs_notify`].
    #[inline(always)]
    pub fn needs_notify_relaxed(&self, peer: impl WaitWord) -> bool {
        let value = peer.load();
        value & 1 != 0 && self.is_first_for(value)
    }

    /// Rule 22: the peer finds everything published before, or must be notified now.
    #[inline]
    pub fn needs_notify<F: Order>(&self, peer: impl WaitWord) -> bool {
        F::full();
        self.needs_notify_relaxed(peer)
    }

    /// [`Self::needs_notify_relaxed`] for the threads of one side: calls `notify` if the peer needs
    /// it. The value is stored after that, so that no thread relies on a notification that another
    /// thread has yet to make. It is stored only if no other value was stored meanwhile, so that a
    /// thread delayed since an earlier epoch stores nothing in this one.
    #[inline]
    pub fn notify_if_needed_relaxed(&self, peer: impl WaitWord, notify: impl FnOnce()) {
        let before = self.notified.load(Ordering::Relaxed);
        let value = peer.load();
        if value & 1 != 0 && before != value {
            notify();
            let _ = self.notified.compare_exchange(before, value, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// [`Self::needs_notify`], likewise.
    #[inline]
    pub fn notify_if_needed<F: Order>(&self, peer: impl WaitWord, notify: impl FnOnce()) {
        F::full();
        self.notify_if_needed_relaxed(peer, notify);
    }

    #[cold]
    fn is_first_for(&self, value: u32) -> bool {
        let first = self.notified.load(Ordering::Relaxed) != value;
        self.notified.store(value, Ordering::Relaxed);
        first
    }
}

/// Looks without result behind a publish before its fence; fewer where each is modelled.
const LOOKS: u32 = if cfg!(loom) { 2 } else { 64 };

/// A [`Notifier`] that knows whether something was published since its last fence: a side that finds nothing fences once for
/// that, however often it looks.
///
/// Its user may be ended between any two accesses: it counts before it publishes, and forgets behind the notification.
#[derive(Default)]
pub struct FencedNotifier {
    notifier: Notifier,
    /// 0: nothing was published since the last fence; else looks since the last publish, from 1 on.
    unfenced: AtomicU32,
}

impl FencedNotifier {
    /// One that has published nothing.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { notifier: Notifier::new(), unfenced: AtomicU32::new(0) }
    }

    /// As [`Notifier::new`].
    #[cfg(loom)]
    pub fn new() -> Self {
        Self { notifier: Notifier::new(), unfenced: AtomicU32::new(0) }
    }

    /// [`Notifier::enter`].
    pub fn enter(&self) {
        self.notifier.enter();
        self.unfenced.store(0, Ordering::Relaxed);
    }

    /// Something is about to be published.
    #[inline(always)]
    pub fn publishes(&self) {
        self.unfenced.store(1, Ordering::Relaxed);
    }

    /// Rule 21, behind a publish.
    #[inline(always)]
    pub fn notify_relaxed(&self, peer: impl WaitWord, notify: impl FnOnce()) {
        self.notifier.notify_if_needed_relaxed(peer, notify);
    }

    /// A look for what the peer publishes found nothing: rule 22 at the 64th behind a publish, some microsecond later.
    #[inline(always)]
    pub fn found_nothing<F: Order>(&self, peer: impl WaitWord, notify: impl FnOnce()) {
        match self.unfenced.load(Ordering::Relaxed) {
            0 => {}
            LOOKS.. => self.notify_fenced::<F>(peer, notify),
            looks => self.unfenced.store(looks + 1, Ordering::Relaxed),
        }
    }

    /// Rule 22: the peer finds everything published before, or is notified now.
    #[inline(always)]
    pub fn notify_fenced<F: Order>(&self, peer: impl WaitWord, notify: impl FnOnce()) {
        if self.unfenced.load(Ordering::Relaxed) != 0 {
            self.notifier.notify_if_needed::<F>(peer, notify);
            self.unfenced.store(0, Ordering::Relaxed);
        }
    }
}

/// The side that polls, and may sleep.
#[derive(Default)]
pub struct Waiter {
    /// The last value stored in the wait word.
    value: u32,
}

impl Waiter {
    /// A poller that polls.
    pub const fn new() -> Self {
        Self { value: 0 }
    }

    /// A waiter whose values differ from those of former epochs: a notifier delayed since then must
    /// not take its own value for one of these.
    pub const fn of_epoch(epoch: Epoch) -> Self {
        Self { value: epoch.0 << 16 }
    }

    /// Rule 23, the first half: from now on peers notify. A poll of everything after this finds
    /// what was published before, and the poller may sleep only if that poll found nothing. A
    /// poller that sleeps again without a cancel stores a fresh value, because a peer may have
    /// notified for the former one.
    #[inline]
    pub fn prepare_wait<F: Order>(&mut self, own: impl WaitWord) {
        self.value = self.value.wrapping_add(1 + (self.value & 1));
        own.store(self.value);
        F::full();
    }

    /// Rule 23, the second half: something was found, or the sleep is over.
    #[inline]
    pub fn cancel_wait(&mut self, own: impl WaitWord) {
        if self.is_waiting() {
            self.value = self.value.wrapping_add(1);
            own.store(self.value);
        }
    }

    /// Is it between prepare and cancel?
    pub fn is_waiting(&self) -> bool {
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
    fn a_peer_notifies_once_for_each_odd_value() {
        let (word, mut waiter, notifier) = (Cell::new(0), Waiter::new(), Notifier::new());
        assert!(!notifier.needs_notify_relaxed(&word), "it polls");
        waiter.prepare_wait::<Coherent>(&word);
        assert!(
            waiter.is_waiting() && notifier.needs_notify::<Coherent>(&word) && !notifier.needs_notify_relaxed(&word)
        );
        waiter.prepare_wait::<Coherent>(&word);
        assert_eq!(word.get(), 3);
        assert!(notifier.needs_notify_relaxed(&word), "another sleep");
        waiter.cancel_wait(&word);
        waiter.cancel_wait(&word);
        assert_eq!(word.get(), 4);
        assert!(!notifier.needs_notify::<Coherent>(&word));
    }

    #[test]
    fn no_thread_relies_on_a_notification_that_another_has_yet_to_make() {
        let (word, notifier, notifications) = (Cell::new(1), Notifier::new(), Cell::new(0));
        let count = || notifications.set(notifications.get() + 1);
        notifier.notify_if_needed_relaxed(&word, || {
            // Another thread, while this one is delayed before it notifies.
            notifier.notify_if_needed::<Coherent>(&word, count);
            assert_eq!(notifications.get(), 1);
            count();
        });
        notifier.notify_if_needed_relaxed(&word, count);
        assert_eq!(notifications.get(), 2, "it was notified for this value");
    }

    /// On bare metal a task may be ended anywhere in it.
    #[test]
    fn a_peer_is_notified_by_the_next_one_when_a_task_was_ended_before_it_did() {
        let (word, notifier, notifications) = (Cell::new(1), Notifier::new(), Cell::new(0));
        let ended = std::panic::AssertUnwindSafe(|| notifier.notify_if_needed_relaxed(&word, || panic!("asked to")));
        assert!(std::panic::catch_unwind(ended).is_err());
        notifier.notify_if_needed_relaxed(&word, || notifications.set(1));
        assert_eq!(notifications.get(), 1);
    }

    #[test]
    fn a_thread_held_up_since_an_earlier_epoch_suppresses_no_notification() {
        for notified_before in [false, true] {
            let (word, notifier, notifications) = (Cell::new(1), Notifier::new(), Cell::new(0));
            let count = || notifications.set(notifications.get() + 1);
            if notified_before {
                notifier.notify_if_needed_relaxed(&word, count);
                word.set(3);
            }
            notifier.notify_if_needed_relaxed(&word, || notifier.enter());
            // The new epoch has come to the same value.
            notifications.set(0);
            notifier.notify_if_needed_relaxed(&word, count);
            assert_eq!(notifications.get(), 1);
        }
    }

    #[test]
    fn what_was_published_is_fenced_once() {
        #[derive(Clone, Copy)]
        struct Counted;
        std::thread_local!(static FENCES: Cell<u32> = const { Cell::new(0) });
        impl Order for Counted {
            fn publish(_: &core::sync::atomic::AtomicU32, _: u32) {}
            fn observe(_: &core::sync::atomic::AtomicU32) -> u32 {
                0
            }
            fn full() {
                FENCES.set(FENCES.get() + 1);
            }
        }
        let (word, notifier, notifications) = (Cell::new(0), FencedNotifier::new(), Cell::new(0));
        let count = || notifications.set(notifications.get() + 1);
        let looks = |n| (0..n).for_each(|_| notifier.found_nothing::<Counted>(&word, count));
        looks(100);
        assert_eq!(FENCES.get(), 0);
        notifier.publishes();
        notifier.notify_relaxed(&word, count);
        word.set(1);
        looks(LOOKS - 1);
        assert_eq!((FENCES.get(), notifications.get()), (0, 0));
        looks(100);
        notifier.notify_fenced::<Counted>(&word, count);
        assert_eq!((FENCES.get(), notifications.get()), (1, 1));
        // A user that was ended in the notification leaves it to the next.
        word.set(3);
        notifier.publishes();
        let ended = std::panic::AssertUnwindSafe(|| notifier.notify_fenced::<Counted>(&word, || panic!("ended")));
        assert!(std::panic::catch_unwind(ended).is_err());
        notifier.notify_fenced::<Counted>(&word, count);
        assert_eq!((FENCES.get(), notifications.get()), (3, 2));
    }

    #[test]
    fn values_go_round() {
        let (word, mut waiter, notifier) = (Cell::new(0), Waiter { value: u32::MAX - 1 }, Notifier::new());
        waiter.prepare_wait::<Coherent>(&word);
        assert!(notifier.needs_notify_relaxed(&word));
        waiter.prepare_wait::<Coherent>(&word);
        assert_eq!(word.get(), 1);
        assert!(notifier.needs_notify_relaxed(&word));
    }

    #[test]
    fn a_new_epoch_counts_from_zero() {
        let (word, notifier) = (Cell::new(1), Notifier::new());
        assert!(notifier.needs_notify_relaxed(&word));
        notifier.enter();
        assert!(notifier.needs_notify_relaxed(&word));
    }
}
