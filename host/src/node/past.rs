//! Answers of lives that are over, for streams that have not read them yet: the next epoch wipes the window.

use super::Inner;
use hamr_comm::abi::section::SectionKind;
use hamr_comm::abi::sync::Coherent;
use hamr_comm::abi::window::{Line, Queue, Shared, Window};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// The ends of lives, and who must still look at them.
pub(crate) struct Pasts {
    ends: Mutex<Vec<End>>,
    /// Of each queue pair: the epoch that its engine is in; 0: it has none, or nothing in flight.
    engines: Box<[AtomicU32]>,
}

/// The window as it was when a life was over, up to its heap, which stays.
struct End {
    epoch: u32,
    window: Window<Shared>,
}

impl Pasts {
    pub(super) fn new(queues: u32) -> Self {
        Self { ends: Mutex::new(Vec::new()), engines: (0..queues).map(|_| AtomicU32::new(0)).collect() }
    }

    fn is_wanted(&self, epoch: u32) -> bool {
        self.engines.iter().any(|engine| engine.load(Ordering::Acquire) == epoch)
    }
}

impl Inner {
    /// The engine of a queue pair goes on in `epoch`; 0: in none.
    pub(crate) fn engine_is_in(&self, queue: u32, epoch: u32) {
        if let Some(engine) = self.pasts.engines.get(queue as usize) {
            engine.store(epoch, Ordering::Release);
        }
    }

    /// The life `epoch` is over and the window about to be wiped: keeps what engines may not have read.
    pub(super) fn keep_answers(&self, epoch: u32) {
        // Engines without a stream have nobody else to look.
        self.reap_idle_queues();
        let mut ends = self.pasts.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.retain(|end| self.pasts.is_wanted(end.epoch));
        let Ok(heap) = self.layout.section(SectionKind::HEAP) else { return };
        if !self.pasts.is_wanted(epoch) || ends.iter().any(|end| end.epoch == epoch) {
            return;
        }
        let live = self.link.window();
        let window = Window::private(heap.off).share();
        let mut bytes = vec![0; heap.off as usize];
        // The device may be answering still, and a copy takes the bytes of a line in any order: an answer counts if it was there
        // before, and what it says lies behind its word, so that the copy has all of it (R2).
        let queues = || (0..self.layout.queues()).map(|index| self.queue_in(live, index));
        let answered: Vec<Vec<u32>> =
            queues().map(|queue| queue.iter().flat_map(lines).map(|line| line.rep_seq()).collect()).collect();
        // Both are as long: the layout was made for this window.
        let copied = live.read_bytes(0, &mut bytes).and_then(|()| window.write_bytes(0, &bytes));
        if copied.is_err() {
            return;
        }
        for (index, words) in (0..).zip(answered) {
            let queue = self.queue_in(&window, index);
            for (line, word) in queue.iter().flat_map(lines).zip(words) {
                line.publish_reply(line.rep_hdr(), word);
            }
        }
        ends.push(End { epoch, window });
    }

    /// A queue pair in the window, or in a copy of it. Where it is, this host has planned: what the window says of that, a device may
    /// have written.
    pub(crate) fn queue_in(&self, window: &Window<Shared>, index: u32) -> Option<Queue<Shared>> {
        let descriptor = self.layout.planned_queue(&self.options.plan(), index).ok()?;
        window.queue(&descriptor).ok()
    }

    /// Shows `what` the window as it was at the end of the life `epoch`; `None`: the window has not been wiped since, and is not
    /// before `what` returns.
    pub(crate) fn at_the_end_of<R>(&self, epoch: u32, what: impl FnOnce(Option<&Window<Shared>>) -> R) -> R {
        let ends = self.pasts.ends.lock().unwrap_or_else(PoisonError::into_inner);
        what(ends.iter().find(|end| end.epoch == epoch).map(|end| &end.window))
    }
}

/// Every line of a queue pair.
pub(super) fn lines(queue: &Queue<Shared>) -> impl Iterator<Item = Line<'_, Coherent>> {
    let ring = (0..queue.ring_len()).map(|i| queue.ring(i));
    let side = (0..queue.side_len()).filter_map(|i| queue.side(i));
    std::iter::once(queue.hot()).chain(ring).chain(side)
}
