//! A program's side of a device: its queue pairs, its control stream, its buffers. The device
//! itself is below, in `device`.

mod attach;
mod buffer;
mod chain;
mod control;
mod features;
mod info;
mod limits;
mod load_image;
mod module;
mod named;
mod portions;
mod relayed;
mod staging;

pub use buffer::Buffer;
pub use chain::{Chain, chain};
pub use features::Features;
pub use info::{DeviceInfo, NodeState};
pub use limits::Limits;
pub use module::Module;
pub use named::{HandlerFn, Named};
pub(crate) use relayed::Nodes;

use crate::Warning;
use crate::device::Device;
use crate::keys::{Differences, compare};
use crate::link::Capabilities;
use crate::memory::DeviceMemory;
use crate::services::Services;
use crate::side::{Closer, SideEnds};
use crate::stream::{OneCall, QueuePairs, Route, call_methods};
use crate::task_lines::tasks;
use crate::{CallError, CrashReport, Error, HandlerInfo, LocalStream, MemoryHook, SharedStream, StreamInfo, TaskInfo};
use crate::{Stream, StreamOptions, SubmitError};
use control::Control;
use hamr_comm::abi::section::SectionKind;
use hamr_comm::registry::Table;
use hamr_comm::{Element, Handler};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// One attached device. `Send + Sync`: threads share it by reference and each calls through streams
/// of its own. What is called on the node itself goes through the calling thread's stream
/// ([`Self::local`]). Any number of threads may do so: those that come when all of
/// [`Options::streams`](field@crate::Options::streams) are in use have one stream together, with a lock, as a
/// [`SharedStream`] is (not with `Options::tasks` 0, where they are refused).
///
/// Dropping it stops a device that this runtime started; calls still in flight end with
/// [`CallError::DeviceLost`].
pub struct Node {
    device: Arc<Device>,
    /// Which queue pairs belong to streams.
    queues: Arc<QueuePairs>,
    common: Arc<Common>,
    /// What the device's calls find by type.
    services: Weak<Services>,
    /// The same; `None`: this is the node that bodies are given, which is one of these services.
    owned: Option<Arc<Services>>,
}

/// What a node and the one that bodies are given have in common.
struct Common {
    /// The control stream.
    control: Control,
}

impl Node {
    /// The device's handlers, in the order of their keys: those of the image that it runs now.
    pub fn handlers(&self) -> Arc<[HandlerInfo]> {
        self.device.running().handlers
    }

    /// The handlers that this program and the image do not agree on: missing, of other types (calls
    /// of these two are refused), or built from other source (calls go through: the image is
    /// stale).
    pub fn warnings(&self) -> Vec<Warning> {
        let Differences { missing, other_signature, stale } = compare(Table::of_this_image(), &self.handlers());
        let device = || self.device.name.clone();
        let missing = missing.into_iter().map(|handler| Warning::MissingHandler { device: device(), handler });
        let other = other_signature.into_iter().map(|handler| Warning::OtherSignature { device: device(), handler });
        let stale = stale.into_iter().map(|handler| Warning::StaleHandler { device: device(), handler });
        missing.chain(other).chain(stale).collect()
    }

    /// The tasks of the device that wait, what each waits for, and where in its source: as the device
    /// saw them at its last look, at most 64 rounds or a sleep ago.
    pub fn tasks(&self) -> Vec<TaskInfo> {
        self.device.link.refresh(SectionKind::TASKS);
        tasks(self.device.link.window(), &self.device.layout, &self.handlers())
    }

    /// The streams that are open, in the order of their queue pairs.
    pub fn streams(&self) -> Vec<StreamInfo> {
        self.queues.streams(&self.device)
    }

    /// What the link to the device can do, whatever image runs there. What the image does is in
    /// [`DeviceInfo::features`]: a device sleeps when its link has a doorbell and its image
    /// accepted the feature of that name.
    pub fn link_capabilities(&self) -> Capabilities {
        self.device.link.capabilities()
    }

    /// Is the device there, as far as any thread has noticed or this one can see now?
    pub fn is_alive(&self) -> bool {
        self.device.check_peer();
        !self.device.is_lost()
    }

    /// What the device wrote before its last epoch that ended by a fault: of an image with
    /// `on_fault = reset`, a hosted image that trapped, or a runtime that failed outside of every
    /// call. The record stays readable after that epoch, and after the window. `None` when no epoch
    /// has ended so.
    pub fn last_crash(&self) -> Option<CrashReport> {
        self.device.last_crash()
    }

    /// A round trip through the control stream. It proves that the device runs, whatever the other
    /// streams are waiting for. While a task has the device's processor, the reply comes
    /// from the device's tick: some tens of milliseconds later. The ping waits for a handler that
    /// is not queued.
    ///
    /// # Errors
    /// As for any call.
    pub fn ping(&self) -> Result<Duration, CallError> {
        let begin = Instant::now();
        let token = std::process::id().into();
        match self.control_call(hamr_comm::builtin::ping::with(token))? {
            echoed if echoed == token => Ok(begin.elapsed()),
            other => Err(CallError::Corrupt(
                self.device.site::<hamr_comm::builtin::ping>("reading the reply"),
                format!("{other} in answer to ping {token}").into(),
            )),
        }
    }

    /// Provides `value` to the bodies that this device calls ([`hamr_comm::Host::service`]), by its type,
    /// until the node is dropped. It comes before one of the runtime; of two of a type the last.
    pub fn provide(&self, value: impl std::any::Any + Send + Sync) {
        if let Some(services) = self.services.upgrade() {
            services.provide(value);
        }
    }

    /// Opens a stream: one ordered sequence of calls, for one thread at a time.
    ///
    /// # Errors
    /// When all queue pairs are in use, or the device is gone.
    pub fn stream(&self) -> Result<Stream<'_>, Error> {
        self.stream_with(StreamOptions::default())
    }

    /// [`Self::stream`] with attributes of its own.
    ///
    /// # Errors
    /// As for [`Self::stream`].
    pub fn stream_with(&self, options: StreamOptions) -> Result<Stream<'_>, Error> {
        Stream::open(&self.device, &self.queues, &options)
    }

    /// Opens a stream that threads share, behind a lock.
    ///
    /// # Errors
    /// As for [`Self::stream`].
    pub fn shared_stream(&self) -> Result<SharedStream, Error> {
        self.shared_stream_with(StreamOptions::default())
    }

    /// [`Self::shared_stream`] with attributes of its own.
    ///
    /// # Errors
    /// As for [`Self::stream`].
    pub fn shared_stream_with(&self, options: StreamOptions) -> Result<SharedStream, Error> {
        SharedStream::open(&self.device, &self.queues, &options)
    }

    /// The calling thread's own stream, opened at the first use and closed with the thread or the
    /// device; when all are in use, the one that such threads share.
    ///
    /// # Errors
    /// As for [`Self::stream`], where none can be shared.
    pub fn local(&self) -> Result<LocalStream<'_>, Error> {
        LocalStream::of(&self.device, &self.queues)
    }

    fn thread_stream<H: Handler>(&self) -> Result<LocalStream<'_>, SubmitError> {
        let site = || self.device.site::<H>("submitting");
        self.local().map_err(|e| match e {
            Error::TooManyStreams { .. } if crate::stream::is_in_body() => SubmitError::QueueFull { site: site() },
            Error::Lost { why, .. } => SubmitError::DeviceLost { site: site(), why },
            other => SubmitError::NoRoom { site: site(), why: other.to_string() },
        })
    }

    /// The thread's stream for one call.
    #[inline(always)]
    fn one_call<H: Handler>(&self) -> Result<Route<OneCall<'_>>, SubmitError> {
        match OneCall::last(&self.device) {
            Some(stream) => Ok(Route::Own(stream)),
            None => self.other_stream::<H>(),
        }
    }

    #[cold]
    #[inline(never)]
    fn other_stream<H: Handler>(&self) -> Result<Route<OneCall<'_>>, SubmitError> {
        self.thread_stream::<H>().map(OneCall::of)
    }

    // All of them on the calling thread's stream (see `local`).
    call_methods!(
        self, LocalStream<'_>,
        call: self.one_call::<H>()?,
        keep: self.thread_stream::<H>()?,
        open: LocalStream::opened(&self.device)
    );

    /// A buffer in the device's memory with a copy of `data`.
    ///
    /// # Errors
    /// When the heap or the table of buffers is full.
    pub fn buffer<T: Element>(&self, data: &[T]) -> Result<Buffer<T>, Error> {
        let buffer = Buffer::new(self, data.len())?;
        self.put(data, buffer.ptr())?;
        Ok(buffer)
    }

    /// A buffer of `len` elements; their values are unspecified.
    ///
    /// # Errors
    /// When the heap or the table of buffers is full.
    pub fn allocate<T: Element>(&self, len: usize) -> Result<Buffer<T>, Error> {
        Buffer::new(self, len)
    }

    /// Tells another hook, or none, of buffers from now on, in the place of [`crate::Options::memory_hook`] or the
    /// last one, which is returned. It is not told of buffers that are there already. What another thread
    /// allocates or drops meanwhile is told to either.
    pub fn set_memory_hook(&self, hook: Option<MemoryHook>) -> Option<MemoryHook> {
        self.device.memory.set_hook(hook)
    }

    /// Bytes of heap outside of all buffers.
    pub fn free_bytes(&self) -> u64 {
        self.device.memory.free_bytes()
    }

    /// Buffers allocated, those of long messages in flight included.
    pub fn live_buffers(&self) -> usize {
        self.device.memory.live()
    }

    /// Ends the device, whatever it is doing. Calls in flight end with [`CallError::DeviceLost`].
    pub fn stop(&self) {
        self.device.stop_finally("stopped by this program");
    }

    /// Starts the device again, with the same image, in a new epoch. Calls in flight end with
    /// [`CallError::PeerReset`] or [`CallError::DeviceLost`], exactly once each; open streams go on
    /// in the new epoch. Buffers stay; what a handler was writing when the device stopped is
    /// unspecified.
    ///
    /// # Errors
    /// When the link cannot start its device again, or the device does not come up.
    pub fn restart(&self) -> Result<(), Error> {
        self.device.restart_on_request()
    }

    /// Waits, at most `limit`, until a device that was lost serves again, in a new epoch as after
    /// [`Self::restart`]. It comes back when another thread restarts it; after a fault, as the next
    /// call would begin an epoch ([`crate::Options::restart`]); or when another program has started it,
    /// where its link can tell ([`crate::link::Link::is_back`]) and this program did not stop it. Returns
    /// at once while the device is there. Nothing that was sent before runs in the new epoch. Buffers
    /// stay; a device that lost its memory, too, returns with unspecified contents.
    ///
    /// # Errors
    /// [`Error::Lost`] with the reason of the loss when the limit has passed.
    pub fn wait_until_back(&self, limit: Duration) -> Result<(), Error> {
        self.device.wait_until_back(limit)
    }

    /// Opens the section VERBS for a program that `closer` ends: once in an epoch, so that nothing of one program is taken for
    /// another's.
    ///
    /// # Errors
    /// The device, its link or its image has no such section; it was opened in this epoch; the device is lost.
    #[doc(hidden)]
    pub fn open_side(&self, closer: Arc<dyn Closer>) -> Result<SideEnds, Error> {
        self.device.open_side(closer)
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    pub(crate) fn memory(&self) -> &Arc<DeviceMemory> {
        &self.device.memory
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.owned.is_none() {
            return;
        }
        self.device.close();
        crate::stream::forget_closed();
        self.device.release();
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Node({} {})", self.device.id, self.device.name)
    }
}
