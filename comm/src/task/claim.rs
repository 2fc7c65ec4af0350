//! Claims: buffers that a task keeps for itself across its waits (`docs/tasks.md`).
//!
//! Views die at a wait, so memory is sound without them: a claim keeps the handlers of others from a
//! buffer that its task has not finished with. `claims` is the list of all.

use super::Task;
use crate::claims;
use crate::context::ViewSet;
use crate::fault::Fault;
use core::marker::PhantomData;
use core::panic::Location;

/// Buffers that other handlers of the device cannot use while this value and its task live; see
/// [`Task::claim`].
#[must_use = "the claim ends with this value"]
pub struct Claim<'t> {
    /// Bit i: range i of the list.
    ranges: u32,
    /// Dropped by the thread that runs the task, before the task ends.
    _task: PhantomData<(&'t (), *mut ())>,
}

static_assertions::assert_not_impl_any!(Claim<'static>: Send, Sync);

impl<'t> Task<'t> {
    /// Keeps buffers for this task as long as the result lives, also across waits:
    ///
    /// ```
    /// # use hamr_comm::{BufferPtr, Fault, Task};
    /// fn smooth(task: &mut Task, x: BufferPtr<f64>) -> Result<(), Fault> {
    ///     let _mine = task.claim((x.write(),))?;
    ///     for _ in 0..100 {
    ///         for x in task.view_mut(x)? {
    ///             *x /= 2.0;
    ///         }
    ///         task.yield_now()?; // others run, but none sees what is half done
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// Views, copies, words and claims of them by other handlers of the device are refused with
    /// [`BUFFER_BUSY`](hamr_shared_abi::status::Status::BUFFER_BUSY), which names the task and the line
    /// of the claim; of those claimed to be read, only what may write. This task uses them as before:
    /// its views die at a wait, claimed or not. An empty buffer is no claim.
    ///
    /// ```compile_fail,E0502
    /// # use hamr_comm::{BufferPtr, Fault, Task};
    /// fn sum(task: &mut Task, x: BufferPtr<u64>) -> Result<u64, Fault> {
    ///     let _mine = task.claim((x.read(),))?;
    ///     let x = task.view(x)?;
    ///     task.sleep(10)?;
    ///     Ok(x.iter().sum())
    /// }
    /// ```
    ///
    /// A claim ends with its task at the latest, and does not leave it:
    ///
    /// ```compile_fail
    /// # use hamr_comm::{BufferPtr, Claim, Fault, Resource, Task};
    /// static KEPT: Resource<Option<Claim<'static>>> = Resource::new(None);
    /// fn keep(task: &mut Task, x: BufferPtr<u64>) -> Result<(), Fault> {
    ///     let mine = task.claim((x.read(),))?;
    ///     task.with(&KEPT, |kept| *kept = Some(mine))
    /// }
    /// ```
    ///
    /// # Errors
    /// A buffer is not in this device's heap, or another task has claimed it: there is no wait for the
    /// other's end, which may wait for this one. 32 ranges are claimed on the devices of this program.
    #[track_caller]
    pub fn claim<V: ViewSet>(&self, set: V) -> Result<Claim<'t>, Fault> {
        let line = Location::caller().line();
        let ranges = self.lent(|slice| -> Result<u32, Fault> {
            let mut ranges = 0;
            for range in set.ranges(&slice.cx)?.into_iter().filter(|range| range.bytes != 0) {
                match claims::add(&slice.cx.heap, range, (slice.place, slice.slot), line) {
                    Ok(added) => ranges |= added,
                    Err(fault) => {
                        claims::remove(ranges);
                        return Err(fault);
                    }
                }
            }
            Ok(ranges)
        })?;
        Ok(Claim { ranges, _task: PhantomData })
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        claims::remove(self.ranges);
    }
}
