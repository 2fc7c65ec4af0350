//! Sleeping and waking (rules 20 to 24). No wake-up is lost although no side wakes by itself, and
//! each of the fences is needed.
//!
//! Both ends are the production code: `Requester` and `Responder` publish and observe, `Waiter` and
//! `Notifier` do the rest. A doorbell is the checker's `Notify`: a notification before a sleep ends
//! it at once, as with an eventfd or an interrupt that stays pending. An end that sleeps for ever
//! is a deadlock, which the checker reports.

use std::sync::Arc;

use hamr_comm::am::{Idle, IdleStep, Notifier, WaitWord, Waiter};
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::sync::{AtomicU32, Coherent, Order, Ordering};
use loom::sync::Notify;
use loom::thread;

use crate::Model;
use crate::ends::{Caller, Server, Want, pick};
use crate::slots::{Pair, Shapes};

/// A side's wait word and doorbell.
struct Side {
    word: AtomicU32,
    doorbell: Notify,
}

impl Side {
    fn new() -> Self {
        Self { word: AtomicU32::new(0), doorbell: Notify::new() }
    }
}

impl WaitWord for &Side {
    fn load(self) -> u32 {
        self.word.load(Ordering::Relaxed)
    }
    fn store(self, value: u32) {
        self.word.store(value, Ordering::Relaxed);
    }
}

/// The fence of rule 24 left out.
#[derive(Clone, Copy)]
struct Unfenced;

impl Order for Unfenced {
    fn publish(word: &core::sync::atomic::AtomicU32, value: u32) {
        Coherent::publish(word, value);
    }
    fn observe(word: &core::sync::atomic::AtomicU32) -> u32 {
        Coherent::observe(word)
    }
    fn full() {}
}

/// One end that polls, sleeps and notifies. `W` is its fence as a notifier, `S` as a waiter.
struct End {
    own: Arc<Side>,
    peer: Arc<Side>,
    waiter: Waiter,
    notifier: Notifier,
}

impl End {
    fn pair() -> (Self, Self) {
        let (a, b) = (Arc::new(Side::new()), Arc::new(Side::new()));
        let end = |own: &Arc<Side>, peer: &Arc<Side>| Self {
            own: own.clone(),
            peer: peer.clone(),
            waiter: Waiter::new(),
            notifier: Notifier::new(),
        };
        (end(&a, &b), end(&b, &a))
    }

    /// Rule 21.
    fn notify_relaxed(&self) {
        if self.notifier.needs_notify_relaxed(&*self.peer) {
            self.peer.doorbell.notify();
        }
    }

    /// Rule 22.
    fn notify<W: Order>(&self) {
        if self.notifier.needs_notify::<W>(&*self.peer) {
            self.peer.doorbell.notify();
        }
    }

    /// Sleeps until `found` is true (rule 23), without a time limit.
    fn wait<S: Order>(&mut self, mut found: impl FnMut() -> bool) {
        while !found() {
            now += 1000;
            match idle.step(now, Some(0)) {
                IdleStep::Poll => {}
                IdleStep::PrepareWait => {
                    if steps != Steps::OldValue || !self.waiter.is_waiting() {
                        self.waiter.prepare_wait::<S>(&*self.own);
                    }
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

/// `calls` calls, one at a time: each side sleeps whenever it finds nothing.
fn run<HostNotifies: Order, HostSleeps: Order, DeviceNotifies: Order, DeviceSleeps: Order>(calls: u32) {
    let pair = Pair::<2>::new(Shapes::SOUND);
    let mut server = Server::new(pair.clone(), Epoch::FIRST, pick);
    let mut caller = Caller::new(pair, Epoch::FIRST);
    let (mut host, mut device) = End::pair();
    thread::spawn(move || {
        for k in 0..calls {
            device.wait::<DeviceSleeps>(|| server.serve(k));
            device.notify_relaxed();
            // As a device without further work.
            device.notify::<DeviceNotifies>();
        }
    });
    for k in 0..calls {
        caller.send(k, Want::Hot);
        host.notify_relaxed();
        // As a wait that has spun for a while.
        host.notify::<HostNotifies>();
        host.wait::<HostSleeps>(|| caller.take_hot());
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
    Model::new("no fence in the host as notifier", vec![1], run::<Unfenced, Coherent, Coherent, Coherent>)
        .breaks(FOR_EVER);
    Model::new("no fence in the device as notifier", vec![1], run::<Coherent, Coherent, Unfenced, Coherent>)
        .breaks(FOR_EVER);
    Model::new(
        "no fence in the device as waker",
        vec![(1, Steps::Host)],
        run::<Coherent, Coherent, Unfenced, Coherent>,
    )
    .breaks(FOR_EVER);
}

#[test]
fn without_the_waiters_fence_a_side_sleeps_for_ever() {
    Model::new("no fence in the device as waiter", vec![1], run::<Coherent, Coherent, Coherent, Unfenced>)
        .breaks(FOR_EVER);
    Model::new("no fence in the host as waiter", vec![1], run::<Coherent, Unfenced, Coherent, Coherent>)
        .breaks(FOR_EVER);
}
