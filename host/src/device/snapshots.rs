//! Replies of epochs that are over, for streams that have not read them yet: the next epoch wipes
//! the window.

use super::Device;
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::sync::Coherent;
use hamr_comm::abi::window::{Queue, Shared, Slot, Window};
use hamr_comm::am::{SlotAccess, Slots};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// The windows at the ends of epochs, and the epochs that submitters still read.
pub(crate) struct EpochSnapshots {
    kept: Mutex<Vec<Snapshot>>,
    /// Of each queue pair: the epoch that its submitter is in; 0: it has none, or nothing in
    /// flight.
    submitter_epochs: Box<[AtomicU32]>,
}

/// The window as it was when an epoch was over, up to its heap, which stays.
struct Snapshot {
    epoch: u32,
    window: Window<Shared>,
}

impl EpochSnapshots {
    pub(super) fn new(queues: u32) -> Self {
        Self { kept: Mutex::new(Vec::new()), submitter_epochs: (0..queues).map(|_| AtomicU32::new(0)).collect() }
    }

    fn is_wanted(&self, epoch: u32) -> bool {
        self.submitter_epochs.iter().any(|submitter| submitter.load(Ordering::Acquire) == epoch)
    }
}

impl Device {
    /// The submitter of a queue pair goes on in `epoch`; 0: in none.
    pub(crate) fn set_submitter_epoch(&self, queue: u32, epoch: u32) {
        if let Some(submitter) = self.snapshots.submitter_epochs.get(queue as usize) {
            submitter.store(epoch, Ordering::Release);
        }
    }

    /// The epoch `epoch` is over and the window about to be wiped: keeps what submitters may not
    /// have read.
    pub(super) fn take_snapshot(&self, epoch: u32) {
        // First: what is in flight in those queue pairs has its outcome then, and needs no
        // snapshot.
        self.poll_idle_queues();
        let mut kept = self.snapshots.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|end| self.snapshots.is_wanted(end.epoch));
        if !self.snapshots.is_wanted(epoch) || kept.iter().any(|end| end.epoch == epoch) {
            return;
        }
        let live = self.link.window();
        let (copied, layout) = (self.layout.without_heap(), &self.layout);
        let (host, front) = (layout.at_host(), copied.at_host());
        // Behind the replies, last before the heap, is what an adapter serves.
        let end = layout.section(SectionKind::VERBS).map_or(layout.heap().start, |verbs| verbs.off);
        let front = if host.is_empty() { 0..end } else { 0..front.end - front.start };
        let window = Window::private(copied.at_host().end.max(front.end)).share();
        let mut bytes = vec![0; front.end as usize];
        // The device may still be writing replies, and a copy takes the bytes of a slot in any
        // order. So a reply counts only if its word was there before the copy: the rest of the
        // reply was written before its word, and the copy has all of it (R2).
        let queues = || (0..self.layout.queues()).map(|index| self.queue_in(live, index));
        let answered: Vec<Vec<u32>> =
            queues().map(|queue| queue.iter().flat_map(slots).map(|slot| slot.rep_seq()).collect()).collect();
        let mut copy = |from, to| live.read_bytes(from, &mut bytes).and_then(|()| window.write_bytes(to, &bytes));
        // Both are as long: the layout was made for this window.
        if copy(0, 0).is_err() || !host.is_empty() && copy(host.start, copied.at_host().start).is_err() {
            return;
        }
        for (index, words) in (0..).zip(answered) {
            let queue = self.queue_in(&window, index);
            for (slot, word) in queue.iter().flat_map(slots).zip(words) {
                slot.publish_reply(slot.rep_hdr(), word);
            }
        }
        kept.push(Snapshot { epoch, window });
    }

    /// A queue pair in the window, or in a copy of it. Its offsets are from this host's own plan: a
    /// device may have overwritten those in the window.
    pub(crate) fn queue_in(&self, window: &Window<Shared>, index: u32) -> Option<Queue<Shared>> {
        // Only a copy may be shorter than what the host polls.
        let is_copy = window.len() < self.layout.at_host().end;
        let layout = if is_copy { self.layout.without_heap() } else { self.layout };
        let descriptor = layout.planned_queue(&self.options.plan(), index).ok()?;
        window.queue(&descriptor).ok()
    }

    /// Shows `what` the window as it was at the end of the epoch `epoch`; `None`: the window has
    /// not been wiped since, and is not before `what` returns.
    pub(crate) fn with_snapshot<R>(&self, epoch: u32, what: impl FnOnce(Option<&Window<Shared>>) -> R) -> R {
        let kept = self.locked(&self.snapshots.kept);
        let kept = kept.as_ref().map_or(&[][..], |kept| kept.as_slice());
        what(kept.iter().find(|end| end.epoch == epoch).map(|end| &end.window))
    }
}

/// Every slot of a queue pair.
pub(super) fn slots(queue: &Queue<Shared>) -> impl Iterator<Item = Slot<'_, Coherent>> {
    let ring = (0..queue.ring_len()).map(|i| queue.ring(i));
    let ticket_slot = (0..queue.ticket_slots()).filter_map(|i| queue.ticket_slot(i));
    std::iter::once(queue.hot()).chain(ring).chain(ticket_slot)
}

/// The same, in a ring what was submitted last before what was submitted before it.
pub(super) fn youngest_first(queue: &Queue<Shared>) -> impl Iterator<Item = Slot<'_, Coherent>> {
    // A ring is filled from its first slot on: another count than there is of the lap before (abi §4.1).
    let lap = queue.ring(0).req_seq();
    let of = move |is_last: bool| {
        (0..queue.ring_len()).rev().map(|i| queue.ring(i)).filter(move |slot| (slot.req_seq() == lap) == is_last)
    };
    let ticket_slot = (0..queue.ticket_slots()).filter_map(|i| queue.ticket_slot(i));
    of(true).chain(of(false)).chain(ticket_slot).chain(std::iter::once(queue.hot()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hamr_comm::abi::layout::{Layout, Plan};
    use hamr_comm::abi::slot::seq;

    /// Every fill of a ring, through its wraps: what was submitted last comes first.
    #[test]
    fn the_youngest_of_a_ring_come_first() {
        let window = Window::private(1 << 20).share();
        let layout = Layout::plan(&Plan { heap: 4096, ..Plan::NO_TASKS }).expect("allowed");
        let queue = window.queue(&layout.planned_queue(&Plan::NO_TASKS, 1).expect("there is one")).expect("inside");
        let len = queue.ring_len();
        for position in 0..3 * len {
            queue.ring(position).publish_request(position, seq(1, position / len + 1, 24));
            let marked: Vec<u32> = youngest_first(&queue).map(|slot| slot.req_hdr()).take(len as usize).collect();
            let submitted: Vec<u32> = (0..=position).rev().take(len as usize).collect();
            assert_eq!(marked[..submitted.len()], submitted);
        }
    }
}
