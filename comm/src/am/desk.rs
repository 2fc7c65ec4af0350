//! The control stream while a queued handler runs: lent to whoever interrupts the handler, who answers pings meanwhile.
//!
//! Only one of the two ever has the stream. The poller puts it down before the handler and takes it up after it, so a call that
//! is not queued costs nothing.

use super::{Responder, Waker};
use crate::Handler;
use crate::registry::{Table, ping};
use hamr_shared_abi::slot::{RepHdr, ReqHdr};
use hamr_shared_abi::status::Status;
use hamr_shared_abi::sync::{Coherent, Order};
use hamr_shared_abi::window::{KeptWord, Queue};
use spin::Mutex;

/// Pings answered in one go: an interrupt ends, whatever the host sends.
const BATCH: u32 = 16;

/// What [`Desk::serve`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lent {
    /// The stream is not here: no queued handler runs.
    No,
    /// It is.
    Yes,
    /// It is, and the host sleeps: ring it.
    Owed,
}

/// Where a poller leaves its control stream; a static of whoever has a tick.
pub struct Desk<K, F = Coherent>(Mutex<Option<Control<K, F>>>);

/// What answering a ping takes.
pub(super) struct Control<K, F> {
    pub(super) responder: Responder<Queue<K, F>>,
    pub(super) table: Table,
    /// Where the host says that it sleeps.
    pub(super) host: KeptWord<K>,
    pub(super) waker: Waker,
}

impl<K, F: Order> Desk<K, F> {
    /// One with nothing on it.
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Answers the pings that wait, if the stream is here.
    pub fn serve(&self) -> Lent {
        // Whoever has the lock was interrupted, or serves just now.
        let Some(mut lent) = self.0.try_lock() else { return Lent::No };
        match lent.as_mut().map(Control::serve) {
            None => Lent::No,
            Some(false) => Lent::Yes,
            Some(true) => Lent::Owed,
        }
    }

    pub(super) fn put(&self, control: Control<K, F>) {
        *self.0.lock() = Some(control);
    }

    pub(super) fn take(&self) -> Option<Control<K, F>> {
        self.0.lock().take()
    }
}

impl<K, F: Order> Default for Desk<K, F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, F: Order> Control<K, F> {
    fn serve(&mut self) -> bool {
        let answered = (0..BATCH).take_while(|_| self.serve_one()).count();
        answered != 0 && self.waker.look::<F>(self.host.word())
    }

    /// Anything but a plain ping waits for the poller, and so does what is behind it.
    fn serve_one(&mut self) -> bool {
        let Some(found) = self.responder.upcoming() else { return false };
        let line = self.responder.line(found.slot);
        let hdr = ReqHdr(line.req_hdr());
        let entry = self.table.get(usize::from(hdr.key().0));
        if !hdr.is_plain() || hdr.len() != size_of::<u64>() || entry.is_none_or(|entry| entry.id != ping::ID) {
            return false;
        }
        let mut token = [0];
        line.read_request(&mut token);
        line.write_reply(&token);
        line.publish_reply(RepHdr::inline(Status::OK, size_of_val(&token)).0, found.seq);
        self.responder.advance(found);
        true
    }
}
