//! Calls of a device that threads of the host serve (abi §12): each call is served once and by a thread that may, none stays
//! unserved when a thread leaves a queue or sleeps, and behind the end of an epoch none writes into the window.
//!
//! `ServedQueue`, `Held`, `QueueNotifier`, and both ends of the queues are production's. A doorbell is the checker's
//! `Notify`, as in `sleep`. A reply notifies the device always: when it sleeps is explored there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use hamr_comm::am::{Expected, Found, Held, Notifier, QueueEnd, QueueNotifier, ServedQueue, WaitWord};
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::sync::{AtomicU32, Coherent, Order, Ordering};
use loom::sync::Notify;
use loom::thread;

use crate::Model;
use crate::ends::{Caller, NEW, Server, Want, pick};
use crate::sleep::Unfenced;
use crate::slots::{Pair, Shapes};

/// The host's wait word of one queue.
pub(crate) struct HostWord {
    word: AtomicU32,
    /// The epoch is over, and what of it was stored behind that. No panic in `store`: its thread has the queue's lock.
    is_closed: AtomicBool,
    was_stored: AtomicBool,
}

impl WaitWord for &HostWord {
    fn load(self) -> u32 {
        self.word.load(Ordering::Relaxed)
    }
    fn store(self, value: u32) {
        self.was_stored.fetch_or(self.is_closed.load(SeqCst), SeqCst);
        self.word.store(value, Ordering::Relaxed);
    }
}

/// The host's end of a queue, which takes messages in order.
pub(crate) struct End {
    server: Server<2>,
    next: u32,
    /// Who waits for replies.
    device: Arc<Notify>,
}

impl End {
    pub(crate) fn take(&mut self) -> Option<(u32, Found)> {
        let (found, _) = self.server.receive(self.next, 0)?;
        self.next += 1;
        Some((self.next - 1, found))
    }
}

impl QueueEnd for End {
    type Reply = (u32, Found);
    fn has_next(&self) -> bool {
        self.server.end().has_next()
    }
    fn expected(&self) -> Expected {
        self.server.end().expected()
    }
    fn publish(&self, &(k, found): &(u32, Found)) {
        self.server.reply(k, found);
        self.device.notify();
    }
}

pub(crate) type Queue = ServedQueue<Pair<2>, HostWord, End>;
pub(crate) type HeldQueue<'q> = Held<'q, Pair<2>, HostWord, End>;

/// A queue in its first epoch, and the device's end of it.
pub(crate) fn queue(device: &Arc<Notify>) -> (Arc<Queue>, Caller<2>) {
    let pair = Pair::new(Shapes::SOUND);
    let word = HostWord { word: AtomicU32::new(1), is_closed: false.into(), was_stored: false.into() };
    let queue = Queue::new(pair.clone(), word);
    let server = Server::new(pair.clone(), Epoch::FIRST, pick);
    queue.enter(Epoch::FIRST, End { server, next: 0, device: device.clone() });
    (Arc::new(queue), Caller::new(pair, Epoch::FIRST))
}

/// How a thread leaves a queue. All but the first are wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    Sound,
    Unfenced,
    /// Without a look behind it.
    Blind,
    /// With the look in front of it.
    LooksFirst,
}

impl Leave {
    /// Must a thread look again?
    fn leave(self, held: HeldQueue<'_>) -> bool {
        match self {
            Self::Sound => held.leave::<Coherent>(),
            Self::Unfenced => held.leave::<Unfenced>(),
            Self::Blind => {
                drop(held);
                false
            }
            Self::LooksFirst => held.has_next(),
        }
    }
}

/// When the device notifies of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notifies {
    Sound,
    Unfenced,
    /// Once for each odd value, as for other wait words.
    OnceAValue,
}

/// How the thread that waits for the first task serves it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Serves {
    Sound,
    /// It does not look for its reply.
    NoLook,
    /// It looks for its reply in front of the message.
    LooksFirst,
}

#[derive(Clone, Copy)]
struct Way {
    /// Calls of the first task, all begun before it waits for one.
    calls: u32,
    /// The first task's caller looks so often, in so many stretches, and leaves behind each.
    looks: (u32, u32),
    leave: Leave,
    notifies: Notifies,
    serves: Serves,
    /// The caller tells the watcher of what it leaves behind.
    kicks: bool,
}

const SOUND: Way =
    Way { calls: 1, looks: (1, 1), leave: Leave::Sound, notifies: Notifies::Sound, serves: Serves::Sound, kicks: true };

/// Two tasks have one place, one after the other. The caller of the first serves its calls, a worker those of both.
fn one_place(way: Way) {
    let [device, bell] = core::array::from_fn(|_| Arc::new(Notify::new()));
    let (queue, mut calls) = queue(&device);
    let is_answered = Arc::new(AtomicU32::new(0));
    let stopped = Arc::new(AtomicBool::new(false));

    let waits = (queue.clone(), is_answered.clone(), bell.clone());
    thread::spawn(move || wait_for_task(way, &waits.0, &waits.1, &waits.2));
    let works = (queue.clone(), stopped.clone(), bell.clone());
    thread::spawn(move || {
        while !works.1.load(SeqCst) {
            match works.0.hold_with_message::<Coherent>() {
                Some(held) => stay(&works.0, held),
                None => works.2.wait(),
            }
        }
    });

    let (mut notifier, mut once) = (QueueNotifier::new(), (Notifier::new(), 0));
    let mut call = |k: u32, calls: &mut Caller<2>| {
        calls.send(k, Want::Ring);
        let newest = calls.end.next_position().checked_sub(1);
        let is_answered = |x| calls.end.oldest().is_none_or(|oldest| x < oldest) || calls.end.ring_reply(x).is_some();
        let host = queue.wait_word();
        let needs = match way.notifies {
            Notifies::Sound => {
                Coherent::full();
                notifier.needs_notify(host, newest, is_answered)
            }
            Notifies::Unfenced => notifier.needs_notify(host, newest, is_answered),
            Notifies::OnceAValue => {
                once.1 += 1;
                once.0.needs_notify::<Coherent>(host)
            }
        };
        if needs {
            bell.notify();
        }
    };
    let reply = |calls: &mut Caller<2>| {
        while !calls.take_oldest() {
            device.wait();
        }
    };
    (0..way.calls).for_each(|k| call(k, &mut calls));
    (0..way.calls).for_each(|_| reply(&mut calls));
    is_answered.store(1, Ordering::Release);
    call(way.calls, &mut calls);
    reply(&mut calls);
    stopped.store(true, SeqCst);
    bell.notify();
}

/// As `Waiting` of the host does. It may leave the queue for good in front of its reply, as a thread that sleeps.
fn wait_for_task(way: Way, queue: &Queue, answered: &AtomicU32, bell: &Notify) {
    let is_answered = || answered.load(Ordering::Acquire) != 0;
    let mut held = None;
    let (looks, stretches) = way.looks;
    for _ in 0..stretches {
        for _ in 0..looks {
            if held.is_none() {
                held = queue.hold();
                held.iter_mut().for_each(HeldQueue::poll);
            }
            let Some(held) = &mut held else { continue };
            let serves = match way.serves {
                Serves::Sound => held.has_next_of_task(is_answered),
                Serves::NoLook => held.has_next(),
                Serves::LooksFirst => !is_answered() && held.has_next(),
            };
            if serves {
                held.run_next(|end| {
                    let taken = end.take();
                    assert!(taken.is_none_or(|(k, _)| k < way.calls), "a body of another task on the caller's thread");
                    taken
                });
            }
        }
        // It is about to sleep, and looks once more instead.
        if held.take().is_some_and(|held| way.leave.leave(held)) {
            held = queue.hold();
            if let Some(held) = held.as_mut().filter(|held| held.has_next_of_task(is_answered)) {
                held.run_next(End::take);
            }
        }
    }
    if held.is_some_and(|held| way.leave.leave(held)) && way.kicks {
        bell.notify();
    }
}

/// As a worker with a queue.
fn stay<'q>(queue: &'q Queue, mut held: HeldQueue<'q>) {
    loop {
        held.poll();
        while held.run_next(End::take) {}
        if !held.leave::<Coherent>() {
            return;
        }
        match queue.hold() {
            Some(again) => held = again,
            None => return,
        }
    }
}

pub(crate) const FOR_EVER: &str = "deadlock";
const OTHER_TASK: &str = "a body of another task";

#[test]
fn each_call_of_a_place_is_served_once_by_a_thread_that_may() {
    let more = [Way { looks: (2, 1), ..SOUND }, Way { looks: (1, 2), ..SOUND }, Way { calls: 2, ..SOUND }];
    let ways = [SOUND].into_iter().chain(more).collect();
    Model::new("host queue, caller and worker", ways, one_place).preempted_at_most(1).holds();
}

#[test]
fn without_a_fence_a_call_is_served_by_no_thread() {
    let way = Way { notifies: Notifies::Unfenced, ..SOUND };
    Model::new("host queue, no fence in the device", vec![way], one_place).preempted_at_most(1).breaks(FOR_EVER);
    let way = Way { leave: Leave::Unfenced, ..SOUND };
    Model::new("host queue, no fence in a thread that leaves", vec![way], one_place)
        .preempted_at_most(1)
        .breaks(FOR_EVER);
}

#[test]
fn without_a_look_behind_a_call_is_served_by_no_thread() {
    for leave in [Leave::Blind, Leave::LooksFirst] {
        Model::new("host queue, no look behind", vec![Way { leave, ..SOUND }], one_place)
            .preempted_at_most(1)
            .breaks(FOR_EVER);
    }
    let way = Way { kicks: false, ..SOUND };
    Model::new("host queue, the watcher is not told", vec![way], one_place).preempted_at_most(1).breaks(FOR_EVER);
}

#[test]
fn notified_once_for_a_value_a_call_is_served_by_no_thread() {
    let way = Way { notifies: Notifies::OnceAValue, ..SOUND };
    Model::new("host queue, once for a value", vec![way], one_place).preempted_at_most(1).breaks(FOR_EVER);
}

#[test]
fn a_caller_that_does_not_look_for_its_reply_serves_another_task() {
    for serves in [Serves::NoLook, Serves::LooksFirst] {
        Model::new("host queue, reply not looked for", vec![Way { serves, ..SOUND }], one_place)
            .preempted_at_most(1)
            .breaks(OTHER_TASK);
    }
}

/// An epoch ends while a thread serves a call; in the next another serves the first call. `publishes`: the body publishes its
/// reply itself, without the lock.
fn epochs(publishes: bool) {
    let device = Arc::new(Notify::new());
    let (queue, mut calls) = queue(&device);
    calls.send(0, Want::Ring);
    let (of_old, takes) = (queue.clone(), Arc::new((AtomicU32::new(0), Notify::new())));
    let has_taken = takes.clone();
    let old = thread::spawn(move || {
        let Some(mut held) = of_old.hold() else { return };
        held.poll();
        held.run_next(|end| {
            let taken = end.take()?;
            has_taken.0.store(1, Ordering::Release);
            has_taken.1.notify();
            if publishes {
                end.publish(&taken);
            }
            Some(taken)
        });
        assert!(!held.leave::<Coherent>(), "a message behind the only one");
    });
    while takes.0.load(Ordering::Acquire) == 0 {
        takes.1.wait();
    }
    queue.close();
    queue.wait_word().is_closed.store(true, SeqCst);
    // As an offer does.
    let pair = queue.slots().clone();
    pair.zero_requests();
    let new = Epoch(Epoch::FIRST.0 + 1);
    let server = Server::new(pair, new, pick);
    server.end().clear();
    queue.enter(new, End { server, next: NEW, device });
    calls.enter(new);
    calls.send(NEW, Want::Ring);
    // The thread of the old epoch does not hold this end, and does not bring its own back.
    let mut held = queue.hold().expect("a queue that no thread of this epoch holds");
    assert!(held.run_next(End::take), "a reply that is of no use");
    assert!(calls.take_oldest(), "no reply");
    drop(held);
    old.join().expect("a thread that ends");
    assert!(!queue.wait_word().was_stored.load(SeqCst), "a wait word stored behind the end of its epoch");
}

#[test]
fn behind_the_end_of_an_epoch_no_thread_writes() {
    Model::new("host queue, an epoch ends under a body", vec![false], epochs).holds();
    Model::new("host queue, a reply published without the lock", vec![true], epochs).breaks("torn request");
}
