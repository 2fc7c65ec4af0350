//! Bytes that MPI has, until it says that it is done with them.
//!
//! Contract "MPI": a request gets the memory of a `Vec` that its [`Operation`] owns. Nobody reads, writes, grows or frees that
//! `Vec` until the request is complete; an operation that is dropped before leaks it. Handles of MPI may be used by any thread,
//! one at a time: it was started with `MPI_THREAD_SERIALIZED` at least, and each use is under the lock of [`Job`](crate::Job).
#![expect(unsafe_code)]
// UNSAFETY: a request outlives the function that makes it, which no borrow can say.

use mpi::Tag;
use mpi::datatype::Equivalence;
use mpi::point_to_point::Status;
use mpi::request::{Request, StaticScope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Destination, Source};
use std::mem::{ManuallyDrop, forget};

/// The job's ranks, by messages that nobody else of this program sees.
pub(crate) struct Comm(pub(crate) SimpleCommunicator);

// SAFETY: what is not `Send` is the communicator's handle, which by the contract any thread may use under the job's lock, behind
// which this is.
unsafe impl Send for Comm {}

/// A message on its way.
pub(crate) struct Operation {
    /// `None`: it is over.
    request: Option<Request<'static, [u8]>>,
    /// Dropped nowhere but where it is over.
    bytes: ManuallyDrop<Vec<u8>>,
}

// SAFETY: what is not `Send` is the request's handle, which by the contract any thread may use under the job's lock; an operation
// is inside of what that lock guards.
unsafe impl Send for Operation {}

/// A message that has come.
pub(crate) struct Came {
    /// The buffer, longer than the message.
    pub(crate) bytes: Vec<u8>,
    /// The message's length.
    pub(crate) len: usize,
    /// Who sent it.
    pub(crate) from: i32,
}

impl Operation {
    /// Sends these bytes. `is_synchronous`: it is over only when the other end receives it.
    pub(crate) fn send(to: &impl Destination, tag: Tag, bytes: Vec<u8>, is_synchronous: bool) -> Self {
        let bytes = ManuallyDrop::new(bytes);
        // SAFETY: the pointer and the length are the `Vec`'s, whose bytes are initialised; by the contract they stay as and where
        // they are until the request is complete, and nothing uses the reference behind that.
        let lent: &'static [u8] = unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) };
        let request = match is_synchronous {
            true => to.immediate_synchronous_send_with_tag(StaticScope, lent, tag),
            false => to.immediate_send_with_tag(StaticScope, lent, tag),
        };
        Self { request: Some(request), bytes }
    }

    /// Receives the next message, which is at most as long as this buffer.
    pub(crate) fn receive(from: &impl Source, tag: Tag, bytes: Vec<u8>) -> Self {
        let mut bytes = ManuallyDrop::new(bytes);
        let (at, len) = (bytes.as_mut_ptr(), bytes.len());
        // SAFETY: as in `send`; and this is the only reference, since the `Vec` is not used until the request is complete.
        let lent: &'static mut [u8] = unsafe { std::slice::from_raw_parts_mut(at, len) };
        Self { request: Some(from.immediate_receive_into_with_tag(StaticScope, lent, tag)), bytes }
    }

    /// What came of it, with the bytes; or the operation again, while it is not over.
    pub(crate) fn test(mut self) -> Result<Came, Self> {
        match self.request.take().map(Request::test) {
            Some(Err(request)) => {
                self.request = Some(request);
                Err(self)
            }
            Some(Ok(status)) => Ok(self.over(&status)),
            None => Ok(Came { bytes: self.take(), len: 0, from: 0 }),
        }
    }

    /// Ends a receive for which nothing has come.
    pub(crate) fn cancel(mut self) {
        if let Some(request) = self.request.take() {
            request.cancel();
            let status = request.wait();
            drop(self.over(&status));
        }
    }

    fn over(&mut self, status: &Status) -> Came {
        let len = usize::try_from(status.count(u8::equivalent_datatype())).unwrap_or(0);
        Came { bytes: self.take(), len, from: status.source_rank() }
    }

    /// The bytes of one that is over.
    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut *self.bytes)
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        match self.request.take() {
            // MPI has the bytes still.
            Some(request) => forget(request),
            None => drop(self.take()),
        }
    }
}
