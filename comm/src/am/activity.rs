//! The call that is running, as a timer's interrupt or a signal may see it.

use super::Found;
use core::sync::atomic::{AtomicU32, Ordering};

/// The number of the last call of the pollers that have ended, or that had a call abandoned.
static COUNTED: AtomicU32 = AtomicU32::new(0);

/// A slot number is below 2^18.
const SLOT_BITS: u32 = 18;

/// What a poller is doing. The poller writes it at every call, so these are plain stores of words.
/// An interrupt handler of the same processor reads it, and other threads read it as a hint.
#[derive(Debug, Default)]
pub struct Activity {
    /// Queue pair + 1 above [`SLOT_BITS`], slot below; zero: no call runs.
    at: AtomicU32,
    /// The word of the call's request.
    seq: AtomicU32,
    /// Counts calls.
    serial: AtomicU32,
    /// Of the running call; zero: none.
    deadline_us: AtomicU32,
}

impl Activity {
    /// Queue numbers are below this.
    pub(super) const QUEUES: usize = (1 << (32 - SLOT_BITS)) - 1;

    /// The activity of a new poller: nothing runs, and its count of calls goes on from earlier
    /// epochs. No number comes twice within 2^32 calls of an image, because the numbers identify
    /// calls to the code that watches them.
    pub(super) fn new() -> Self {
        Self::after(COUNTED.load(Ordering::Acquire))
    }

    /// The poller ends, or goes on after a call that was abandoned: the next numbers continue from
    /// here.
    pub(super) fn keep_count(&self) {
        COUNTED.store(self.last(), Ordering::Release);
    }

    /// Nothing runs; the next call's number follows `serial`.
    fn after(serial: u32) -> Self {
        Self { serial: AtomicU32::new(serial), ..Self::default() }
    }

    /// A call begins.
    #[inline(always)]
    pub(super) fn begin(&self, queue: u32, found: Found) {
        let serial = self.serial.load(Ordering::Relaxed).wrapping_add(1);
        self.serial.store(serial, Ordering::Relaxed);
        self.seq.store(found.seq, Ordering::Relaxed);
        self.at.store((queue + 1) << SLOT_BITS | found.slot, Ordering::Relaxed);
    }

    /// The call is over or abandoned. From here on it cannot be ended: its reply is being written.
    #[inline(always)]
    pub(super) fn end(&self) {
        self.at.store(0, Ordering::Relaxed);
    }

    /// Sets the time limit of a call before it begins; 0 after it.
    pub(super) fn limit(&self, deadline_us: u32) {
        self.deadline_us.store(deadline_us, Ordering::Relaxed);
    }

    pub(super) fn current(&self) -> Option<(usize, Found)> {
        let at = self.at.load(Ordering::Relaxed);
        let queue = (at >> SLOT_BITS).checked_sub(1)?;
        Some((queue as usize, Found { slot: at & ((1 << SLOT_BITS) - 1), seq: self.seq.load(Ordering::Relaxed) }))
    }

    /// The number of the last call that began.
    pub(super) fn last(&self) -> u32 {
        self.serial.load(Ordering::Relaxed)
    }

    /// The number of the running call, if one runs.
    pub fn running(&self) -> Option<u32> {
        (self.at.load(Ordering::Relaxed) != 0).then(|| self.last())
    }

    /// What the running call may take, in microseconds (abi §5.4); `None` without limit.
    pub fn deadline_us(&self) -> Option<u32> {
        Some(self.deadline_us.load(Ordering::Relaxed)).filter(|us| *us != 0)
    }

    /// The same as if a call of this number with this limit ran, for tests of the search for
    /// runaways.
    #[doc(hidden)]
    pub fn for_tests(call: Option<(u32, Option<u32>)>) -> Self {
        let Some((serial, limit_us)) = call else { return Self::default() };
        let activity = Self::after(serial.wrapping_sub(1));
        activity.limit(limit_us.unwrap_or(0));
        activity.begin(0, Found { slot: 0, seq: 1 });
        activity
    }
}
