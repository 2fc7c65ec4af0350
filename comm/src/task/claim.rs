//! Claims: buffers and resources that a task keeps for itself across its waits (`docs/tasks.md`).
//!
//! Views die at a wait, so memory is sound without them: a claim keeps the handlers of others from
//! what its task has not finished with. `claims` is the list of all.

use super::Task;
use crate::claims::{self, Owner};
use crate::context::ViewSet;
use crate::fault::Fault;
use crate::resource::{self, Resource};
use core::marker::PhantomData;
use core::panic::Location;

/// Buffers or a resource that other handlers of the device cannot use while this value and its task live;
/// see [`Task::claim`] and [`Task::claim_resource`].
#[must_use = "the claim ends with this value"]
pub struct Claim<'t> {
    /// The numbers of its ranges in the list.
    ranges: heapless::Vec<u16, 6>,
    resource: Option<resource::Claimed<'t>>,
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
    ///     task.sleep(core::time::Duration::from_micros(10))?;
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
    /// other's end, which may wait for this one. On bare metal no more ranges are claimed at a time than
    /// the image has (`image!(claims = …)`).
    #[track_caller]
    pub fn claim<V: ViewSet>(&self, set: V) -> Result<Claim<'t>, Fault> {
        let line = Location::caller().line();
        let mut claim = Claim { ranges: heapless::Vec::new(), resource: None, _task: PhantomData };
        // No code of the program runs in here: sets of views are the library's alone.
        self.lent(|slice| -> Result<(), Fault> {
            let owner = Owner { heap: &slice.cx.heap, place: slice.place, slot: slice.slot, line };
            for range in set.ranges(&slice.cx)?.into_iter().filter(|range| range.bytes != 0) {
                // A set has no more of them.
                let _ = claim.ranges.push(owner.claim(range)?);
            }
            Ok(())
        })?;
        Ok(claim)
    }

    /// Keeps a resource for this task as long as the result lives, also across waits. Meanwhile only this
    /// task uses it, by `with`, as before; other handlers are refused with
    /// [`RESOURCE_BUSY`](hamr_shared_abi::status::Status::RESOURCE_BUSY), which names the task and the
    /// line of the claim. The state is not borrowed across a wait:
    ///
    /// ```
    /// # use hamr_comm::{Fault, Resource, Task};
    /// static LEVELS: Resource<[u32; 2]> = Resource::new([0; 2]);
    /// fn move_one(task: &mut Task) -> Result<(), Fault> {
    ///     let _mine = task.claim_resource(&LEVELS)?;
    ///     task.with(&LEVELS, |levels| levels[0] -= 1)?;
    ///     task.sleep(core::time::Duration::from_micros(10))?; // others run, but none sees what is half done
    ///     task.with(&LEVELS, |levels| levels[1] += 1)
    /// }
    /// ```
    ///
    /// A task that ends with the claim, by a fault or with its epoch, poisons the resource.
    ///
    /// # Errors
    /// The resource is poisoned, in use or claimed, also by this task; or as of [`Self::claim`].
    #[track_caller]
    pub fn claim_resource<T>(&self, resource: &'t Resource<T>) -> Result<Claim<'t>, Fault> {
        let line = Location::caller().line();
        let mut ranges = heapless::Vec::new();
        let resource = self.lent(|slice| {
            let owner = Owner { heap: &slice.cx.heap, place: slice.place, slot: slice.slot, line };
            let (number, claimed) = resource.claim(&owner)?;
            let _ = ranges.push(number);
            Ok::<_, Fault>(claimed)
        })?;
        Ok(Claim { ranges, resource: Some(resource), _task: PhantomData })
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        claims::remove(&self.ranges, || {
            if let Some(resource) = &self.resource {
                resource.end();
            }
        });
    }
}
