//! Serves the calls of a device: its host queues (abi §12), by the threads that wait and by workers.
//!
//! - `hamr_comm::am::ServedQueue`: which thread holds a queue, and how it leaves.
//! - `body`: what runs there.
//! - A thread that waits for a task serves the queue of that task ([`Waiting`]) and no other: a body
//!   of another task might want a lock that the thread has.
//! - `workers` serve everything else.

mod bell;
mod body;
mod waiting;
mod workers;

pub(crate) use body::{ServiceSources, is_called_by};
pub(crate) use waiting::Waiting;

use super::Device;
use crate::{Error, Options};
use hamr_comm::abi::ids::Epoch;
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::sync::Coherent;
use hamr_comm::abi::window::{KeptWord, Queue, Shared, Window};
use hamr_comm::am::HostResponder;
use hamr_comm::registry::Table;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, Weak};
use workers::Workers;

/// One host queue, and one that this thread holds.
type ServedQueue = hamr_comm::am::ServedQueue<Queue<Shared>, KeptWord<Shared>, HostResponder<Shared>>;
type Held<'q> = hamr_comm::am::Held<'q, Queue<Shared>, KeptWord<Shared>, HostResponder<Shared>>;

/// The host's side of all host queues of a device.
pub(crate) struct Service {
    table: Table,
    sources: ServiceSources,
    /// Empty where the device calls nothing: it has no tasks, or the program no bodies.
    queues: Box<[ServedQueue]>,
    /// Epochs in which the device calls.
    epochs: AtomicU32,
    workers: Workers,
    /// Taken by bodies while they copy: behind [`Self::leave`] no copy of the epoch goes on.
    copying: RwLock<()>,
}

impl Service {
    pub(super) fn new(window: &Window<Shared>, layout: &Layout, options: &Options, sources: ServiceSources) -> Self {
        let table = options.host_handlers();
        let plan = options.plan();
        let queue = |tasks: &hamr_comm::abi::tasks::TasksLayout, index| {
            let slots = window.queue(&tasks.queue(index)).ok()?;
            Some(ServedQueue::new(slots, window.keep_word(tasks.wait_word(index)).ok()?))
        };
        let queues = match layout.planned_tasks(&plan) {
            Ok(tasks) if !table.is_empty() => (0..tasks.queues()).map_while(|index| queue(&tasks, index)).collect(),
            _ => Box::default(),
        };
        let (epochs, workers, copying) = (AtomicU32::new(0), Workers::new(), RwLock::new(()));
        Self { table, sources, queues, epochs, workers, copying }
    }

    /// The window is laid out for this epoch, and the device serves and calls.
    pub(super) fn enter(&self, epoch: Epoch) {
        for queue in &self.queues {
            queue.enter(epoch, HostResponder::new(queue.slots().clone(), epoch));
        }
        self.epochs.fetch_add(1, Ordering::Release);
        self.workers.wake();
    }

    /// Epochs entered so far.
    fn epochs(&self) -> u32 {
        self.epochs.load(Ordering::Acquire)
    }

    /// Starts the first worker where the device may call, before it does: with its first image or a later one.
    pub(super) fn start(&self, device: &Weak<Device>) -> Result<(), Error> {
        if self.queues.is_empty() {
            return Ok(());
        }
        body::watch_panics();
        self.workers.start(device).map_err(Error::io("starting a thread that serves a device's calls"))
    }

    /// The epoch is over, as [`Device::epoch`] says: behind this no body writes into the window.
    pub(super) fn leave(&self) {
        self.queues.iter().for_each(ServedQueue::close);
        drop(self.copying.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// The device is closed: workers end, those in bodies behind them.
    pub(super) fn stop(&self) {
        self.leave();
        self.workers.stop();
    }

    /// A queue with a message, for a worker. What other threads hold is theirs.
    fn find(&self) -> Option<(usize, Held<'_>)> {
        self.queues.iter().enumerate().find_map(|(index, queue)| Some((index, queue.hold_with_message::<Coherent>()?)))
    }

    /// A thread has taken a notification: where a message is there that no thread holds, the watcher, which
    /// may have missed the notification, looks.
    pub(crate) fn pass_on(&self) {
        if self.queues.iter().any(ServedQueue::is_unserved) {
            self.workers.wake();
        }
    }

    /// Takes the next message of a queue that this thread holds. False: there is none. Behind it the device is to be
    /// notified.
    fn run_next(&self, device: &Device, index: usize, held: &mut Held<'_>) -> bool {
        let place = index.checked_sub(1).map(|place| place as u32);
        held.run_next(|queue| body::run_next(device, &self.sources, self.table, place, queue))
    }
}
