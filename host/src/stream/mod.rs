//! Streams: ordered sequences of calls, and the kinds of access to one.
//!
//! | kind | who may use it | cost of a pipelined call |
//! |---|---|---|
//! | [`Stream`] | one thread at a time (`Send`, not `Sync`) | the message itself |
//! | [`LocalStream`] | the calling thread, behind [`crate::Node::sync`] and [`crate::Node::offload`] | and a lookup in thread-local storage |
//! | [`SharedStream`] | any thread (`Send + Sync + Clone`) | and an uncontended lock |

mod arguments;
pub(crate) mod calls;
mod completion;
mod encode;
mod epoch;
mod epoch_end;
mod hot;
mod idle;
mod info;
mod local;
mod moved;
mod pending;
mod put_data;
mod queue_end;
mod queues;
mod reply;
mod retry;
mod ring;
mod shape;
mod shared;
mod started;
mod submit;
mod submitter;
mod sync;
mod table;
mod tickets;
mod uses;
mod wait;

pub use info::StreamInfo;
pub use local::LocalStream;
pub use pending::Pending;
pub use shared::{RequestBlock, SharedStream};
pub use started::Started;

pub(crate) use arguments::Encoded;
pub(crate) use calls::call_methods;
pub(crate) use local::{OneCall, forget_closed, reap_local};

pub(crate) use self::local::is_in_body;
pub(crate) use self::queues::{QueuePairs, fresh_submitter};
pub(crate) use self::reply::{Outcome, is_value};
pub(crate) use self::submitter::Submitter;
pub(crate) use self::sync::sync_with;
pub(crate) use self::wait::in_time;

use self::arguments::Short;
use crate::device::{Device, Fence};
use crate::{BufferError, Error, SubmitError};
use hamr_comm::abi::buffer::WireBuffer;
use hamr_comm::abi::ids::HandlerKey;
use hamr_comm::{BufferPtr, Call, Element, Handler};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

/// Options of one call beyond the usual. Ends with `..CallOptions::default()`, as
/// [`crate::Options`] does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// Counted from the submission. The device learns it too ([`hamr_comm::Context::deadline_us`]),
    /// unless it is longer than 35 minutes: then the handler has none, and the caller's ends the wait.
    pub deadline: Option<Duration>,
    /// How long the handler may run. The device ends it some milliseconds later with a fault
    /// ([`RUNAWAY`](hamr_comm::abi::status::Status::RUNAWAY)) that reports where it was; of a
    /// hosted image, the process with it. At most 35 minutes, else the call is refused
    /// ([`SubmitError::LongLimit`]). The handler gets it in place of `deadline`.
    pub limit: Option<Duration>,
    /// Bytes reserved for a result of variable size, at least one chunk; without it, as many as the
    /// type's longest value has, where the heap has them, and 16 KiB at most. A handler's own error
    /// has the same room: one chunk where the value fits one and this is not set.
    pub reply_capacity: Option<usize>,
    /// May overtake and be overtaken by other calls of the stream (only tasks make use of
    /// it).
    pub unordered: bool,
    /// The handler in the device's table, for calls without a type of their own.
    #[doc(hidden)]
    pub key: Option<KnownKey>,
}

/// A key that this library knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownKey {
    pub(crate) key: HandlerKey,
    /// Number of the device's image that it is for.
    pub(crate) image: u32,
    /// Of a module's handler.
    pub(crate) module: Option<ModuleUse>,
}

impl KnownKey {
    /// Of a handler of the device's image with this number.
    pub(crate) fn of_image(image: u32, index: u16) -> Self {
        Self { key: HandlerKey::of_index(index), image, module: None }
    }
}

/// What a call of a module uses: a buffer without content, so that the module is not unloaded before
/// the reply; and the epoch that the module is loaded in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModuleUse {
    pub(crate) epoch: u32,
    pub(crate) buffer: WireBuffer,
}

impl CallOptions {
    /// Only a deadline.
    pub fn deadline(deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..Self::default() }
    }

    /// Only room for a long result.
    pub fn reply_capacity(bytes: usize) -> Self {
        Self { reply_capacity: Some(bytes), ..Self::default() }
    }
}

/// Attributes of one stream, in place of what the device was opened with. Ends with
/// `..StreamOptions::default()`, as [`crate::Options`] does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// Calls in flight or unread; else [`crate::Options::max_outstanding`].
    pub max_outstanding: Option<usize>,
    /// Bytes of stack that the stream's tasks need: where the image's have fewer
    /// ([`DeviceInfo::task_stack`](crate::DeviceInfo::task_stack)), opening it is refused, and after a restart or
    /// another image its calls of tasks ([`SubmitError::TaskStack`]). An image chooses the size for all streams
    /// (`image!(task_stack = …)`); inline handlers do not run on these stacks.
    pub task_stack: Option<u32>,
}

/// What a stream is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamState {
    /// Every call that was submitted has run.
    Idle,
    /// Calls are in flight.
    Running,
    /// The device is gone: calls are refused until it is back.
    Lost,
}

mod sealed {
    use super::{Device, Submitter};
    use std::ops::DerefMut;

    /// Access to a stream's submitter, whatever kind of stream it is.
    pub trait Access {
        /// Other threads use the submitter too: no use of it waits beyond a microsecond.
        #[doc(hidden)]
        const IS_SHARED: bool = false;
        #[doc(hidden)]
        type Use<'a>: DerefMut<Target = Submitter>
        where
            Self: 'a;
        /// Begins a use of the submitter, which ends with the drop.
        #[doc(hidden)]
        fn enter(&self) -> Self::Use<'_>;
        #[doc(hidden)]
        #[inline(always)]
        fn with<R>(&self, f: impl FnOnce(&mut Submitter, &Device) -> R) -> R {
            f(&mut self.enter(), self.device())
        }
        #[doc(hidden)]
        fn device(&self) -> &Device;
    }
}
pub(crate) use sealed::Access;

/// A kind of access to a stream. Implemented by [`Stream`], [`LocalStream`], [`SharedStream`], and
/// references to them.
pub trait StreamRef: sealed::Access {}
impl<A: sealed::Access> StreamRef for A {}

impl<A: sealed::Access> sealed::Access for &A {
    const IS_SHARED: bool = A::IS_SHARED;
    type Use<'a>
        = A::Use<'a>
    where
        Self: 'a;
    #[inline(always)]
    fn enter(&self) -> Self::Use<'_> {
        (**self).enter()
    }
    #[inline(always)]
    fn device(&self) -> &Device {
        (**self).device()
    }
}

/// Who a queue pair is taken for. They have limits of their own, so that neither keeps the other
/// from going on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum User {
    Program = 0,
    /// A body on the host, for one call.
    Body = 1,
    /// All threads that found no queue pair for a stream of their own. One of those for bodies.
    Beyond = 2,
}

/// The calling thread's stream, as the methods of a node find it.
pub(crate) enum Route<S> {
    /// It is the thread's alone.
    Own(S),
    /// The one that threads beyond the number of streams share.
    Shared(SharedStream),
}

/// A queue pair in use; goes back to its device when dropped.
struct Owned {
    device: Arc<Device>,
    queues: Arc<QueuePairs>,
    index: u32,
    /// Taken by each use and put back behind it.
    submitter: Cell<Option<Box<Submitter>>>,
}

impl Owned {
    fn open(
        device: &Arc<Device>,
        queues: &Arc<QueuePairs>,
        user: User,
        options: &StreamOptions,
    ) -> Result<Self, Error> {
        let (device, queues) = (device.clone(), queues.clone());
        let (index, submitter) = queues.take(&device, user, options)?;
        Ok(Self { device, queues, index, submitter: Cell::new(Some(submitter)) })
    }

    #[inline(always)]
    fn enter(&self) -> Used<'_> {
        self.try_enter().unwrap_or_else(|| in_use())
    }

    /// `None`: this runs inside of another use.
    #[inline(always)]
    fn try_enter(&self) -> Option<Used<'_>> {
        let submitter = self.submitter.take()?;
        Some(Used { of: &self.submitter, submitter: Some(submitter) })
    }
}

/// A submitter in use. Puts it back, also when a panic unwinds.
pub struct Used<'o> {
    of: &'o Cell<Option<Box<Submitter>>>,
    /// There until the drop.
    submitter: Option<Box<Submitter>>,
}

impl Deref for Used<'_> {
    type Target = Submitter;
    #[inline(always)]
    fn deref(&self) -> &Submitter {
        there(self.submitter.as_deref())
    }
}

impl DerefMut for Used<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Submitter {
        there(self.submitter.as_deref_mut())
    }
}

impl Drop for Used<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // The cell is empty: nothing is lost.
        std::mem::forget(self.of.replace(self.submitter.take()));
    }
}

#[inline(always)]
fn there<T>(submitter: Option<T>) -> T {
    match submitter {
        Some(submitter) => submitter,
        None => unreachable!("a submitter is there until its use ends"),
    }
}

#[cold]
#[inline(never)]
pub(crate) fn in_use() -> ! {
    panic!(
        "a stream is used inside of a use of itself: by a handler on loopback, while the thread that it runs on waits"
    )
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.queues.detach(&self.device, self.index, self.submitter.take());
    }
}

/// One ordered sequence of calls on one device. `Send`, not `Sync`: each thread opens its own.
///
/// Calls run on the device in the order in which they were submitted. Dropping the stream leaves
/// calls in flight to themselves; their replies are discarded.
pub struct Stream<'n> {
    owned: Owned,
    _node: PhantomData<&'n Device>,
}

impl<'n> Stream<'n> {
    pub(crate) fn open(
        device: &'n Arc<Device>,
        queues: &Arc<QueuePairs>,
        options: &StreamOptions,
    ) -> Result<Self, Error> {
        QueuePairs::revive(device)?;
        Ok(Self { owned: Owned::open(device, queues, User::Program, options)?, _node: PhantomData })
    }

    /// What the stream is doing.
    pub fn state(&self) -> StreamState {
        calls::state(self)
    }

    call_methods!(self, &Self, call: Route::Own(self), keep: self, open: Some(self));

    /// Starts one call in the stream's hot slot: the first half of [`Self::sync`], for a caller
    /// that has something else to do meanwhile. One such call at a time; for more of them use
    /// [`Self::offload`], to which this falls back when the slot is not open (earlier calls are
    /// unanswered, or the arguments are long).
    ///
    /// # Errors
    /// See [`SubmitError`]: nothing was sent.
    #[inline]
    pub fn start<H: Handler>(&self, call: Call<H>) -> Result<Started<'_, 'n, H>, SubmitError> {
        let arguments = Short::of(&call);
        let seq = self.owned.enter().start::<H>(&self.owned.device, &arguments);
        let Some(seq) = seq else { return self.start_otherwise(call) };
        let started = self.started(seq);
        // Its arguments' destructors may panic: the slot has its owner by now.
        drop(call);
        Ok(started)
    }

    #[inline(always)]
    fn started<H: Handler>(&self, seq: u32) -> Started<'_, 'n, H> {
        // Rule 21: no thread waits for this call yet.
        self.owned.device.notify(Fence::Relaxed);
        Started::hot(self, seq)
    }

    #[cold]
    #[inline(never)]
    fn start_otherwise<H: Handler>(&self, call: Call<H>) -> Result<Started<'_, 'n, H>, SubmitError> {
        let arguments = Short::of(&call);
        let seq = self.owned.enter().start_otherwise::<H>(&self.owned.device, &arguments);
        if let Some(seq) = seq {
            let started = self.started(seq);
            drop(call);
            return Ok(started);
        }
        self.owned.enter().poll_hot(&self.owned.device);
        calls::offload(self, call).map(Started::queued)
    }

    /// Copies into a buffer in stream order: after every earlier call of this stream has run,
    /// before any later one.
    ///
    /// # Errors
    /// As [`Node::put`](crate::Node::put); [`BufferError::Busy`] only for calls of *other* streams,
    /// and for a [`Started`] not yet read.
    #[inline]
    pub fn put<T: Element>(&self, from: &[T], to: BufferPtr<T>) -> Result<(), Error> {
        match self.owned.device.memory.put_at_once(from, to) {
            Some(()) => Ok(()),
            None => self.ordered(|device| device.memory.put(from, to)),
        }
    }

    /// Copies out of a buffer in stream order: sees what every earlier call of this stream wrote.
    ///
    /// # Errors
    /// As [`Node::get`](crate::Node::get).
    #[inline]
    pub fn get<T: Element>(&self, from: BufferPtr<T>, to: &mut [T]) -> Result<(), Error> {
        match self.owned.device.memory.get_at_once(from, to) {
            Some(()) => Ok(()),
            None => self.ordered(|device| device.memory.get(from, to)),
        }
    }

    #[cold]
    #[inline(never)]
    fn ordered(&self, mut copy: impl FnMut(&Device) -> Result<(), BufferError>) -> Result<(), Error> {
        let device = &*self.owned.device;
        let wrap = |why| Error::Buffer { device: device.name.clone(), why };
        // A buffer that no call names needs no waiting: nothing of this stream can see the
        // difference.
        match copy(device) {
            Err(BufferError::Busy) => {}
            other => return other.map_err(wrap),
        }
        calls::flush(self)?;
        copy(device).map_err(wrap)
    }
}

impl sealed::Access for Stream<'_> {
    type Use<'a>
        = Used<'a>
    where
        Self: 'a;
    #[inline(always)]
    fn enter(&self) -> Used<'_> {
        self.owned.enter()
    }
    #[inline(always)]
    fn device(&self) -> &Device {
        &self.owned.device
    }
}
