//! A stream that threads share.

use super::{Access, QueuePairs, Submitter, call_methods, there};
use crate::Error;
use crate::device::Device;
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
}

impl SharedStream {
    pub(crate) fn open(device: &Arc<Device>, queues: &Arc<QueuePairs>) -> Result<Self, Error> {
        let (device, queues) = (device.clone(), queues.clone());
        let (index, submitter) = queues.take(&device)?;
        let submitter = Mutex::new(Some(submitter));
        Ok(Self { shared: Arc::new(SharedInner { device, queues, index, submitter }) })
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
