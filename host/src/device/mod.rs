//! The attached device: what streams, logs, memory and the reactor work on.
//!
//! It imports nothing of streams, nodes or log readers, which are above it. At the end of an epoch
//! it reaches the queue pairs that no stream has through a trait, [`IdleQueues`]; the reactor,
//! which is below, reaches the device through another, [`Notified`].

mod attach;
mod epoch_end;
mod in_flight;
mod load_image;
#[cfg(feature = "device-logs")]
mod log_backlog;
mod notify;
mod open_queues;
mod restart;
pub(crate) mod service;
pub(crate) mod side;
mod snapshots;

pub(crate) use crate::wait_queue::Fence;
pub(crate) use attach::Program;
pub(crate) use epoch_end::GRACE_STEP;
pub(crate) use open_queues::IdleQueues;

use crate::background::{PendingWork, WorkSite, Worker};
use crate::keys::Keys;
use crate::link::Link;
use crate::memory::DeviceMemory;
use crate::reactor::Notified;
use crate::symbols::Symbols;
use crate::task_lines::last_task;
use crate::wait_queue::WaitQueue;
use crate::{Error, HandlerInfo, ImageFile, Options};
use epoch_end::Loss;
use hamr_comm::Handler;
use hamr_comm::abi::ids::{Epoch, NodeId};
use hamr_comm::abi::image::ImageKind;
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::preamble::DeviceRecord;
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::slot;
use hamr_comm::handshake::HostHandshake;
use hamr_comm::migrate::{MAX_LONG, MAX_MESSAGE};
use hamr_qemu::origin::{InOneProcess, Origin};
use in_flight::TicketWords;
use notify::PeerPoll;
use open_queues::OpenQueues;
use service::Service;
use side::Side;
use snapshots::EpochSnapshots;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

/// [`Device::epoch`] of a device that is gone.
const NO_EPOCH: u32 = 0;

/// One attached device, until the last stream of it is dropped.
pub struct Device {
    pub(crate) name: String,
    pub(crate) id: NodeId,
    pub(crate) link: Box<dyn Link>,
    pub(crate) layout: Layout,
    pub(crate) options: Options,
    pub(crate) memory: Arc<DeviceMemory>,
    pub(crate) wait_queue: WaitQueue,
    /// This device, for the reactor.
    pub(crate) me: Weak<dyn Notified>,
    /// And for its workers.
    this: Weak<Self>,
    peer_poll: PeerPoll,
    /// The epoch that streams may submit in; [`NO_EPOCH`] when there is none.
    pub(crate) epoch: AtomicU32,
    /// The present epoch, or the last one. Locked while an epoch begins.
    last_epoch: Mutex<Epoch>,
    /// Locked while another image is loaded: from the bytes that the device is given to its first epoch.
    image_load: Mutex<()>,
    /// Of the present epoch, or the last one.
    epoch_info: Mutex<EpochInfo>,
    /// Of the first one, for a copy of the process in which the lock is taken for good.
    first_info: EpochInfo,
    loss: Loss,
    snapshots: EpochSnapshots,
    tickets: TicketWords,
    #[cfg(feature = "device-logs")]
    log_backlogs: Mutex<log_backlog::LogBacklogs>,
    open_queues: OpenQueues,
    /// What it calls on this host.
    pub(crate) service: Service,
    /// The program that serves a section of its window.
    pub(crate) side: Side,
    closed: AtomicBool,
    origin: Origin,
    /// Makes the transfers that are submitted.
    transfers: Worker,
}

/// What a device reported of itself in one epoch, and how long it took to start.
#[derive(Clone)]
pub(crate) struct EpochInfo {
    pub(crate) record: DeviceRecord,
    /// From its launch until it served.
    pub(crate) start: Duration,
    pub(crate) symbols: Arc<Symbols>,
    pub(crate) running: Running,
}

/// The image that a device runs.
#[derive(Clone)]
pub(crate) struct Running {
    /// Its file, when the runtime loaded it.
    pub(crate) file: Option<Arc<ImageFile>>,
    /// In the order of their keys.
    pub(crate) handlers: Arc<[HandlerInfo]>,
    pub(crate) keys: Keys,
    /// How many images the device had before.
    pub(crate) number: u32,
}

impl EpochInfo {
    fn new(record: DeviceRecord, start: Duration, running: Running) -> Self {
        let path = running.file.as_ref().map(|file| file.path.clone());
        Self { record, start, symbols: Arc::new(Symbols::new(path, record.build_id)), running }
    }
}

impl Running {
    fn new(file: Option<Arc<ImageFile>>, handlers: Vec<HandlerInfo>, number: u32) -> Self {
        Self { file, keys: Keys::of(&handlers), handlers: handlers.into(), number }
    }
}

impl Device {
    pub(crate) fn site<H: Handler>(&self, stage: &'static str) -> Box<crate::Site> {
        Box::new(crate::Site { device: self.name.clone(), handler: H::NAME.into(), stage, task: None })
    }

    /// [`Self::site`] of a call whose deadline has passed. `place` is that of its task.
    #[cold]
    pub(crate) fn late_site<H: Handler>(&self, place: Option<u32>) -> Box<crate::Site> {
        let site = self.site::<H>("waiting for the reply");
        let handlers = self.running().handlers;
        if place.is_some() {
            self.link.refresh(SectionKind::TASKS);
        }
        let task = |place| last_task(self.link.window(), &self.layout, &handlers, place, H::NAME);
        Box::new(crate::Site { task: place.and_then(task).map(Box::new), ..*site })
    }

    /// What the device reported of itself, in this epoch or the last.
    pub(crate) fn epoch_info(&self) -> EpochInfo {
        self.locked(&self.epoch_info).as_deref().unwrap_or(&self.first_info).clone()
    }

    /// A lock that a thread has for a moment. `None`: this is a copy of the process, and a thread had it that is not here.
    fn locked<'l, T>(&self, lock: &'l Mutex<T>) -> Option<MutexGuard<'l, T>> {
        match lock.try_lock() {
            Ok(locked) => Some(locked),
            Err(TryLockError::Poisoned(locked)) => Some(locked.into_inner()),
            Err(TryLockError::WouldBlock) if !self.is_here() => None,
            Err(TryLockError::WouldBlock) => Some(lock.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Did the device accept this feature in its last epoch?
    pub(crate) fn accepted(&self, feature: u32) -> bool {
        self.epoch_info().record.features & feature != 0
    }

    /// Bytes of the longest arguments and results in an epoch with this record: what the device takes, and the
    /// heap has room for. Without LONG_VALUES the record has zero there.
    pub(crate) fn longest_message(&self, record: &DeviceRecord) -> usize {
        let heap = usize::try_from(self.memory.heap_len()).unwrap_or(MAX_LONG);
        (record.longest_message as usize).min(heap).clamp(MAX_MESSAGE, MAX_LONG)
    }

    /// Whether its images are hosted or bare.
    pub(crate) fn image_kind(&self) -> ImageKind {
        let EpochInfo { record, running, .. } = self.epoch_info();
        match running.file {
            // One that was named for a device of others may be another.
            Some(file) if file.build_id == crate::BuildId::of(&record.build_id) => file.kind,
            _ if record.pid != 0 => ImageKind::HOSTED,
            _ => ImageKind::BARE,
        }
    }

    /// The image of this epoch or the last.
    pub(crate) fn running(&self) -> Running {
        self.epoch_info().running
    }

    /// With the keys of the handlers of the image that runs. `f` asks the device for nothing else.
    pub(crate) fn with_keys<R>(&self, f: impl FnOnce(&Keys) -> R) -> R {
        f(&self.locked(&self.epoch_info).as_deref().unwrap_or(&self.first_info).running.keys)
    }

    /// The names in the image that runs.
    pub(crate) fn symbols(&self) -> Arc<Symbols> {
        self.epoch_info().symbols
    }

    /// May what was just read of the heap have been another host's, or nothing?
    pub(crate) fn heap_is_released(&self) -> bool {
        // Behind the read.
        fence(Ordering::Acquire);
        self.link.outlives_host() && self.is_closed()
    }

    /// Was a reply in this place not read, since its bytes are not reached any more?
    #[cold]
    pub(crate) fn is_unreached(&self, place: slot::Place) -> bool {
        self.heap_is_released() || place == slot::Place::Buffer && self.link.remote().is_some()
    }

    /// Has the device's thread for transfers make a copy, after those submitted before.
    pub(crate) fn submit_transfer<V: Send + 'static>(
        self: &Arc<Self>,
        stage: &'static str,
        copy: impl FnOnce() -> Result<V, Error> + Send + 'static,
    ) -> Result<PendingWork<V>, Error> {
        self.check_open(stage)?;
        let device = self.clone();
        let site = WorkSite { device: self.name.clone(), stage, deadline: self.options.deadline };
        self.transfers.submit(site, move || {
            device.check_open(stage)?;
            let copied = copy()?;
            if device.heap_is_released() { Err(device.is_closed_while(stage)) } else { Ok(copied) }
        })
    }

    /// # Errors
    /// After the [`crate::Node`] was dropped.
    pub(crate) fn check_open(&self, stage: &'static str) -> Result<(), Error> {
        if self.is_closed() { Err(self.is_closed_while(stage)) } else { Ok(()) }
    }

    fn is_closed_while(&self, stage: &'static str) -> Error {
        Error::Lost { device: self.name.clone(), stage, why: self.why_closed().into() }
    }

    /// Why no use of it is possible.
    pub(crate) fn why_closed(&self) -> &'static str {
        if self.is_here() {
            "its node was dropped by this program"
        } else {
            "another process opened it, of which this one is a fork: open a device here"
        }
    }

    /// Was the [`crate::Node`] dropped, or is it of another process?
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire) || !self.is_here()
    }

    /// Is it of this process? A copy of the process does nothing to the device.
    pub(crate) fn is_here(&self) -> bool {
        self.origin.is_here()
    }

    /// The program is done with the device. Streams of it may still be there: they find that it is
    /// closed.
    pub(crate) fn close(&self) {
        if !self.is_here() {
            return;
        }
        self.closed.store(true, Ordering::Release);
        self.service.stop();
        self.side.close_finally();
        HostHandshake::close(self.link.window());
        self.notify(Fence::Full);
        self.stop_finally("closed by this program");
        // A body that found the epoch before its end may copy still.
        self.service.leave();
    }

    /// After [`Self::close`]: the next host may have the window. A thread of this host that writes
    /// there has done so by now, or sees that the device is closed. A submission that has begun
    /// cannot check in time: the link keeps it away ([`Link::release`]).
    pub(crate) fn release(&self) {
        if !self.is_here() {
            return;
        }
        self.open_queues.pass();
        #[cfg(feature = "device-logs")]
        self.release_logs();
        if self.link.outlives_host() {
            // The window goes: what was answered in an epoch that had ended before the node counts, too.
            let last = self.last_epoch.lock().unwrap_or_else(PoisonError::into_inner);
            self.take_snapshot(last.0);
        }
        self.link.release();
    }
}

impl InOneProcess for Device {
    /// Every call looks whether its epoch is the present one, every copy what its buffer has.
    fn forget(&self) {
        self.epoch.store(NO_EPOCH, Ordering::Release);
        self.memory.forget();
    }
}
