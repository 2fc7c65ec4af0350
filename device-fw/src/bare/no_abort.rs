//! The no-abort section: a handler that runs code of the runtime in one is not aborted there,
//! because that code must not stop in its middle.

use super::runtime::RUNTIME;
use core::sync::atomic::Ordering;

/// The word that marks a section of `call`, or of the runtime while no call runs. Never zero; a
/// call has the word of the 2^31st call before it.
fn of(call: Option<u32>) -> u32 {
    call.map_or(2, |serial| serial << 1 | 1)
}

/// While it exists no runaway is aborted: for code of the runtime that handlers run and that must
/// not be abandoned, for example with a lock taken. A later tick aborts the runaway. After a fault
/// in the section the runtime is broken: the image restarts.
///
/// It protects the call that made it, in a task until its next wait. One that is forgotten
/// ([`core::mem::forget`]) has no effect once that call is over.
#[must_use = "the section ends when this is dropped"]
pub struct NoAbort {
    /// The mark before: of an outer section of this call, or none.
    before: u32,
}

impl NoAbort {
    /// Begins a section.
    #[inline(never)]
    pub fn begin() -> Self {
        let holder = of(RUNTIME.running());
        // A load and a store, since not every processor has one instruction for both: only
        // interrupts come between, and they restore the mark that they found.
        let before = RUNTIME.marked.load(Ordering::Relaxed);
        RUNTIME.marked.store(holder, Ordering::Release);
        Self { before }
    }
}

impl Drop for NoAbort {
    fn drop(&mut self) {
        RUNTIME.marked.store(self.before, Ordering::Release);
    }
}

/// Is `call`, or the runtime while no call runs, in a section?
pub(super) fn is_held(call: Option<u32>) -> bool {
    RUNTIME.marked.load(Ordering::Acquire) == of(call)
}

/// Clears the mark, because `call` is over. Was it in a section?
pub(super) fn take(call: Option<u32>) -> bool {
    RUNTIME.marked.swap(0, Ordering::AcqRel) == of(call)
}
