//! The streams that each thread has of its own.

use super::shared::Locked;
use super::{Access, Owned, QueuePairs, Route, SharedStream, StreamOptions, Submitter, Used, User, call_methods};
use crate::Error;
use crate::device::Device;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;

thread_local! {
    /// This thread's streams, one per device. Those of dropped nodes are removed at the next
    /// access.
    static STREAMS: RefCell<Vec<Kept>> = const { RefCell::new(Vec::new()) };
    /// The one that had the thread's last [`OneCall`]: for the next one without a search and
    /// without a count.
    static LAST: Cell<Option<Rc<Owned>>> = const { Cell::new(None) };
    /// This thread runs a body for a device's call.
    static IN_BODY: Cell<bool> = const { Cell::new(false) };
}

/// A stream that a thread uses.
#[derive(Clone)]
enum Kept {
    Own(Rc<Owned>),
    /// With other threads: there was no queue pair left.
    Shared(SharedStream),
}

impl Kept {
    fn device(&self) -> &Device {
        match self {
            Self::Own(owned) => &owned.device,
            Self::Shared(shared) => shared.device(),
        }
    }
}

/// Runs `body`, a body for a device's call. The calls of a body go to queue pairs for bodies, one
/// for each call: the thread's own stream may be waiting for the very task that called, or have such
/// a call in front.
pub(crate) fn in_body(body: &mut dyn FnMut()) {
    let outer = (take_last(), IN_BODY.replace(true));
    body();
    let (last, in_body) = outer;
    set_last(last);
    IN_BODY.set(in_body);
}

/// The stream of the thread's last call. None where the thread is ending: a call in the destructor of
/// another variable of its, or at the end of the program, has a stream for itself.
#[inline(always)]
fn take_last() -> Option<Rc<Owned>> {
    LAST.try_with(Cell::take).ok().flatten()
}

#[inline(always)]
fn set_last(owned: Option<Rc<Owned>>) {
    // An error means that the thread is ending: then the stream is dropped.
    let _ = LAST.try_with(|last| last.set(owned));
}

/// Does this thread run a body?
pub(crate) fn is_in_body() -> bool {
    IN_BODY.get()
}

/// Removes this thread's streams of devices that were closed: a stream keeps its window mapped.
pub(crate) fn forget_closed() {
    // An error means that the thread is ending, or is at work on the list right now: then the next
    // access removes them.
    set_last(take_last().filter(|s| !s.device.is_closed()));
    let closed = STREAMS.try_with(|streams| {
        let Ok(mut streams) = streams.try_borrow_mut() else { return Vec::new() };
        streams.extract_if(.., |s| s.device().is_closed()).collect()
    });
    // With the last share of a device the program's values are dropped that it has, so not before.
    drop(closed);
}

/// Takes in what the calling thread's stream of a device was answered, where no other thread uses it. For a caller
/// that finds a buffer busy or the heap full.
pub(crate) fn reap_local(device: &Device) {
    // An error means that the thread is ending, or that this runs inside of a call of that stream
    // (a handler on loopback).
    let _ = STREAMS.try_with(|streams| {
        let Ok(streams) = streams.try_borrow() else { return };
        match streams.iter().find(|s| std::ptr::eq(s.device(), device)) {
            Some(Kept::Own(owned)) => owned.try_enter().into_iter().for_each(|mut submitter| submitter.poll(device)),
            Some(Kept::Shared(shared)) => shared.try_poll(),
            None => {}
        }
    });
}

/// The calling thread's stream of one device; beyond [`Options::streams`](field@crate::Options::streams) one that it
/// shares with other threads.
#[derive(Clone)]
pub struct LocalStream<'n> {
    kept: Kept,
    _node: PhantomData<&'n Device>,
}

impl<'n> LocalStream<'n> {
    #[inline]
    pub(crate) fn of(device: &'n Arc<Device>, queues: &Arc<QueuePairs>) -> Result<Self, Error> {
        let open = |user| Owned::open(device, queues, user, &StreamOptions::default()).map(Rc::new);
        if is_in_body() {
            return Ok(Self { kept: Kept::Own(open(User::Body)?), _node: PhantomData });
        }
        if let Some(opened) = Self::opened(device) {
            return Ok(opened);
        }
        forget_closed();
        let kept = match open(User::Program) {
            Err(error @ Error::TooManyStreams { .. }) => {
                Kept::Shared(SharedStream::beyond(device, queues).map_err(|_| error)?)
            }
            opened => Kept::Own(opened?),
        };
        // Not where the thread is ending: then the stream is for this use.
        let _ = STREAMS.try_with(|streams| {
            if let Ok(mut streams) = streams.try_borrow_mut() {
                streams.push(kept.clone());
            }
        });
        Ok(Self { kept, _node: PhantomData })
    }

    /// The calling thread's stream, when it has one of this device.
    pub(crate) fn opened(device: &'n Arc<Device>) -> Option<Self> {
        if is_in_body() {
            return None;
        }
        let found = STREAMS.try_with(|streams| {
            let streams = streams.try_borrow().ok()?;
            streams.iter().find(|s| std::ptr::eq(s.device(), &**device)).cloned()
        });
        Some(Self { kept: found.ok().flatten()?, _node: PhantomData })
    }

    fn route(&self) -> Route<&Self> {
        match &self.kept {
            Kept::Own(_) => Route::Own(self),
            Kept::Shared(shared) => Route::Shared(shared.clone()),
        }
    }

    call_methods!(self, Self, call: self.route(), keep: self.clone(), open: Some(self));
}

/// A use of a [`LocalStream`].
pub enum LocalUse<'a> {
    Own(Used<'a>),
    Shared(Locked<'a>),
}

impl Deref for LocalUse<'_> {
    type Target = Submitter;
    #[inline(always)]
    fn deref(&self) -> &Submitter {
        match self {
            Self::Own(used) => used,
            Self::Shared(locked) => locked,
        }
    }
}

impl DerefMut for LocalUse<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Submitter {
        match self {
            Self::Own(used) => used,
            Self::Shared(locked) => locked,
        }
    }
}

/// Calls that wait inside of a use take [`LocalStream::route`] first.
impl Access for LocalStream<'_> {
    type Use<'a>
        = LocalUse<'a>
    where
        Self: 'a;
    #[inline(always)]
    fn enter(&self) -> LocalUse<'_> {
        match &self.kept {
            Kept::Own(owned) => LocalUse::Own(owned.enter()),
            Kept::Shared(shared) => LocalUse::Shared(shared.enter()),
        }
    }
    #[inline(always)]
    fn device(&self) -> &Device {
        self.kept.device()
    }
}

/// The calling thread's stream of one device, for one call whose result is not kept.
pub(crate) struct OneCall<'n> {
    /// There until the drop.
    owned: Option<Rc<Owned>>,
    _node: PhantomData<&'n Device>,
}

impl<'n> OneCall<'n> {
    /// The stream of the thread's last such call, when it is one of this device.
    #[inline(always)]
    pub(crate) fn last(device: &'n Arc<Device>) -> Option<Self> {
        let owned = take_last().filter(|owned| Arc::ptr_eq(&owned.device, device))?;
        Some(Self { owned: Some(owned), _node: PhantomData })
    }

    pub(crate) fn of(stream: LocalStream<'n>) -> Route<Self> {
        match stream.kept {
            Kept::Own(owned) => Route::Own(Self { owned: Some(owned), _node: PhantomData }),
            Kept::Shared(shared) => Route::Shared(shared),
        }
    }

    #[inline(always)]
    fn owned(&self) -> &Owned {
        match &self.owned {
            Some(owned) => owned,
            // Taken only by `Drop`.
            None => unreachable!("a call has its stream until it is dropped"),
        }
    }
}

impl Drop for OneCall<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        set_last(self.owned.take());
    }
}

impl Access for OneCall<'_> {
    type Use<'a>
        = Used<'a>
    where
        Self: 'a;
    #[inline(always)]
    fn enter(&self) -> Used<'_> {
        self.owned().enter()
    }
    #[inline(always)]
    fn device(&self) -> &Device {
        &self.owned().device
    }
}
