//! Sleeping and waking (rules 20 to 24): no wake is lost although nobody wakes by himself, and each of the fences is needed.
//!
//! Both ends are production's: `Requester` and `Responder` publish and observe, `Idle` decides when an end sleeps, `Waiter` and
//! `Notifier` do the rest. A doorbell is the checker's `Notify`: a ring before a sleep ends it at once, as with an eventfd or an
//! interrupt that stays pending. An end that sleeps for good is a deadlock, which the checker reports.

use std::sync::Arc;

use hamr_comm::am::{Idle, IdleStep, Notifier, WaitWord, Waiter};
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::sync::{AtomicU32, Coherent, Order, Ordering};
use loom::sync::Notify;
use loom::thread;

use crate::Model;
use crate::ends::{Caller, Server, Want, pick};
use crate::slots::{Pair, Shapes};

/// A wait word and the doorbell of the end that it belongs to.
pub(crate) struct Bed {
    word: AtomicU32,
    pub(crate) doorbell: Notify,
}

impl Bed {
    fn new() -> Self {
        Self { word: AtomicU32::new(0), doorbell: Notify::new() }
    }
}

impl WaitWord for &Bed {
    fn load(self) -> u32 {
        self.word.load(Ordering::Relaxed)
    }
    fn store(self, value: u32) {
        self.word.store(value, Ordering::Relaxed);
    }
}

/// Rule 24 dropped.
#[derive(Clone, Copy)]
pub(crate) struct Unfenced;

impl Order for Unfenced {
    fn publish(word: &core::sync::atomic::AtomicU32, value: u32) {
        Coherent::publish(word, value);
    }
    fn observe(word: &core::sync::atomic::AtomicU32) -> u32 {
        Coherent::observe(word)
    }
    fn full() {}
}

/// What an end does with the steps of [`Idle`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Steps {
    /// As a device: its wait word is even as soon as the sleep is over.
    Device,
    /// As a thread of the host: other threads may sleep on, so that the word stays odd until a poll finds something.
    Host,
    /// As [`Self::Host`], without the poll between the odd value and the sleep. Wrong.
    NoLastPoll,
    /// As [`Self::Host`], with the value of the sleep before. Wrong.
    OldValue,
}

/// One end that polls, sleeps and notifies. `W` is its fence as a notifier, `S` as a waiter.
pub(crate) struct End {
    pub(crate) own: Arc<Bed>,
    pub(crate) peer: Arc<Bed>,
    waiter: Waiter,
    notifier: Notifier,
}

impl End {
    pub(crate) fn pair() -> (Self, Self) {
        let (a, b) = (Arc::new(Bed::new()), Arc::new(Bed::new()));
        let end = |own: &Arc<Bed>, peer: &Arc<Bed>| Self {
            own: own.clone(),
            peer: peer.clone(),
            waiter: Waiter::new(),
            notifier: Notifier::new(),
        };
        (end(&a, &b), end(&b, &a))
    }

    /// Rule 21.
    pub(crate) fn needs_notify_relaxed(&self) {
        if self.notifier.needs_notify_relaxed(&*self.peer) {
            self.peer.doorbell.notify();
        }
    }

    /// Rule 22.
    pub(crate) fn needs_notify<W: Order>(&self) {
        if self.notifier.needs_notify::<W>(&*self.peer) {
            self.peer.doorbell.notify();
        }
    }

    /// Sleeps until `found` is true (rule 23), without a net. The clock runs fast: no step is only for more polls.
    pub(crate) fn wait<S: Order>(&mut self, steps: Steps, found: impl FnMut() -> bool) {
        self.wait_with::<S>(steps, found, |_| {});
    }

    /// The same; `prepares` is called behind each odd value.
    fn wait_with<S: Order>(&mut self, steps: Steps, mut found: impl FnMut() -> bool, prepares: impl Fn(&Self)) {
        let (mut idle, mut now) = (Idle::new(), 0_u64);
        while !found() {
            now += 1000;
            match idle.step(now, Some(0)) {
                IdleStep::Poll => {}
                IdleStep::PrepareWait => {
                    if steps != Steps::OldValue || !self.waiter.is_waiting() {
                        self.waiter.prepare_wait::<S>(&*self.own);
                    }
                    prepares(self);
                    if steps == Steps::NoLastPoll {
                        self.own.doorbell.wait();
                        idle.woken();
                    }
                }
                IdleStep::Sleep => {
                    self.own.doorbell.wait();
                    if steps == Steps::Device {
                        self.waiter.cancel_wait(&*self.own);
                    }
                    idle.woken();
                }
            }
        }
        idle.found();
        self.waiter.cancel_wait(&*self.own);
    }
}

/// Calls of a device that has no fence behind its replies but before its sleeps, and none at all where it is not `fenced`.
fn run_at_rest((calls, is_fenced): (u32, bool)) {
    let pair = Pair::<2>::new(Shapes::SOUND);
    let mut server = Server::new(pair.clone(), Epoch::FIRST, pick);
    let mut caller = Caller::new(pair, Epoch::FIRST);
    let (mut host, mut device) = End::pair();
    thread::spawn(move || {
        let fence = |device: &End| {
            if is_fenced {
                device.needs_notify::<Coherent>();
            }
        };
        for k in 0..calls {
            device.wait_with::<Coherent>(Steps::Device, || server.serve(k), fence);
            device.needs_notify_relaxed();
        }
        // The sleep behind the last one.
        fence(&device);
    });
    for k in 0..calls {
        caller.send(k, Want::Hot);
        host.needs_notify::<Coherent>();
        host.wait::<Coherent>(Steps::Host, || caller.take_hot());
    }
}

#[test]
fn a_device_that_sleeps_at_once_has_notified_its_host() {
    Model::new("the fence in front of each sleep, 1 call", vec![(1, true)], run_at_rest).preempted_at_most(3).holds();
    Model::new("the fence in front of each sleep, 2 calls", vec![(2, true)], run_at_rest).preempted_at_most(2).holds();
    Model::new("a sleep without it", vec![(1, false)], run_at_rest).breaks(FOR_EVER);
}

/// `calls` calls, one at a time: each side sleeps whenever it finds nothing.
fn run<HostWakes: Order, HostSleeps: Order, DeviceWakes: Order, DeviceSleeps: Order>(
    (calls, host_steps): (u32, Steps),
) {
    let pair = Pair::<2>::new(Shapes::SOUND);
    let mut server = Server::new(pair.clone(), Epoch::FIRST, pick);
    let mut caller = Caller::new(pair, Epoch::FIRST);
    let (mut host, mut device) = End::pair();
    thread::spawn(move || {
        for k in 0..calls {
            device.wait::<DeviceSleeps>(Steps::Device, || server.serve(k));
            device.needs_notify_relaxed();
            // No more work.
            device.needs_notify::<DeviceWakes>();
        }
    });
    for k in 0..calls {
        caller.send(k, Want::Hot);
        host.needs_notify_relaxed();
        // A wait that has spun for a while.
        host.needs_notify::<HostWakes>();
        host.wait::<HostSleeps>(host_steps, || caller.take_hot());
    }
}

#[test]
fn no_side_sleeps_for_ever() {
    Model::new("sleep, 1 call", vec![(1, Steps::Host)], run::<Coherent, Coherent, Coherent, Coherent>).holds();
    Model::new("sleep, 2 calls", vec![(2, Steps::Host)], run::<Coherent, Coherent, Coherent, Coherent>)
        .preempted_at_most(2)
        .holds();
}

const FOR_EVER: &str = "deadlock";

#[test]
fn without_the_notifiers_fence_a_side_sleeps_for_ever() {
    Model::new(
        "no fence in the host as notifier",
        vec![(1, Steps::Host)],
        run::<Unfenced, Coherent, Coherent, Coherent>,
    )
    .breaks(FOR_EVER);
    Model::new(
        "no fence in the device as notifier",
        vec![(1, Steps::Host)],
        run::<Coherent, Coherent, Unfenced, Coherent>,
    )
    .breaks(FOR_EVER);
}

#[test]
fn without_the_waiters_fence_a_side_sleeps_for_ever() {
    Model::new(
        "no fence in the device as waiter",
        vec![(1, Steps::Host)],
        run::<Coherent, Coherent, Coherent, Unfenced>,
    )
    .breaks(FOR_EVER);
    Model::new("no fence in the host as waiter", vec![(1, Steps::Host)], run::<Coherent, Unfenced, Coherent, Coherent>)
        .breaks(FOR_EVER);
}

#[test]
fn without_the_last_poll_a_side_sleeps_for_ever() {
    Model::new(
        "no poll after the odd value",
        vec![(1, Steps::NoLastPoll)],
        run::<Coherent, Coherent, Coherent, Coherent>,
    )
    .breaks(FOR_EVER);
}

#[test]
fn with_the_value_of_the_last_sleep_a_side_sleeps_for_ever() {
    Model::new("odd value used again", vec![(2, Steps::OldValue)], run::<Coherent, Coherent, Coherent, Coherent>)
        .preempted_at_most(2)
        .breaks(FOR_EVER);
}
