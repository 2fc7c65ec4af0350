//! A stream that threads share.

use super::{Access, Owned, QueuePairs, Submitter, call_methods, there};
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
    owned: Mutex<Owned>,
}

impl SharedStream {
    pub(crate) fn open(device: &Arc<Device>, queues: &Arc<QueuePairs>) -> Result<Self, Error> {
        let owned = Owned::open(device, queues)?;
        Ok(Self { shared: Arc::new(SharedInner { device: owned.device.clone(), owned: Mutex::new(owned) }) })
    }

    call_methods!(self, Self, call: self, keep: self.clone(), open: Some(self));
}

/// The lock of a shared stream, and the submitter behind it.
pub struct Locked<'s> {
    owned: MutexGuard<'s, Owned>,
    /// There until the drop.
    submitter: Option<Box<Submitter>>,
}

impl Deref for Locked<'_> {
    type Target = Submitter;
    #[inline(always)]
    fn deref(&self) -> &Submitter {
        there(self.submitter.as_deref())
    }
}

impl DerefMut for Locked<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Submitter {
        there(self.submitter.as_deref_mut())
    }
}

impl Drop for Locked<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.owned.submitter.set(self.submitter.take());
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
        let owned = self.shared.owned.lock().unwrap_or_else(PoisonError::into_inner);
        let submitter = owned.submitter.take();
        Locked { owned, submitter }
    }
    #[inline(always)]
    fn device(&self) -> &Device {
        &self.shared.device
    }
}
