//! One host queue: which thread of the host holds it, and how that thread leaves it (abi §12).
//! Generic over the slots, the wait word and the end, so that the model checker runs this very code.
//!
//! A thread takes messages of a queue only while it *holds* the queue, and holds it while a body
//! runs. In front of that its wait word is made even; to leave, a holder stores a fresh odd value,
//! gives the queue up, and looks at it once more behind a fence. In another order a message could
//! stay unserved: between the last look and the odd value the device does not notify, and a thread
//! that was notified finds a queue that is still held.

use super::locks::{Mutex, MutexGuard};
use super::{Expected, Slots, WaitWord};
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::sync::Order;
use std::boxed::Box;
use std::sync::PoisonError;

/// The value of a wait word in an offer: odd.
const FIRST: u32 = 1;
/// No epoch.
const CLOSED: u32 = 0;

/// The host's end of a queue, which takes its messages and replies to them.
pub trait QueueEnd {
    /// A reply that is not published yet.
    type Reply;
    /// Is a message there?
    fn has_next(&self) -> bool;
    /// Where the next messages come.
    fn expected(&self) -> Expected;
    /// Publishes a reply.
    fn publish(&self, reply: &Self::Reply);
}

/// A queue, for all threads of the host.
pub struct ServedQueue<S, W, E> {
    slots: S,
    wait: W,
    /// Locked for nanoseconds, and by whatever writes into the window: behind [`Self::close`] a body
    /// of an earlier epoch leaves no trace there.
    state: Mutex<State<E>>,
}

struct State<E> {
    /// The present epoch.
    epoch: u32,
    /// There while no thread holds the queue. A holder of an earlier epoch has another one, which it
    /// does not bring back.
    idle: Option<Box<Owned<E>>>,
}

/// The host's end of the queue in one epoch.
struct Owned<E> {
    epoch: u32,
    end: E,
    /// The last value of the wait word.
    wait: u32,
}

/// A queue that this thread holds.
pub struct Held<'q, S: Slots, W, E: QueueEnd>
where
    for<'w> &'w W: WaitWord,
{
    of: &'q ServedQueue<S, W, E>,
    /// There until the queue is left.
    owned: Option<Box<Owned<E>>>,
}

impl<S: Slots, W, E: QueueEnd> ServedQueue<S, W, E>
where
    for<'w> &'w W: WaitWord,
{
    /// A queue that is closed.
    pub fn new(slots: S, wait: W) -> Self {
        Self { slots, wait, state: Mutex::new(State { epoch: CLOSED, idle: None }) }
    }

    /// The slots.
    pub fn slots(&self) -> &S {
        &self.slots
    }

    /// The wait word.
    pub fn wait_word(&self) -> &W {
        &self.wait
    }

    fn state(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The window is laid out for `epoch`, and the device serves; `end` is at its start.
    pub fn enter(&self, epoch: Epoch, end: E) {
        let idle = Some(Box::new(Owned { epoch: epoch.0, end, wait: FIRST }));
        *self.state() = State { epoch: epoch.0, idle };
    }

    /// Behind this no thread writes into the queue.
    pub fn close(&self) {
        *self.state() = State { epoch: CLOSED, idle: None };
    }

    /// Holds the queue, if no other thread does and it is open.
    pub fn hold(&self) -> Option<Held<'_, S, W, E>> {
        let owned = self.state().idle.take()?;
        Some(Held { of: self, owned: Some(owned) })
    }

    /// Is a message there that no thread holds?
    pub fn is_unserved(&self) -> bool {
        self.state().idle.as_ref().is_some_and(|owned| owned.end.has_next())
    }

    /// Holds the queue, if a message is there. What another thread holds is that thread's.
    pub fn hold_with_message<F: Order>(&self) -> Option<Held<'_, S, W, E>> {
        loop {
            let held = self.hold()?;
            if held.has_next() {
                return Some(held);
            }
            if !held.leave::<F>() {
                return None;
            }
        }
    }
}

impl<S: Slots, W, E: QueueEnd> Held<'_, S, W, E>
where
    for<'w> &'w W: WaitWord,
{
    /// Is a message there?
    #[inline]
    pub fn has_next(&self) -> bool {
        self.owned.as_ref().is_some_and(|owned| owned.end.has_next())
    }

    /// Is a message there of the task whose caller this thread is? `is_answered` looks for the task's
    /// reply: a place goes to the next task behind the reply to its last one, so a message found in
    /// front of that look is one of this task.
    #[inline]
    pub fn has_next_of_task(&self, is_answered: impl FnOnce() -> bool) -> bool {
        self.has_next() && !is_answered()
    }

    /// The device need not notify of messages of this queue until it is left.
    pub fn poll(&mut self) {
        if self.owned.as_ref().is_some_and(|owned| owned.wait & 1 != 0) {
            self.step_wait_word();
        }
    }

    fn step_wait_word(&mut self) {
        let Some(owned) = &mut self.owned else { return };
        owned.wait = owned.wait.wrapping_add(1);
        let state = self.of.state();
        if state.epoch == owned.epoch {
            self.of.wait.store(owned.wait);
        }
    }

    /// Takes a message and runs its body by `run`. False: there was none, or its reply is of no use
    /// any more.
    pub fn run_next(&mut self, run: impl FnOnce(&mut E) -> Option<E::Reply>) -> bool {
        let Some(owned) = &mut self.owned else { return false };
        let Some(reply) = run(&mut owned.end) else { return false };
        let state = self.of.state();
        let is_present = state.epoch == owned.epoch;
        if is_present {
            owned.end.publish(&reply);
        }
        is_present
    }

    /// Stops polling the queue. True: a message is there that this thread did not see before, and for
    /// which the device may have notified no thread that could take it.
    pub fn leave<F: Order>(mut self) -> bool {
        self.give_up().is_some_and(|expected| {
            // Pairs with the device's fence between its publish and its load of the wait word.
            F::full();
            expected.is_there(&self.of.slots)
        })
    }

    fn give_up(&mut self) -> Option<Expected> {
        if self.owned.as_ref()?.wait & 1 == 0 {
            self.step_wait_word();
        }
        let owned = self.owned.take()?;
        let expected = owned.end.expected();
        let mut state = self.of.state();
        if state.epoch != owned.epoch {
            return None;
        }
        state.idle = Some(owned);
        Some(expected)
    }
}

impl<S: Slots, W, E: QueueEnd> Drop for Held<'_, S, W, E>
where
    for<'w> &'w W: WaitWord,
{
    /// Left by a panic: the next holder finds what is there.
    fn drop(&mut self) {
        self.give_up();
    }
}
