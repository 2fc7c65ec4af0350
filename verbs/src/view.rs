//! Registered memory as references: views of a region that neither peers nor the host's program write.
//!
//! A view borrows the running handler's `Context` or `Task` exclusively, as one of the heap does. So whoever has a view can
//! neither post nor wait, and nothing is locked that an end of the task would leave behind. What was posted before is found
//! in the rings.

#![expect(unsafe_code)]
// UNSAFETY: references to memory that an adapter writes, and all that is written to it from here.
//
// Contract "registered memory". As long as a view of a range lives, nothing else writes the range, nor accesses it in this
// program if the view is one to write:
// - R1, handlers of this device: they access the section through a `Verbs<Side>` alone (`side::of` is unsafe and called
//   here only; nothing gives its `Side` on). That borrows what runs, which must be of a call of this device: a view borrows
//   the same exclusively. Handlers run on one thread, one at a time: another one runs when this one waits, which needs it,
//   or has ended, and then its view is not used any more.
// - R2, the adapter: it writes what a posted request names until it publishes the completion, and not later
//   (`hca/tests/remote.rs`, `Before`). The rings have all requests of which no completion was taken
//   (`MemoryRegion::is_written`), also those of an object that was given up without an answer. No other is posted (R1).
//   The adapter is trusted as the machine of a device is (`docs/security.md`), and so are its completions.
// - R3, peers: the region has no right for them to write.
// - R4, the host: `Region::put` refuses such a region, and its memory is not used for another one in this epoch. A program
//   that writes by another way (`Fabric::drive`, of the feature `testing`) is a peer that breaks the rules (`docs/unsafe.md`, "racing
//   copies").
// - R5: the memory is mapped for good; any bytes are a `T` (`Element`).

use crate::error::VerbsError;
use crate::ids::MrId;
use crate::verbs::Verbs;
use core::ops::Range;
use hamr_comm::Element;
use hamr_comm::abi::window::{Claim, ClaimError, Claimed};
use hamr_comm::side::{self, Running};

impl<'c> Verbs<'c> {
    /// The adapter of the device that runs a handler: of its [`hamr_comm::Context`] or [`hamr_comm::Task`].
    ///
    /// # Errors
    /// The device has none in this epoch.
    pub fn of(running: &'c impl Running) -> Result<Self, VerbsError> {
        // SAFETY: R1. Through `Verbs` programs write to regions and post requests; the rest is of this crate's own words.
        let side = unsafe { side::of(running) }.ok_or(VerbsError::NoFabric)?;
        Self::over(side, side.words(), side.node().0, side.epoch().0)
    }

    /// Bytes `range` of a region that was registered with [`Access::VIEW`](crate::wire::Access::VIEW), as elements to read,
    /// without a copy.
    ///
    /// ```
    /// # use hamr_comm::{Context, Fault};
    /// # use hamr_verbs::{CqId, MrId, Verbs};
    /// fn sum(cx: &mut Context, cq: CqId, region: MrId) -> Result<Option<u64>, Fault> {
    ///     let Some(done) = Verbs::of(cx)?.completion_queue(cq)?.poll()? else { return Ok(None) };
    ///     let came = Verbs::view::<u32>(cx, region, 0..done.bytes.into())?;
    ///     Ok(Some(came.iter().map(|value| u64::from(*value)).sum()))
    /// }
    /// ```
    ///
    /// What a message, READ or atomic access has brought is there when its completion was taken. As long as the view lives,
    /// the handler neither posts nor polls,
    ///
    /// ```compile_fail,E0502
    /// # use hamr_comm::{Context, Fault};
    /// # use hamr_verbs::{MrId, QpId, SendWr, Verbs};
    /// fn send(cx: &mut Context, qp: QpId, region: MrId) -> Result<u8, Fault> {
    ///     let came = Verbs::view::<u8>(cx, region, 0..64)?;
    ///     Verbs::of(cx)?.queue_pair(qp)?.post(&SendWr::inline(1, &[]))?;
    ///     Ok(came[0])
    /// }
    /// ```
    ///
    /// nor does it wait, so that no other handler of the device runs:
    ///
    /// ```compile_fail,E0502
    /// # use hamr_comm::{Fault, Task};
    /// # use hamr_verbs::{MrId, Verbs};
    /// fn wait(task: &mut Task, region: MrId) -> Result<u8, Fault> {
    ///     let came = Verbs::view::<u8>(task, region, 0..64)?;
    ///     task.yield_now()?;
    ///     Ok(came[0])
    /// }
    /// ```
    ///
    /// Each view reads a line or two of each request that is posted.
    ///
    /// # Errors
    /// [`VerbsError::Busy`]: a request of any handler may still write there, because it has not completed or its completion
    /// was not taken. [`VerbsError::NoViews`], [`VerbsError::Stale`]; [`VerbsError::Length`] of a range that leaves the
    /// region, or is no whole number of elements at their alignment; as of [`Self::of`].
    pub fn view<T: Element>(running: &mut impl Running, region: MrId, range: Range<u64>) -> Result<&[T], VerbsError> {
        Ok(claim(running, region, range, false)?.shared()?)
    }

    /// [`Self::view`], to write. What is being sent from there is garbled; what is posted behind it has the new bytes. There is
    /// one view at a time:
    ///
    /// ```compile_fail,E0499
    /// # use hamr_comm::{Context, Fault};
    /// # use hamr_verbs::{MrId, Verbs};
    /// fn twice(cx: &mut Context, region: MrId) -> Result<(), Fault> {
    ///     let a = Verbs::view_mut::<u8>(cx, region, 0..64)?;
    ///     let b = Verbs::view_mut::<u8>(cx, region, 0..64)?;
    ///     a[0] = b[0];
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// As of [`Self::view`].
    pub fn view_mut<T: Element>(
        running: &mut impl Running,
        region: MrId,
        range: Range<u64>,
    ) -> Result<&mut [T], VerbsError> {
        Ok(claim(running, region, range, true)?.exclusive()?)
    }
}

/// A range of a region that nothing else writes, for as long as nothing runs but who has it.
fn claim<'v, R: Running>(
    running: &'v mut R,
    id: MrId,
    range: Range<u64>,
    writable: bool,
) -> Result<Claimed<'v>, VerbsError> {
    let verbs = Verbs::of(&*running)?;
    let region = verbs.region(id)?;
    let (off, bytes) = region.viewed(range)?;
    // SAFETY: R1 by the borrow for 'v; R2, R3, R4 by `viewed`, and because the object is of this device and epoch.
    Ok(unsafe { verbs.memory.claim(Claim { off, bytes, writable }) }?)
}

impl From<ClaimError> for VerbsError {
    fn from(_: ClaimError) -> Self {
        Self::Length
    }
}
