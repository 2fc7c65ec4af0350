//! A stream that threads share.

use super::{Access, QueuePairs, Submitter, User, call_methods, calls, submit, there};
use crate::background::{WorkSite, Worker};
use crate::device::Device;
use crate::{Error, PendingWork};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A stream that threads share: every call takes a lock, while it submits and polls. A call whose
/// result does not come within about a microsecond gives the lock back and waits without it. A flush
/// waits for the calls that the stream has when it begins. Its [`Pending`](crate::Pending)s are
/// `Send` and own their share of it, so they move freely between threads and tasks.
#[derive(Clone)]
pub struct SharedStream {
    shared: Arc<SharedInner>,
}

struct SharedInner {
    device: Arc<Device>,
    queues: Arc<QueuePairs>,
    index: u32,
    /// There until the drop.
    submitter: Mutex<Option<Box<Submitter>>>,
    /// Runs the host functions.
    host_functions: Worker,
}

impl SharedStream {
    pub(crate) fn open(device: &Arc<Device>, queues: &Arc<QueuePairs>) -> Result<Self, Error> {
        let (device, queues) = (device.clone(), queues.clone());
        let (index, submitter) = queues.take(&device, User::Program)?;
        let submitter = Mutex::new(Some(submitter));
        let host_functions = Worker::new("hamr-host-fns");
        Ok(Self { shared: Arc::new(SharedInner { device, queues, index, submitter, host_functions }) })
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
        let site = WorkSite {
            device: device.name.clone(),
            stage: "running a host function",
            deadline: device.options.deadline,
        };
        let (stream, before) = (self.clone(), submit::calls_so_far(self));
        self.shared.host_functions.submit(site, move || {
            submit::wait_for(&stream, before).map_err(|stop| calls::stopped(stream.device(), WAITING, stop))?;
            Ok(f())
        })
    }

    call_methods!(self, Self, call: self, keep: self.clone(), open: Some(self));
}

impl Drop for SharedInner {
    fn drop(&mut self) {
        let submitter = self.submitter.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        self.queues.detach(&self.device, self.index, submitter);
    }
}

/// The lock of a shared stream.
pub struct Locked<'s>(MutexGuard<'s, Option<Box<Submitter>>>);

impl Deref for Locked<'_> {
    type Target = Submitter;
    #[inline(always)]
    fn deref(&self) -> &Submitter {
        there(self.0.as_deref())
    }
}

impl DerefMut for Locked<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Submitter {
        there(self.0.as_deref_mut())
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
        // A panic inside leaves the submitter consistent: it changes its state only in steps that
        // end consistent.
        Locked(self.shared.submitter.lock().unwrap_or_else(PoisonError::into_inner))
    }
    #[inline(always)]
    fn device(&self) -> &Device {
        &self.shared.device
    }
}
