//! Posts and completions against sleep (abi §16.1): no request waits for ever for an adapter that sleeps, and no completion for a
//! device, although neither wakes by itself. Each of the four fences is needed.
//!
//! Both ends are production's `FencedNotifier`, `Waiter` and `Idle`, as handlers, serve loop and adapter use them; a request and a
//! completion are one published word each.

use crate::Model;
use crate::sleep::{End, Steps, Unfenced};
use hamr_comm::am::FencedNotifier;
use hamr_shared_abi::sync::{AtomicU32, Coherent, Order, Ordering};
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

/// Looks of a handler without result behind which it has had its fence.
const LOOKS: u32 = 3;

/// What the device does behind a post.
#[derive(Clone, Copy, PartialEq, Eq)]
enum User {
    /// A task waits: the serve loop finds no more work, and sleeps.
    Task,
    /// A handler looks for completions, and does not return.
    Handler,
}

/// A side: what it publishes, and what it sleeps with.
struct Side {
    end: End,
    notifier: FencedNotifier,
    own: Arc<AtomicU32>,
}

impl Side {
    /// P1, whose partner is P2.
    fn publish(&self, value: u32) {
        self.notifier.publishes();
        self.own.store(value, Ordering::Release);
        self.notifier.notify_relaxed(&*self.end.peer, || self.end.peer.doorbell.notify());
    }

    fn no_more_work<W: Order>(&self) {
        self.notifier.notify_fenced::<W>(&*self.end.peer, || self.end.peer.doorbell.notify());
    }

    fn look<W: Order>(&self) {
        self.notifier.found_nothing::<W>(&*self.end.peer, || self.end.peer.doorbell.notify());
    }
}

/// `count` requests, one at a time. The device's fences, as notifier and as waiter, then the adapter's.
fn run<DeviceWakes: Order, DeviceSleeps: Order, AdapterWakes: Order, AdapterSleeps: Order>(
    (count, user, steps): (u32, User, Steps),
) {
    let (device, adapter) = End::pair();
    let (request, completion) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let side = |end, own: &Arc<AtomicU32>| Side { end, notifier: FencedNotifier::new(), own: own.clone() };
    let (mut device, mut adapter) = (side(device, &request), side(adapter, &completion));
    // P2, whose partner is P1.
    let is_at = |word: &AtomicU32, value| word.load(Ordering::Acquire) == value;
    thread::spawn(move || {
        for k in 1..=count {
            adapter.end.wait::<AdapterSleeps>(steps, || is_at(&request, k));
            adapter.publish(k);
            adapter.no_more_work::<AdapterWakes>();
        }
    });
    for k in 1..=count {
        device.publish(k);
        match user {
            User::Task => {
                device.no_more_work::<DeviceWakes>();
                device.end.wait::<DeviceSleeps>(Steps::Device, || is_at(&completion, k));
            }
            User::Handler => (0..LOOKS).for_each(|_| device.look::<DeviceWakes>()),
        }
    }
}

const FOR_EVER: &str = "deadlock";

#[test]
fn neither_device_nor_adapter_sleeps_for_ever() {
    let all = run::<Coherent, Coherent, Coherent, Coherent>;
    Model::new("verbs: a task, 1 request", vec![(1, User::Task, Steps::Device)], all).holds();
    Model::new("verbs: a handler, 1 request", vec![(1, User::Handler, Steps::Device)], all).holds();
    Model::new("verbs: a task, 2 requests", vec![(2, User::Task, Steps::Device)], all).preempted_at_most(2).holds();
}

#[test]
fn without_a_fence_a_request_or_a_completion_is_lost() {
    let (task, handler) = (vec![(1, User::Task, Steps::Device)], vec![(1, User::Handler, Steps::Device)]);
    let device_wakes = run::<Unfenced, Coherent, Coherent, Coherent>;
    Model::new("verbs: no fence at no more work", task.clone(), device_wakes).breaks(FOR_EVER);
    Model::new("verbs: no fence in a handler's looks", handler.clone(), device_wakes).breaks(FOR_EVER);
    let adapter_sleeps = run::<Coherent, Coherent, Coherent, Unfenced>;
    Model::new("verbs: no fence in an adapter that sleeps", handler, adapter_sleeps).breaks(FOR_EVER);
    let adapter_wakes = run::<Coherent, Coherent, Unfenced, Coherent>;
    Model::new("verbs: no fence behind completions", task.clone(), adapter_wakes).breaks(FOR_EVER);
    let device_sleeps = run::<Coherent, Unfenced, Coherent, Coherent>;
    Model::new("verbs: no fence in a device that sleeps", task, device_sleeps).breaks(FOR_EVER);
}

#[test]
fn without_the_rounds_behind_the_odd_value_a_request_is_lost() {
    let cases = vec![(1, User::Handler, Steps::NoLastPoll)];
    Model::new("verbs: no round behind the odd value", cases, run::<Coherent, Coherent, Coherent, Coherent>)
        .breaks(FOR_EVER);
}

/// A handler that opens a region, and its host that deregisters it and uses its memory again (abi §16.2): H1 is the
/// device's fence, H2 the host's.
fn reuse<Device: Order, Host: Order>(_: ()) {
    let (is_live, handles) = (Arc::new(AtomicU32::new(1)), Arc::new(AtomicU32::new(0)));
    let memory = Arc::new(UnsafeCell::new(()));
    let device = {
        let (is_live, handles, memory) = (is_live.clone(), handles.clone(), memory.clone());
        thread::spawn(move || {
            handles.store(1, Ordering::Release);
            Device::full();
            if is_live.load(Ordering::Acquire) == 1 {
                memory.with_mut(|_| ());
            }
            handles.store(0, Ordering::Release);
        })
    };
    is_live.store(0, Ordering::Release);
    Host::full();
    if handles.load(Ordering::Acquire) == 0 {
        memory.with_mut(|_| ());
    }
    device.join().expect("it ends");
}

#[test]
fn memory_of_a_region_is_not_used_again_while_a_handler_has_it_open() {
    Model::new("verbs: a region's memory", vec![()], reuse::<Coherent, Coherent>).holds();
    let both = "Concurrent write accesses";
    Model::new("verbs: no fence of a handler", vec![()], reuse::<Unfenced, Coherent>).breaks(both);
    Model::new("verbs: no fence of the host", vec![()], reuse::<Coherent, Unfenced>).breaks(both);
}
