//! The control stream while a task runs: the poller lends it to the tick that interrupts
//! the handler, and the tick publishes the replies to pings meanwhile.
//!
//! Only one of the two ever has the stream. The poller puts it into the hand-off before the handler
//! and takes it back after it, so a call that is not queued costs nothing.

use super::{Notifier, Responder, SlotAccess};
use crate::Handler;
use crate::registry::{Table, ping};
use hamr_shared_abi::slot::{RepHdr, ReqHdr};
use hamr_shared_abi::status::Status;
use hamr_shared_abi::sync::{Coherent, Order};
use hamr_shared_abi::window::{KeptWord, Queue};
use spin::Mutex;

/// Most pings answered by one tick: the interrupt ends, whatever the host sends.
const BATCH: u32 = 16;

/// What [`ControlHandoff::serve`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoanStatus {
    /// The stream is not here: no queued handler runs.
    No,
    /// It is.
    Yes,
    /// It is, and the host sleeps: notify it.
    NeedsNotify,
}

/// Where a poller leaves its control stream: a static of an image that has a tick.
pub struct ControlHandoff<K, F = Coherent>(Mutex<Option<LentControl<K, F>>>);

/// What a reply to a ping needs.
pub(super) struct LentControl<K, F> {
    pub(super) responder: Responder<Queue<K, F>>,
    pub(super) table: Table,
    /// The host's wait word: odd while the host sleeps.
    pub(super) host: KeptWord<K>,
    pub(super) notifier: Notifier,
}

impl<K, F: Order> ControlHandoff<K, F> {
    /// An empty hand-off.
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Publishes the replies to the pings that wait, if the stream is here.
    pub fn serve(&self) -> LoanStatus {
        // The owner of the lock was interrupted, or is serving at this moment.
        let Some(mut lent) = self.0.try_lock() else { return LoanStatus::No };
        match lent.as_mut().map(LentControl::serve) {
            None => LoanStatus::No,
            Some(false) => LoanStatus::Yes,
            Some(true) => LoanStatus::NeedsNotify,
        }
    }

    /// Leaves the stream here. `control` makes it in place: it is long.
    #[inline(always)]
    pub(super) fn put(&self, control: impl FnOnce() -> LentControl<K, F>) {
        let mut lent = self.0.lock();
        *lent = Some(control());
    }

    /// Takes the stream back, with how far it has come; it is as long as in `put`.
    #[inline(always)]
    pub(super) fn take(&self, to: &mut Responder<Queue<K, F>>) {
        let mut lent = self.0.lock();
        if let Some(control) = &*lent {
            to.go_on_from(&control.responder);
        }
        *lent = None;
    }
}

impl<K, F: Order> Default for ControlHandoff<K, F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, F: Order> LentControl<K, F> {
    fn serve(&mut self) -> bool {
        let answered = (0..BATCH).take_while(|_| self.serve_one()).count();
        answered != 0 && self.notifier.needs_notify::<F>(self.host.word())
    }

    /// Only plain pings are served. Any other message waits for the poller, and so do those behind
    /// it.
    fn serve_one(&mut self) -> bool {
        let Some(found) = self.responder.upcoming() else { return false };
        let slot = self.responder.slot(found.slot);
        let hdr = ReqHdr(slot.req_hdr());
        let entry = self.table.get(usize::from(hdr.key().0));
        if !hdr.is_plain() || hdr.len() != size_of::<u64>() || entry.is_none_or(|entry| entry.id != ping::ID) {
            return false;
        }
        let mut token = [0];
        slot.read_request(&mut token);
        slot.write_reply(&token);
        slot.publish_reply(RepHdr::inline(Status::OK, size_of_val(&token)).0, found.seq);
        self.responder.advance(found);
        true
    }
}
