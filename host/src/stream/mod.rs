//! Streams: ordered sequences of calls, and the kinds of access to one.
//!
//! | kind | who may use it | cost of a pipelined call |
//! |---|---|---|
//! | [`Stream`] | one thread at a time (`Send`, not `Sync`) | the message itself |
//! | [`LocalStream`] | the calling thread, behind [`crate::Node::sync`] and [`crate::Node::offload`] | and a lookup in thread-local storage |
//! | [`SharedStream`] | any thread (`Send + Sync + Clone`) | and an uncontended lock |

pub(crate) mod calls;
mod completion;
mod encode;
mod epoch;
mod epoch_end;
mod hot;
mod pending;
mod queue_end;
mod queues;
mod reply;
mod ring;
mod started;
mod submit;
mod submitter;
mod sync;
mod table;
mod tickets;
mod uses;
mod wait;

pub use pending::Pending;
pub use started::Started;

pub(crate) use calls::call_methods;

pub(crate) use self::queues::{QueuePairs, fresh_submitter};
pub(crate) use self::submitter::Submitter;
pub(crate) use self::sync::sync;

use crate::device::{Device, Fence};
use crate::{BufferError, Error, SubmitError};
use hamr_comm::{BufferPtr, Call, Element, Handler};
use std::cell::{RefCell, RefMut};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Options of one call beyond the usual. Ends with `..CallOptions::default()`, as
/// [`crate::Options`] does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// Counted from the submission. The device learns it too ([`hamr_comm::Context::deadline_us`]).
    pub deadline: Option<Duration>,
    /// How long the handler may run. The device ends it some milliseconds later with a fault
    /// ([`RUNAWAY`](hamr_comm::abi::status::Status::RUNAWAY)) that reports where it was; of a
    /// hosted image, the process with it. At most 35 minutes. The handler gets it in place of
    /// `deadline`.
    pub limit: Option<Duration>,
    /// Bytes reserved for a result of variable size; without it, one chunk.
    pub reply_capacity: Option<usize>,
    /// May overtake and be overtaken by other calls of the stream (only queued handlers make use of
    /// it).
    pub unordered: bool,
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

mod sealed {
    use super::{Device, Submitter};

    /// Access to a stream's submitter, whatever kind of stream it is.
    pub trait Access {
        /// Other threads use the submitter too: no wait is inside of [`Self::with`].
        #[doc(hidden)]
        const IS_SHARED: bool = false;
        #[doc(hidden)]
        fn with<R>(&self, f: impl FnOnce(&mut Submitter, &Device) -> R) -> R;
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
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&mut Submitter, &Device) -> R) -> R {
        (**self).with(f)
    }
    #[inline(always)]
    fn device(&self) -> &Device {
        (**self).device()
    }
}

/// A queue pair in use; goes back to its device when dropped.
struct Owned {
    device: Arc<Device>,
    queues: Arc<QueuePairs>,
    index: u32,
    /// Always there until it is dropped.
    submitter: RefCell<Option<Box<Submitter>>>,
}

impl Owned {
    fn open(device: &Arc<Device>, queues: &Arc<QueuePairs>) -> Result<Self, Error> {
        let (device, queues) = (device.clone(), queues.clone());
        let (index, submitter) = queues.take(&device)?;
        Ok(Self { device, queues, index, submitter: RefCell::new(Some(submitter)) })
    }

    #[inline(always)]
    fn submitter(&self) -> RefMut<'_, Box<Submitter>> {
        RefMut::map(self.submitter.borrow_mut(), submitter)
    }
}

#[inline(always)]
fn submitter(submitter: &mut Option<Box<Submitter>>) -> &mut Box<Submitter> {
    match submitter {
        Some(submitter) => submitter,
        // Taken only by `Drop`, after which there is no `Owned` to ask.
        None => unreachable!("a stream's engine is there until the stream is dropped"),
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // The submitter stays with its queue pair: the counts go on, and calls in flight still use
        // buffers.
        let Some(mut submitter) = self.submitter.get_mut().take() else { return };
        submitter.detach_hot();
        submitter.poll(&self.device);
        self.queues.give_back(&self.device, self.index, submitter);
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
    pub(crate) fn open(device: &'n Arc<Device>, queues: &Arc<QueuePairs>) -> Result<Self, Error> {
        Ok(Self { owned: Owned::open(device, queues)?, _node: PhantomData })
    }

    call_methods!(self, &Self, call: self, keep: self, open: Some(self));

    /// Starts one call in the stream's hot slot: the first half of [`Self::sync`], for a caller
    /// that has something else to do meanwhile. One such call at a time; for more of them use
    /// [`Self::offload`], to which this falls back when the slot is not open (earlier calls are
    /// unanswered, or the arguments are long).
    ///
    /// # Errors
    /// See [`SubmitError`]: nothing was sent.
    #[inline]
    pub fn start<H: Handler>(&self, call: Call<H>) -> Result<Started<'_, 'n, H>, SubmitError> {
        let mut submitter = self.owned.submitter();
        let seq = submitter.hot_seq();
        let started = submitter.start(&self.owned.device, &call);
        drop(submitter);
        if !started {
            return self.start_in_ring(call);
        }
        // Rule 21: no thread waits for this call yet.
        self.owned.device.notify(Fence::Relaxed);
        Ok(Started::hot(self, seq))
    }

    #[cold]
    #[inline(never)]
    fn start_in_ring<H: Handler>(&self, call: Call<H>) -> Result<Started<'_, 'n, H>, SubmitError> {
        self.owned.submitter().poll_hot(&self.owned.device);
        calls::offload(self, call).map(Started::queued)
    }

    /// Copies into a buffer in stream order: after every earlier call of this stream has run,
    /// before any later one.
    ///
    /// # Errors
    /// As [`Node::put`](crate::Node::put); [`BufferError::Busy`] only for calls of *other* streams,
    /// and for a [`Started`] not yet read.
    pub fn put<T: Element>(&self, from: &[T], to: BufferPtr<T>) -> Result<(), Error> {
        self.ordered(|device| device.memory.put(from, to))
    }

    /// Copies out of a buffer in stream order: sees what every earlier call of this stream wrote.
    ///
    /// # Errors
    /// As [`Node::get`](crate::Node::get).
    pub fn get<T: Element>(&self, from: BufferPtr<T>, to: &mut [T]) -> Result<(), Error> {
        self.ordered(|device| device.memory.get(from, to))
    }

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
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&mut Submitter, &Device) -> R) -> R {
        f(&mut self.owned.submitter(), &self.owned.device)
    }
    #[inline(always)]
    fn device(&self) -> &Device {
        &self.owned.device
    }
}

thread_local! {
    /// This thread's streams, one per device. Those of dropped nodes are removed at the next
    /// access.
    static STREAMS: RefCell<Vec<Rc<Owned>>> = const { RefCell::new(Vec::new()) };
}

/// Removes this thread's streams of devices that were closed: a stream keeps its window mapped.
pub(crate) fn forget_closed() {
    // An error means that the thread is ending, or is at work on the list right now: then the next
    // access removes them.
    let _ = STREAMS.try_with(|streams| {
        if let Ok(mut streams) = streams.try_borrow_mut() {
            streams.retain(|s| !s.device.is_closed());
        }
    });
}

/// Takes in what the calling thread's own stream of a device was answered. For a caller that finds
/// a buffer busy or the heap full.
pub(crate) fn reap_local(device: &Device) {
    // An error means that the thread is ending, or that this runs inside of a call of that stream
    // (a handler on loopback).
    let _ = STREAMS.try_with(|streams| {
        let Ok(streams) = streams.try_borrow() else { return };
        let Some(owned) = streams.iter().find(|s| std::ptr::eq(&*s.device, device)) else { return };
        if let Ok(mut owned) = owned.submitter.try_borrow_mut() {
            submitter(&mut owned).poll(device);
        }
    });
}

/// The calling thread's stream of one device.
#[derive(Clone)]
pub struct LocalStream<'n> {
    owned: Rc<Owned>,
    _node: PhantomData<&'n Device>,
}

impl<'n> LocalStream<'n> {
    #[inline]
    pub(crate) fn of(device: &'n Arc<Device>, queues: &Arc<QueuePairs>) -> Result<Self, Error> {
        STREAMS.with_borrow_mut(|streams| {
            if let Some(owned) = streams.iter().find(|s| Arc::ptr_eq(&s.device, device)) {
                return Ok(Self { owned: owned.clone(), _node: PhantomData });
            }
            streams.retain(|s| !s.device.is_closed());
            let owned = Rc::new(Owned::open(device, queues)?);
            streams.push(owned.clone());
            Ok(Self { owned, _node: PhantomData })
        })
    }

    /// The calling thread's stream, when it has one of this device.
    pub(crate) fn opened(device: &'n Arc<Device>) -> Option<Self> {
        STREAMS.with_borrow(|streams| {
            let owned = streams.iter().find(|s| Arc::ptr_eq(&s.device, device))?;
            Some(Self { owned: owned.clone(), _node: PhantomData })
        })
    }

    call_methods!(self, Self, call: self, keep: self.clone(), open: Some(self));
}

impl sealed::Access for LocalStream<'_> {
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&mut Submitter, &Device) -> R) -> R {
        f(&mut self.owned.submitter(), &self.owned.device)
    }
    #[inline(always)]
    fn device(&self) -> &Device {
        &self.owned.device
    }
}

/// A stream that threads share: every call takes a lock, while it polls or submits and never while
/// it waits. A flush waits for the calls that the stream has when it begins. Its [`Pending`]s are
/// `Send` and own their share of it, so they move freely between threads and tasks.
#[derive(Clone)]
pub struct SharedStream {
    shared: Arc<SharedInner>,
}

struct SharedInner {
    device: Arc<Device>,
    owned: Mutex<Owned>,
}

impl SharedStream {
    pub(crate) fn open(device: &Arc<Device>, queues: &Arc<QueuePairs>) -> Result<Self, Error> {
        let owned = Owned::open(device, queues)?;
        Ok(Self { shared: Arc::new(SharedInner { device: owned.device.clone(), owned: Mutex::new(owned) }) })
    }

    call_methods!(self, Self, call: self, keep: self.clone(), open: Some(self));
}

impl sealed::Access for SharedStream {
    const IS_SHARED: bool = true;
    fn with<R>(&self, f: impl FnOnce(&mut Submitter, &Device) -> R) -> R {
        // A panic inside leaves the submitter consistent: it changes its state only in steps that
        // end consistent.
        let mut owned = self.shared.owned.lock().unwrap_or_else(PoisonError::into_inner);
        f(submitter(owned.submitter.get_mut()), &self.shared.device)
    }
    fn device(&self) -> &Device {
        &self.shared.device
    }
}
