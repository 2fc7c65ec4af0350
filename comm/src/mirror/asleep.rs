//! How a side sleeps, and wakes the owner of its copy (abi §7).

use super::Lost;
use crate::am::{Notifier, WaitWord, Waiter};
use alloc::boxed::Box;
use alloc::vec::Vec;
use hamr_shared_abi::ids::Epoch;
use hamr_shared_abi::sync::{Coherent, Order};
use hamr_shared_abi::window::Window;

/// Notifies the owner of a copy.
pub type NotifyOwner = Box<dyn FnMut() + Send>;

/// The wait words of a copy, from its side. Without a doorbell the owner is not notified, and does not notify.
pub(super) struct Asleep {
    notify: Option<NotifyOwner>,
    waiter: Waiter,
    notifier: Notifier,
    /// The last value in the wait words of host queues that this side looks at.
    queues: u32,
    /// Something was put since the owner was notified.
    is_new: bool,
    /// Wait words of host queues in which something was put since.
    put: Vec<u64>,
}

impl Asleep {
    /// A value of wait words in an offer: odd.
    const FIRST: u32 = 1;

    pub(super) fn new() -> Self {
        let (waiter, notifier) = (Waiter::new(), Notifier::new());
        Self { notify: None, waiter, notifier, queues: Self::FIRST, is_new: false, put: Vec::new() }
    }

    pub(super) fn use_doorbell(&mut self, notify: NotifyOwner) {
        self.notify = Some(notify);
    }

    pub(super) fn has_doorbell(&self) -> bool {
        self.notify.is_some()
    }

    /// The copy is laid out for another epoch.
    pub(super) fn enter(&mut self, epoch: Epoch) {
        self.waiter = Waiter::of_epoch(epoch);
        self.notifier.enter();
        self.put.clear();
    }

    /// Something was put into the copy: in a host queue with this wait word, or elsewhere.
    pub(super) fn note(&mut self, queue: Option<u64>) {
        self.is_new = true;
        if let Some(word) = queue.filter(|word| !self.put.contains(word)) {
            self.put.push(word);
        }
    }

    /// Is the owner to be notified, where it sleeps?
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// The wait words of host queues in which something was put since.
    pub(super) fn put_in(&self) -> impl Iterator<Item = u64> {
        self.put.iter().copied()
    }

    /// Rule 22, for the owner whose wait word is at `peer`.
    pub(super) fn notify<K>(&mut self, window: &Window<K>, peer: u64) -> Result<(), Lost> {
        if !core::mem::take(&mut self.is_new) {
            return Ok(());
        }
        let mut must = self.notifier.needs_notify::<Coherent>(window.word(peer)?);
        for word in self.put.drain(..) {
            must |= window.word(word)?.is_odd();
        }
        if let Some(notify) = self.notify.as_mut().filter(|_| must) {
            notify();
        }
        Ok(())
    }

    /// Rule 23: odd values in the side's own wait word, and in those of host queues.
    pub(super) fn prepare_wait<K>(&mut self, window: &Window<K>, own: u64, queues: impl Iterator<Item = u64>) {
        // A fresh one for each sleep: a CANCEL is told for the value that its request was told for no more.
        self.queues = self.queues.wrapping_add(2);
        for word in queues {
            if let Ok(word) = window.word(word) {
                word.store(self.queues);
            }
        }
        match window.word(own) {
            Ok(own) => self.waiter.prepare_wait::<Coherent>(own),
            Err(_) => Coherent::full(),
        }
    }

    pub(super) fn cancel_wait<K>(&mut self, window: &Window<K>, own: u64) {
        if let Ok(own) = window.word(own) {
            self.waiter.cancel_wait(own);
        }
    }
}
