//! The threads that serve host queues for which no thread waits.
//!
//! One of them *watches* ([`Watch`]): it sleeps on the doorbell, and when it finds a message gives the
//! watch to another. Their number has a bound: each worker that does not watch holds a queue or is
//! about to end.

use super::super::{Device, Fence};
use super::Held;
use super::bell::{Bell, Kick};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::sync::Coherent;
use hamr_comm::am::{Watch, patience};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The watcher looks this often at a device that cannot notify.
const NAP: Duration = Duration::from_millis(1);
/// And at others, should a notification be lost.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
/// A worker stays with its queue no longer than this.
const LONGEST_STAY: Duration = Duration::from_millis(1);

pub(super) struct Workers {
    watch: Watch,
    kick: Kick,
    /// The first of them was started.
    are_started: Mutex<bool>,
}

impl Workers {
    pub(super) fn new() -> Self {
        Self { watch: Watch::new(), kick: Kick::new(), are_started: Mutex::new(false) }
    }

    /// Starts the first worker, once.
    pub(super) fn start(&self, device: &Weak<Device>) -> std::io::Result<()> {
        let mut are_started = self.are_started.lock().unwrap_or_else(PoisonError::into_inner);
        if !*are_started && let Some(device) = device.upgrade() {
            start(&device)?;
            *are_started = true;
        }
        Ok(())
    }

    /// The watcher looks at all queues.
    pub(super) fn wake(&self) {
        self.kick.wake();
    }

    pub(super) fn stop(&self) {
        self.watch.stop();
        self.kick.wake();
    }
}

/// Starts a worker.
fn start(device: &Arc<Device>) -> std::io::Result<()> {
    let device = device.clone();
    std::thread::Builder::new().name("hamr-service".into()).spawn(move || work(&device)).map(drop)
}

fn work(device: &Arc<Device>) {
    let service = &device.service;
    while service.workers.watch.take() {
        let (index, held) = loop {
            let Some((index, mut held)) = watch(device) else { return };
            if service.workers.watch.give(|| start(device).is_ok()) {
                break (index, held);
            }
            // A body that takes its time would keep all others waiting.
            held.run_next(|queue| queue.refuse_next(Status::QUEUE_FULL));
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
        if service.workers.watch.is_stopped() {
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
        // Between two messages there is no clock, and a fence, which costs the time that a reply needs to get there, only
        // at every sixteenth (rules 21 to 23). A device that looks only once before it sleeps needs each.
        let looks_once = device.wait_queue.looks_once();
        let (mut empty_since, mut replies) = (None, 0);
        loop {
            if service.run_next(device, index, &mut held) {
                device.notify(if looks_once { Fence::Full } else { Fence::of_message(replies) });
                (empty_since, replies) = (None, replies + 1);
                continue;
            }
            if std::mem::take(&mut replies) != 0 {
                device.notify(Fence::Full);
            }
            let now = Instant::now();
            if now - *empty_since.get_or_insert(now) >= longest || patience::must_sleep() {
                break;
            }
            patience::rest();
        }
        if !held.leave::<Coherent>() {
            return;
        }
        match service.queues.get(index).and_then(|queue| queue.hold()) {
            Some(again) => held = again,
            None => return,
        }
    }
}
