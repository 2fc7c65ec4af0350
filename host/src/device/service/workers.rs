//! The threads that serve host queues for which no thread waits.
//!
//! One of them *watches*: it sleeps on the doorbell. When it finds a message, it gives the watch to
//! another worker, an idle one or a new one, before it runs the body, which may take any time. So
//! there is always one more than bodies run, and no body keeps another from being found. The number
//! has a bound: each worker that does not watch holds a queue or is about to end.

use super::super::{Device, Fence};
use super::bell::{Bell, Kick};
use super::queue::Held;
use hamr_comm::abi::status::Status;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An idle worker that does not watch ends after so long.
const IDLE: Duration = Duration::from_secs(10);
/// The watcher looks this often at a device that cannot notify.
const NAP: Duration = Duration::from_millis(1);
/// And at others, should a notification be lost.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// A worker stays with its queue no longer than this.
const LONGEST_STAY: Duration = Duration::from_millis(1);

pub(super) struct Workers {
    state: Mutex<State>,
    changed: Condvar,
    kick: Kick,
}

#[derive(Default)]
struct State {
    /// A worker watches.
    watched: bool,
    /// Workers that wait to watch.
    idle: usize,
    stopped: bool,
}

impl Workers {
    pub(super) fn new() -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), kick: Kick::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The watcher looks at all queues.
    pub(super) fn wake(&self) {
        self.kick.wake();
    }

    pub(super) fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
        self.kick.wake();
    }

    fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    /// Waits for the watch. False: the worker ends.
    fn take_watch(&self) -> bool {
        let mut state = self.state();
        state.idle += 1;
        let waits = |state: &mut State| state.watched && !state.stopped;
        let (mut state, _) =
            self.changed.wait_timeout_while(state, IDLE, waits).unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
        let takes = !state.watched && !state.stopped;
        state.watched |= takes;
        takes
    }

    /// Gives the watch to another worker. False: there is none to be had, and this one keeps it.
    fn give_watch(&self, device: &Arc<Device>) -> bool {
        let mut state = self.state();
        state.watched = false;
        if state.idle != 0 {
            drop(state);
            self.changed.notify_one();
            return true;
        }
        drop(state);
        if start(device).is_ok() {
            return true;
        }
        let mut state = self.state();
        // Taken meanwhile by a worker that came back.
        !std::mem::replace(&mut state.watched, true)
    }
}

/// Starts a worker.
pub(super) fn start(device: &Arc<Device>) -> std::io::Result<()> {
    let device = device.clone();
    std::thread::Builder::new().name("hamr-service".into()).spawn(move || work(&device)).map(drop)
}

fn work(device: &Arc<Device>) {
    let service = &device.service;
    while service.workers.take_watch() {
        let (index, held) = loop {
            let Some((index, mut held)) = watch(device) else { return };
            if service.workers.give_watch(device) {
                break (index, held);
            }
            // A body that takes its time would keep all others waiting.
            held.refuse_next(Status::QUEUE_FULL);
            device.notify(Fence::Full);
        };
        stay(device, index, held);
    }
}

/// Sleeps until a queue has a message that no other thread takes. `None`: the device is closed.
fn watch(device: &Device) -> Option<(usize, Held<'_>)> {
    let service = &device.service;
    // Taken before the look at the descriptors, which a new epoch may replace.
    let mut epoch = service.epochs();
    let mut bell = Bell::new(device, &service.workers.kick);
    loop {
        if service.workers.is_stopped() {
            return None;
        }
        if let Some(found) = service.find() {
            return Some(found);
        }
        let now = service.epochs();
        if now != epoch {
            (epoch, bell) = (now, Bell::new(device, &service.workers.kick));
            continue;
        }
        let limit = device.options.longest_sleep.map_or(LONGEST_SLEEP, |longest| longest.min(LONGEST_SLEEP));
        if !bell.sleep(device, limit) {
            std::thread::sleep(NAP);
        }
    }
}

/// Serves a queue until it has been empty for a while.
fn stay<'d>(device: &'d Device, index: usize, mut held: Held<'d>) {
    let service = &device.service;
    let longest = device.options.spin_time().map_or(LONGEST_STAY, |spin| spin.min(LONGEST_STAY));
    loop {
        held.poll();
        let mut last = Instant::now();
        loop {
            if service.run_next(device, index, &mut held) {
                last = Instant::now();
            } else if last.elapsed() < longest {
                std::hint::spin_loop();
            } else {
                break;
            }
        }
        if !held.leave() {
            return;
        }
        match service.queues.get(index).and_then(|queue| queue.hold()) {
            Some(again) => held = again,
            None => return,
        }
    }
}
