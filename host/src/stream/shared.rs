//! A stream that threads share.

use super::{
    Access, CallOptions, Encoded, Pending, QueuePairs, Route, StreamOptions, StreamState, Submitter, User,
    call_methods, calls, in_time, submit, there,
};
use crate::background::{WorkSite, Worker};
use crate::device::Device;
use crate::stream::queues::fresh_submitter;
use crate::{Error, PendingWork, SubmitError};
use hamr_comm::Handler;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// A stream that threads share: every call takes a lock, while it submits and polls. A call whose
/// result does not come within about a microsecond gives the lock back and waits without it. A flush
/// waits for the calls that the stream has when it begins. Its [`Pending`](crate::Pending)s are
/// `Send` and own their share of it, so they move freely between threads and tasks.
#[derive(Clone)]
pub struct SharedStream {
    shared: Arc<SharedInner>,
}

pub(super) struct SharedInner {
    device: Arc<Device>,
    queues: Arc<QueuePairs>,
    index: u32,
    state: Mutex<State>,
    /// In a copy of the process, where a thread that is not here has the lock: the same without calls.
    spare: OnceLock<Mutex<State>>,
    /// Notified at the end of each block.
    block_ended: Condvar,
    /// Runs the host functions.
    host_functions: Worker,
}

struct State {
    /// There until the drop.
    submitter: Option<Box<Submitter>>,
    /// The thread that has the stream for itself, and how many blocks of it are open.
    block: Option<(ThreadId, u32)>,
}

/// How long a thread that ends may take to give a queue pair back.
const LEAVE: Duration = Duration::from_millis(100);

impl SharedStream {
    pub(crate) fn open(device: &Arc<Device>, queues: &Arc<QueuePairs>, options: &StreamOptions) -> Result<Self, Error> {
        QueuePairs::revive(device)?;
        Self::open_for(User::Program, device, queues, options)
    }

    /// The stream of all threads that find no queue pair for one of their own, as long as there are some.
    pub(super) fn beyond(device: &Arc<Device>, queues: &Arc<QueuePairs>) -> Result<Self, Error> {
        let mut known = queues.beyond.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = known.as_ref().and_then(Weak::upgrade).and_then(|shared| shared.downcast().ok());
        if let Some(shared) = shared {
            return Ok(Self { shared });
        }
        let begin = Instant::now();
        let opened = loop {
            // The last of the threads before may be giving their pair back; nothing else is waited for.
            let leaves = queues.has(User::Beyond) && begin.elapsed() < LEAVE;
            match Self::open_for(User::Beyond, device, queues, &StreamOptions::default()) {
                Err(Error::TooManyStreams { .. }) if leaves => std::thread::yield_now(),
                opened => break opened?,
            }
        };
        let weak: Weak<SharedInner> = Arc::downgrade(&opened.shared);
        *known = Some(weak);
        Ok(opened)
    }

    fn open_for(
        user: User,
        device: &Arc<Device>,
        queues: &Arc<QueuePairs>,
        options: &StreamOptions,
    ) -> Result<Self, Error> {
        let (device, queues) = (device.clone(), queues.clone());
        let (index, submitter) = queues.take(&device, user, options)?;
        let state = Mutex::new(State { submitter: Some(submitter), block: None });
        let (block_ended, host_functions) = (Condvar::new(), Worker::new("hamr-host-fns"));
        let spare = OnceLock::new();
        Ok(Self { shared: Arc::new(SharedInner { device, queues, index, state, spare, block_ended, host_functions }) })
    }

    /// Keeps other threads off the stream until the block is dropped, so that no call of theirs comes
    /// between the calls that this thread submits meanwhile. This thread uses the stream as ever, and
    /// may open another block inside.
    ///
    /// Other threads that use the stream or wait for a result of it wait for the block's end, without
    /// a limit of their own: a block is for a few submissions.
    pub fn block(&self) -> RequestBlock<'_> {
        let mut state = self.locked();
        let depth = state.block.map_or(0, |(_, depth)| depth);
        state.block = Some((std::thread::current().id(), depth + 1));
        RequestBlock { stream: self, _thread: PhantomData }
    }

    /// A sync point: done when every call that was submitted before has run. Later calls do not wait
    /// for it.
    ///
    /// # Errors
    /// As of [`Self::run_on_host`].
    pub fn sync_point(&self) -> Result<PendingWork<()>, Error> {
        self.run_on_host(|| ())
    }

    /// [`Self::flush`], until this time.
    pub(crate) fn flush_until(&self, until: Option<Instant>) -> Result<(), Error> {
        calls::flush_until(self, until)
    }

    /// [`Self::offload_with`] of arguments that were encoded before.
    pub(crate) fn offload_encoded<H: Handler>(
        &self,
        arguments: &Encoded<'_>,
        options: CallOptions,
    ) -> Result<Pending<H, Self>, SubmitError> {
        calls::offload_encoded(self.clone(), arguments, options, options.deadline.map(in_time))
    }

    /// Takes in every reply that is there, unless a thread uses the stream, which does so itself, or is in a block.
    pub(super) fn try_poll(&self) {
        let state = match self.shared.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let me = std::thread::current().id();
        if state.block.is_none_or(|(owner, _)| owner == me) {
            Locked(state).poll(&self.shared.device);
        }
    }

    /// What the stream is doing.
    pub fn state(&self) -> StreamState {
        calls::state(self)
    }

    /// The lock, unless a block of another thread is open.
    #[inline(always)]
    fn locked(&self) -> MutexGuard<'_, State> {
        // A panic inside leaves the submitter consistent: it changes its state only in steps that
        // end consistent.
        let state = match self.shared.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.contended(),
        };
        if state.block.is_some() { self.behind_block(state) } else { state }
    }

    #[cold]
    #[inline(never)]
    fn contended(&self) -> MutexGuard<'_, State> {
        let SharedInner { device, state, spare, index, .. } = &*self.shared;
        let state = if device.is_here() {
            state
        } else {
            spare.get_or_init(|| {
                let mut submitter = fresh_submitter(device, *index).ok().map(Box::new);
                submitter.iter_mut().for_each(|submitter| submitter.calls.end.know_no_names());
                Mutex::new(State { submitter, block: None })
            })
        };
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    #[inline(never)]
    fn behind_block<'s>(&'s self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let me = std::thread::current().id();
        let device = &self.shared.device;
        let is_closed = |state: &mut State| state.block.is_some_and(|(owner, _)| owner != me) && device.is_here();
        self.shared.block_ended.wait_while(state, is_closed).unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `f` on a thread of the library, in the order of the stream: when every call that was
    /// submitted before has run, and every host function before has ended. Calls submitted later do
    /// not wait for it. The thread is the stream's own; it starts with the first host function.
    ///
    /// `f` may call through the stream. It must not wait for a later host function.
    ///
    /// # Errors
    /// When the thread cannot be started. The wait for `f` also ends with [`Error::Lost`] when the
    /// epoch of the calls before has ended, and with [`Error::Timeout`] when they have not run within
    /// `Options::deadline`: `f` does not run then. [`Error::NoOutcome`] when it panicked.
    pub fn run_on_host<R: Send + 'static>(
        &self,
        f: impl FnOnce() -> R + Send + 'static,
    ) -> Result<PendingWork<R>, Error> {
        const WAITING: &str = "waiting for the calls before a host function";
        let device = &self.shared.device;
        device.check_open("running a host function")?;
        let site = WorkSite {
            device: device.name.clone(),
            stage: "running a host function",
            deadline: device.options.deadline,
        };
        let (stream, before) = (self.clone(), submit::calls_so_far(self));
        self.shared.host_functions.submit(site, move || {
            submit::wait_for(&stream, before, None).map_err(|stop| calls::stopped(stream.device(), WAITING, stop))?;
            Ok(f())
        })
    }

    call_methods!(self, Self, call: Route::Own(self), keep: self.clone(), open: Some(self));
}

/// A thread has a stream for itself: [`SharedStream::block`].
#[must_use = "the block ends when this is dropped"]
pub struct RequestBlock<'s> {
    stream: &'s SharedStream,
    /// It ends on the thread that began it.
    _thread: PhantomData<*const ()>,
}

impl Drop for RequestBlock<'_> {
    fn drop(&mut self) {
        let mut state = self.stream.locked();
        state.block = state.block.filter(|(_, depth)| *depth > 1).map(|(owner, depth)| (owner, depth - 1));
        if state.block.is_none() {
            self.stream.shared.block_ended.notify_all();
        }
    }
}

impl Drop for SharedInner {
    fn drop(&mut self) {
        let submitter = self.state.get_mut().unwrap_or_else(PoisonError::into_inner).submitter.take();
        self.queues.detach(&self.device, self.index, submitter);
    }
}

/// The lock of a shared stream.
pub struct Locked<'s>(MutexGuard<'s, State>);

impl Deref for Locked<'_> {
    type Target = Submitter;
    #[inline(always)]
    fn deref(&self) -> &Submitter {
        there(self.0.submitter.as_deref())
    }
}

impl DerefMut for Locked<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Submitter {
        there(self.0.submitter.as_deref_mut())
    }
}

impl Access for SharedStream {
    const IS_SHARED: bool = true;
    type Use<'a>
        = Locked<'a>
    where
        Self: 'a;
    #[inline(always)]
    fn enter(&self) -> Locked<'_> {
        Locked(self.locked())
    }
    #[inline(always)]
    fn device(&self) -> &Device {
        &self.shared.device
    }
}
