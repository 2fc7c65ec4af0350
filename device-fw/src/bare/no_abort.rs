//! The no-abort section: pieces of the runtime that handlers run, and that must not be left in their middle.

use super::runtime::RUNTIME;
use core::sync::atomic::Ordering;

/// The word of a call, or of the runtime while none runs. Never zero; a call has the word of the 2^31st call before it.
fn of(call: Option<u32>) -> u32 {
    call.map_or(2, |serial| serial << 1 | 1)
}

/// While it lives no runaway is ended: for pieces of the runtime that handlers run, and that hold what must not be left behind.
/// The verdict comes with a later tick. A fault while it lives leaves the runtime broken: the image restarts.
///
/// It counts for the call that made it. One that is forgotten ([`core::mem::forget`]) is void when that call is over.
#[must_use = "it holds as long as it lives"]
pub struct NoAbort {
    /// Who held it before: this call, further out, or nobody.
    before: u32,
}

impl NoAbort {
    /// From here on.
    #[inline(never)]
    pub fn begin() -> Self {
        let holder = of(RUNTIME.running());
        // Two steps, since not every processor has one for both: only interrupts come between, and they put back what they found.
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

/// Does `call` hold the mark, or the runtime while no call runs?
pub(super) fn is_held(call: Option<u32>) -> bool {
    RUNTIME.marked.load(Ordering::Acquire) == of(call)
}

/// What `call` did is over: nobody holds the mark. Did it?
pub(super) fn take(call: Option<u32>) -> bool {
    RUNTIME.marked.swap(0, Ordering::AcqRel) == of(call)
}
