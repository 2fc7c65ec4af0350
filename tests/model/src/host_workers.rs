//! The host's workers: no body keeps another call from being served, and a stop ends them all.
//!
//! `Watch` and the queues of `host_queues` are production's.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use hamr_comm::am::{QueueNotifier, Watch};
use hamr_shared_abi::sync::{Coherent, Order};
use loom::sync::Notify;
use loom::thread;

use crate::Model;
use crate::ends::Want;
use crate::host_queues::{End, FOR_EVER, HeldQueue, Queue, queue};

/// What workers share.
struct Workers {
    watch: Watch,
    bell: Notify,
    queues: [Arc<Queue>; 2],
    /// The body of queue 1 has run.
    has_run: Notify,
}

/// How workers pass the watch on, and are stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watches {
    Sound,
    /// The watch is kept while a body runs.
    Keeps,
    /// The watcher is woken in front of the stop.
    KicksFirst,
    /// No thread can be started: the message is refused, by a reply.
    NoThread,
}

/// Two calls, of which the body of the first waits for that of the second. Then the workers are stopped.
fn workers(way: Watches) {
    let device = Arc::new(Notify::new());
    let [(first, mut first_calls), (second, mut second_calls)] = [queue(&device), queue(&device)];
    let shared = Workers { watch: Watch::new(), bell: Notify::new(), queues: [first, second], has_run: Notify::new() };
    let shared = Arc::new(shared);
    start(&shared, way);
    for calls in [&mut first_calls, &mut second_calls] {
        calls.send(0, Want::Ring);
    }
    Coherent::full();
    for queue in &shared.queues {
        if QueueNotifier::new().needs_notify(queue.wait_word(), Some(0), |_| false) {
            shared.bell.notify();
        }
    }
    for calls in [&mut first_calls, &mut second_calls] {
        while !calls.take_oldest() {
            device.wait();
        }
    }
    if way == Watches::KicksFirst {
        shared.bell.notify();
        return shared.watch.stop();
    }
    shared.watch.stop();
    shared.bell.notify();
}

fn start(shared: &Arc<Workers>, way: Watches) -> bool {
    let shared = shared.clone();
    thread::spawn(move || work(&shared, way));
    true
}

/// As a worker of the host.
fn work(shared: &Arc<Workers>, way: Watches) {
    while shared.watch.take() {
        let (index, mut held) = loop {
            let Some((index, mut held)) = find(shared) else { return };
            let gives = match way {
                Watches::Keeps => true,
                Watches::NoThread => shared.watch.give(|| false),
                _ => shared.watch.give(|| start(shared, way)),
            };
            if gives {
                break (index, held);
            }
            held.run_next(End::take);
        };
        held.poll();
        // A thread that is stuck in a body must not leave the queue when the checker ends it.
        let mut held = ManuallyDrop::new(held);
        held.run_next(|end| {
            let taken = end.take()?;
            if way != Watches::NoThread {
                match index {
                    0 => shared.has_run.wait(),
                    _ => shared.has_run.notify(),
                }
            }
            Some(taken)
        });
        // It may have run in front of a message that came since.
        if ManuallyDrop::into_inner(held).leave::<Coherent>() {
            shared.bell.notify();
        }
    }
}

fn find(shared: &Workers) -> Option<(usize, HeldQueue<'_>)> {
    loop {
        if shared.watch.is_stopped() {
            return None;
        }
        let mut queues = shared.queues.iter().enumerate();
        match queues.find_map(|(index, queue)| Some((index, queue.hold_with_message::<Coherent>()?))) {
            None => shared.bell.wait(),
            found => return found,
        }
    }
}

#[test]
fn no_body_keeps_another_from_being_served() {
    let ways = vec![Watches::Sound, Watches::NoThread];
    Model::new("workers, two bodies and a stop", ways, workers).preempted_at_most(1).holds();
}

#[test]
fn a_watch_that_is_kept_keeps_a_call_from_being_served() {
    Model::new("workers, the watch is kept", vec![Watches::Keeps], workers).preempted_at_most(1).breaks(FOR_EVER);
}

#[test]
fn a_worker_that_is_woken_in_front_of_the_stop_sleeps_for_ever() {
    let ways = vec![Watches::KicksFirst];
    Model::new("workers, woken in front of the stop", ways, workers).preempted_at_most(1).breaks(FOR_EVER);
}
