//! One host queue: which thread holds it, and how that thread leaves it (abi §12).
//!
//! A thread takes messages of a queue only while it *holds* the queue, and holds it while a body
//! runs. In front of that its wait word is made even; to leave, a holder stores a fresh odd value,
//! gives the queue up, and looks at it once more behind a fence. In another order a message could
//! stay unserved: between the last look and the odd value the device does not notify, and a thread
//! that was notified finds a queue that is still held.

use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::status::Status;
use hamr_comm::abi::sync::{Coherent, Order};
use hamr_comm::abi::window::{KeptWord, OutOfWindow, Queue, Shared, Window};
use hamr_comm::am::{Expected, HostReply, HostResponder};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The value of a wait word in an offer: odd.
const FIRST: u32 = 1;
/// No epoch.
const CLOSED: u32 = 0;

pub(super) struct ServedQueue {
    slots: Queue<Shared>,
    wait: KeptWord<Shared>,
    /// Locked for nanoseconds, and by whatever writes into the window: behind [`ServedQueue::close`]
    /// a body of an earlier epoch leaves no trace there.
    state: Mutex<State>,
}

struct State {
    /// The present epoch.
    epoch: u32,
    /// There while no thread holds the queue. A holder of an earlier epoch has another one, which it
    /// does not bring back.
    idle: Option<Box<End>>,
}

/// The host's end of the queue in one epoch.
struct End {
    epoch: u32,
    responder: HostResponder<Shared>,
    /// The last value of the wait word.
    wait: u32,
}

/// A queue that this thread holds.
pub(super) struct Held<'q> {
    of: &'q ServedQueue,
    /// There until the queue is left.
    end: Option<Box<End>>,
}

impl ServedQueue {
    pub(super) fn new(window: &Window<Shared>, slots: Queue<Shared>, wait_word: u64) -> Result<Self, OutOfWindow> {
        let state = Mutex::new(State { epoch: CLOSED, idle: None });
        Ok(Self { slots, wait: window.keep_word(wait_word)?, state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The window is laid out for `epoch`, and the device serves.
    pub(super) fn enter(&self, epoch: Epoch) {
        let responder = HostResponder::new(self.slots.clone(), epoch);
        let end = Box::new(End { epoch: epoch.0, responder, wait: FIRST });
        *self.state() = State { epoch: epoch.0, idle: Some(end) };
    }

    /// Behind this no thread writes into the queue.
    pub(super) fn close(&self) {
        *self.state() = State { epoch: CLOSED, idle: None };
    }

    /// Holds the queue, if no other thread does and it is open.
    pub(super) fn hold(&self) -> Option<Held<'_>> {
        let end = self.state().idle.take()?;
        Some(Held { of: self, end: Some(end) })
    }
}

impl Held<'_> {
    /// Is a message there?
    #[inline]
    pub(super) fn has_next(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.responder.has_next())
    }

    /// The device need not notify of messages of this queue until it is left.
    pub(super) fn poll(&mut self) {
        if self.end.as_ref().is_some_and(|end| end.wait & 1 != 0) {
            self.step_wait_word();
        }
    }

    fn step_wait_word(&mut self) {
        let Some(end) = &mut self.end else { return };
        end.wait = end.wait.wrapping_add(1);
        let state = self.of.state();
        if state.epoch == end.epoch {
            self.of.wait.word().store(end.wait);
        }
    }

    /// Takes a message and runs its body by `run`. False: there was none, or its reply is of no use
    /// any more.
    pub(super) fn run_next(&mut self, run: impl FnOnce(&mut HostResponder<Shared>) -> Option<HostReply>) -> bool {
        let Some(end) = &mut self.end else { return false };
        let Some(reply) = run(&mut end.responder) else { return false };
        let state = self.of.state();
        let is_present = state.epoch == end.epoch;
        if is_present {
            end.responder.publish(&reply);
        }
        is_present
    }

    /// Replies to the next message without running it.
    pub(super) fn refuse_next(&mut self, status: Status) {
        self.run_next(|queue| queue.refuse_next(status));
    }

    /// Stops polling the queue. True: a message is there that this thread did not see before, and for
    /// which the device may have notified no thread that could take it.
    pub(super) fn leave(mut self) -> bool {
        self.give_up().is_some_and(|expected| {
            // Pairs with the device's fence between its publish and its load of the wait word.
            Coherent::full();
            expected.is_there(&self.of.slots)
        })
    }

    fn give_up(&mut self) -> Option<Expected> {
        if self.end.as_ref()?.wait & 1 == 0 {
            self.step_wait_word();
        }
        let end = self.end.take()?;
        let expected = end.responder.expected();
        let mut state = self.of.state();
        if state.epoch != end.epoch {
            return None;
        }
        state.idle = Some(end);
        Some(expected)
    }
}

impl Drop for Held<'_> {
    /// Left by a panic: the next holder finds what is there.
    fn drop(&mut self) {
        self.give_up();
    }
}
