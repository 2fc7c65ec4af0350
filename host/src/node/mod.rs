//! One device, attached: what it is, its memory, its streams, and how it ends.

mod attach;
mod epoch_end;
mod features;
mod id;
mod info;
mod notify;
mod queues;
mod restart;
mod snapshots;

pub use features::Features;
pub(crate) use id::NodeNumber;
pub use info::DeviceInfo;
pub(crate) use queues::give_queue_back;

use crate::Warning;
use crate::keys::{Differences, Keys};
use crate::memory::DeviceMemory;
use crate::stream::{Submitter, call_methods};
use crate::symbols::Symbols;
use crate::wait_queue::WaitQueue;
use crate::{Buffer, CallError, CrashReport, Error, HandlerInfo, ImageFile, LocalStream, Options, SharedStream};
use crate::{Stream, SubmitError};
pub(crate) use epoch_end::GRACE_STEP;
use epoch_end::{ByFault, GracePeriod, LossReason};
use hamr_comm::abi::ids::{Epoch, NodeId};
use hamr_comm::abi::layout::Layout;
use hamr_comm::abi::preamble::DeviceRecord;
use hamr_comm::handshake::HostHandshake;
use hamr_comm::link::{Capabilities, Link};
use hamr_comm::{Element, Handler};
use queues::QueueSlot;
use snapshots::EpochSnapshots;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// [`Device::epoch`] of a device that is gone.
const NO_EPOCH: u32 = 0;

/// One attached device. `Send + Sync`: threads share it by reference and each calls through streams of its own. What is called on the
/// node itself goes through the calling thread's stream ([`Self::local`]).
///
/// Dropping it stops a device that this runtime started; calls still in flight end with [`CallError::DeviceLost`].
pub struct Node {
    inner: Arc<Device>,
}

pub struct Device {
    pub(crate) name: String,
    pub(crate) id: NodeId,
    pub(crate) link: Box<dyn Link>,
    pub(crate) layout: Layout,
    pub(crate) keys: Keys,
    pub(crate) options: Options,
    pub(crate) memory: Arc<DeviceMemory>,
    /// The epoch that streams may submit in; [`NO_EPOCH`] when there is none.
    pub(crate) epoch: AtomicU32,
    pub(crate) wait_queue: WaitQueue,
    pub(crate) me: Weak<Self>,
    loss_reason: Mutex<LossReason>,
    last_crash: Mutex<Option<CrashReport>>,
    snapshots: EpochSnapshots,
    /// The epoch of the last (or current) epoch.
    last_epoch: Mutex<Epoch>,
    /// The control stream's submitter, made at its first use.
    control: Mutex<Option<Box<Submitter>>>,
    /// Which queue pairs belong to streams; index 0 is the control stream.
    queues: Mutex<Vec<QueueSlot>>,
    pub(crate) handlers: Vec<HandlerInfo>,
    /// Of its present epoch, or its last.
    epoch_info: Mutex<EpochInfo>,
    image: Option<ImageFile>,
    differences: Differences,
    closed: AtomicBool,
    attached: Instant,
    #[cfg(feature = "device-logs")]
    pub(crate) log_backlogs: crate::logs::LogBacklogs,
    /// Milliseconds after `attached` when [`Self::poll_peer`] last asked for the peer.
    looked: AtomicU32,
    grace_period: Mutex<GracePeriod>,
}

/// What a device said of itself in one epoch, and how long it took to say it.
struct EpochInfo {
    record: DeviceRecord,
    start: Duration,
    symbols: Arc<Symbols>,
}

impl EpochInfo {
    fn new(record: DeviceRecord, start: Duration, image: Option<&ImageFile>) -> Self {
        let symbols = Arc::new(Symbols::new(image.map(|image| image.path.clone()), record.build_id));
        Self { record, start, symbols }
    }
}

impl Node {
    /// The device's handlers, in the order of their keys.
    pub fn handlers(&self) -> &[HandlerInfo] {
        &self.inner.handlers
    }

    /// The handlers that this program and the image do not agree on: missing, of other types (calls of these two are refused), or
    /// built from other source (calls go through: the image is stale).
    pub fn warnings(&self) -> Vec<Warning> {
        let Differences { missing, other_signature, stale } = &self.inner.differences;
        let device = || self.inner.name.clone();
        let missing = missing.iter().map(|handler| Warning::MissingHandler { device: device(), handler });
        let other = other_signature.iter().map(|handler| Warning::OtherSignature { device: device(), handler });
        let stale = stale.iter().map(|handler| Warning::StaleHandler { device: device(), handler });
        missing.chain(other).chain(stale).collect()
    }

    /// What the link to the device can do, whatever image runs there. What the image does is in [`DeviceInfo::features`]: a device
    /// sleeps when its link has a doorbell and its image accepted the feature of that name.
    pub fn link_capabilities(&self) -> Capabilities {
        self.inner.link.capabilities()
    }

    /// Is the device there, as far as anybody has noticed or can see now?
    pub fn is_alive(&self) -> bool {
        self.inner.check_peer();
        self.inner.epoch.load(Ordering::Acquire) != NO_EPOCH
    }

    /// What the device wrote before its last epoch that ended by a fault did so: of an image with `on_fault = reset`, a hosted image
    /// that trapped, or a runtime that failed outside of every call. It outlives the epoch that it tells of, and the window. `None`
    /// when no epoch has ended so.
    pub fn last_crash(&self) -> Option<CrashReport> {
        self.inner.keep_crash(self.inner.epoch.load(Ordering::Acquire));
        self.inner.last_crash.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A round trip through the control stream; proves that the device runs, whatever the other streams hold. While a queued
    /// handler has its processor, the device answers from its tick: some tens of milliseconds later. A handler that is not queued
    /// is waited for.
    ///
    /// # Errors
    /// As for any call.
    pub fn ping(&self) -> Result<Duration, CallError> {
        let begin = Instant::now();
        let token = std::process::id().into();
        match self.inner.control_call(hamr_comm::builtin::ping::with(token))? {
            echoed if echoed == token => Ok(begin.elapsed()),
            other => Err(CallError::Corrupt(
                self.inner.site::<hamr_comm::builtin::ping>("reading the reply"),
                format!("{other} in answer to ping {token}").into(),
            )),
        }
    }

    /// Opens a stream: one ordered sequence of calls, for one thread at a time.
    ///
    /// # Errors
    /// When all queue pairs are in use, or the device is gone.
    pub fn stream(&self) -> Result<Stream<'_>, Error> {
        Stream::open(self)
    }

    /// Opens a stream that threads share, behind a lock.
    ///
    /// # Errors
    /// As for [`Self::stream`].
    pub fn shared_stream(&self) -> Result<SharedStream, Error> {
        SharedStream::open(self)
    }

    /// The calling thread's own stream, opened at the first use and closed with the thread or the device.
    ///
    /// # Errors
    /// As for [`Self::stream`].
    pub fn local(&self) -> Result<LocalStream<'_>, Error> {
        LocalStream::of(self)
    }

    fn thread_stream<H: Handler>(&self) -> Result<LocalStream<'_>, SubmitError> {
        let site = || self.inner.site::<H>("submitting");
        self.local().map_err(|e| match e {
            Error::Lost { why, .. } => SubmitError::DeviceLost { site: site(), why },
            other => SubmitError::NoRoom { site: site(), why: other.to_string() },
        })
    }

    // All of them on the calling thread's stream (see `local`).
    call_methods!(
        self, LocalStream<'_>,
        call: self.thread_stream::<H>()?,
        keep: self.thread_stream::<H>()?,
        open: LocalStream::opened(self)
    );

    /// A buffer in the device's memory that holds a copy of `data`.
    ///
    /// # Errors
    /// When the heap or the table of buffers is full.
    pub fn buffer<T: Element>(&self, data: &[T]) -> Result<Buffer<T>, Error> {
        let buffer = Buffer::new(self, data.len())?;
        self.put(data, buffer.ptr())?;
        Ok(buffer)
    }

    /// A buffer of `len` elements; what they hold is unspecified.
    ///
    /// # Errors
    /// When the heap or the table of buffers is full.
    pub fn allocate<T: Element>(&self, len: usize) -> Result<Buffer<T>, Error> {
        Buffer::new(self, len)
    }

    /// Bytes of heap that no buffer holds.
    pub fn free_bytes(&self) -> u64 {
        self.inner.memory.free_bytes()
    }

    /// Buffers alive, those of long messages in flight included.
    pub fn live_buffers(&self) -> usize {
        self.inner.memory.live()
    }

    /// Ends the device, whatever it is doing. Calls in flight end with [`CallError::DeviceLost`].
    pub fn stop(&self) {
        self.inner.stop_finally("stopped by this program");
    }

    /// Starts the device anew, with the same image, in a new epoch. Calls in flight end with [`CallError::PeerReset`] or
    /// [`CallError::DeviceLost`], exactly once each; open streams go on in the new epoch. Buffers stay; what a handler was
    /// writing at the moment of death is unspecified.
    ///
    /// # Errors
    /// When the link cannot start its device again, or the device does not come up.
    pub fn restart(&self) -> Result<(), Error> {
        let inner = &*self.inner;
        // Held to the end: one restart at a time. The count is the host's own; the word in the window is only told.
        let mut last = inner.last_epoch.lock().unwrap_or_else(PoisonError::into_inner);
        inner.stop("being restarted");
        inner.begin_epoch(&mut last, ByFault::Crashed)
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.inner
    }

    pub(crate) fn memory(&self) -> &Arc<DeviceMemory> {
        &self.inner.memory
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.inner.closed.store(true, Ordering::Release);
        HostHandshake::close(self.inner.link.window());
        self.inner.notify_fenced();
        self.inner.stop_finally("closed by this program");
        crate::stream::forget_closed();
        // Behind it the next host may have the window: whoever of this one writes there has done so by now, or sees that it is closed.
        // What cannot look in time (a submission that has begun) is the link's to keep away (`Link::release`).
        drop(self.inner.lock_queues());
        #[cfg(feature = "device-logs")]
        self.inner.release_logs();
        self.inner.link.release();
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Node({} {})", self.inner.id, self.inner.name)
    }
}

impl Device {
    pub(crate) fn site<H: Handler>(&self, stage: &'static str) -> Box<crate::Site> {
        Box::new(crate::Site { device: self.name.clone(), handler: H::NAME, stage })
    }

    /// The names in the image that runs.
    pub(crate) fn symbols(&self) -> Arc<Symbols> {
        self.epoch_info.lock().unwrap_or_else(PoisonError::into_inner).symbols.clone()
    }

    /// May what was just read of the heap have been another host's, or nothing?
    pub(crate) fn heap_is_released(&self) -> bool {
        // Behind the read.
        fence(Ordering::Acquire);
        self.link.outlives_host() && self.is_closed()
    }

    /// Was the [`Node`] dropped?
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}
