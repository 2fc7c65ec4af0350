//! Tasks: handlers that may wait (`docs/tasks.md`).
//!
//! A task runs on a stack of its own. Each of its waits suspends it, and the serve loop goes on: it
//! serves the other streams and resumes the task when what it waits for is there. `switch` is that
//! switch of stacks, `wait` what a task waits for; `am/task_slot.rs` is a task's place in the device,
//! and the poller runs it (`am/poller/tasks.rs`).

#[cfg(all(feature = "tasks", feature = "claims"))]
mod claim;
#[cfg(feature = "world")]
mod direct;
#[cfg_attr(not(feature = "world"), path = "unshown.rs")]
mod shown;
#[cfg_attr(not(feature = "tasks"), path = "absent.rs")]
pub(crate) mod switch;
pub(crate) mod wait;

#[cfg(all(feature = "tasks", feature = "claims"))]
pub use claim::Claim;
#[cfg(feature = "world")]
pub(crate) use direct::DirectCalls;
pub(crate) use shown::{Place, Reason};
#[cfg(feature = "tasks")]
pub use switch::TaskStack;
pub(crate) use wait::{Answer, Marks};
pub use wait::{Interrupted, Target};

use crate::buffer::{BufferPtr, Element};
use crate::context::{Context, ViewSet};
use crate::fault::Fault;
use crate::frame::{Arguments, Frame, Reply};
use crate::migrate::{Malformed, Migratable};
use crate::resource::Resource;
use core::cell::Cell;
use core::time::Duration;
#[cfg(all(feature = "tasks", not(hamr_bare)))]
use hamr_shared_abi::ids::HandlerKey;
use hamr_shared_abi::ids::{Isa, NodeId};
use hamr_shared_abi::task_line::WaitKind;
use hamr_shared_abi::window::{LentHeap, Words};
use switch::Suspender;
use wait::{NEVER, Wait};

/// Handed to every task as its first argument.
///
/// A wait needs `&self`. What borrows the task mutably, such as a view of a buffer or the state of a
/// [`Resource`], therefore ends before the next wait:
///
/// ```compile_fail,E0502
/// # use hamr_comm::{BufferPtr, Fault, Task};
/// fn sum(task: &mut Task, x: BufferPtr<u64>) -> Result<u64, Fault> {
///     let x = task.view(x)?;
///     task.sleep(core::time::Duration::from_micros(10))?; // others may write the buffer meanwhile
///     Ok(x.iter().sum())
/// }
/// ```
pub struct Task<'t> {
    suspender: Suspender<'t>,
    /// The earliest of `limits`, or [`NEVER`].
    until: Cell<u64>,
    /// The times at which [`Self::within`] ends waits; `None` before the first.
    limits: Cell<Option<Limits>>,
    /// The handler that it called last, its key there and the longest arguments: neither changes in an epoch, which no
    /// task outlasts.
    #[cfg(all(feature = "tasks", not(hamr_bare)))]
    pub(crate) callee: Cell<Option<(wait::Callee, HandlerKey, usize)>>,
}

static_assertions::assert_not_impl_any!(Task<'static>: Send, Sync);

/// What the root of a task's stack calls: decodes, runs, encodes.
pub type TaskThunk = for<'a, 't> fn(&'a mut Task<'t>) -> Reply;

/// What the serve loop lends to a task for one slice: from a resume to the next wait.
#[cfg_attr(not(feature = "tasks"), expect(dead_code, reason = "no task has one"))]
pub(crate) struct Slice<'a> {
    pub(crate) cx: Context<'a>,
    pub(crate) frame: Frame<'a>,
    /// The arguments, in the first slice until they are decoded.
    pub(crate) args: Option<Arguments<'a>>,
    /// What the first slice runs.
    pub(crate) start: TaskThunk,
    /// Microseconds.
    pub(crate) clock: &'a mut dyn FnMut() -> u64,
    /// Why the task's waits end at once.
    pub(crate) interrupted: Option<Interrupted>,
    /// What the task asked for when it suspended.
    pub(crate) answer: Answer,
    pub(crate) marks: Marks,
    /// The task's place.
    #[cfg(all(feature = "tasks", feature = "claims"))]
    pub(crate) place: usize,
    /// The address of its `TaskSlot`.
    #[cfg(all(feature = "tasks", feature = "claims"))]
    pub(crate) slot: usize,
    /// Looks at what a rank is about to publish, before the task suspends.
    #[cfg(feature = "world")]
    pub(crate) looks: u32,
    /// Makes calls of a task that is alone.
    #[cfg(feature = "world")]
    pub(crate) direct: Option<&'a mut (dyn DirectCalls + 'a)>,
    /// What the wait that ended the slice is for.
    pub(crate) reason: Option<Reason>,
}

/// Limits of a task that last at a time, each in an element of its own; of more, the others share the last. The last
/// has what it had before when they end in the reverse order, else they end together.
const MOST_LIMITS: usize = 4;

/// The times at which values of [`Within`] end waits, or [`NEVER`].
#[derive(Clone, Copy)]
struct Limits {
    at: [u64; MOST_LIMITS],
    /// Values that have the last.
    shared: u32,
    /// No number of those that last is higher.
    newest: u32,
}

/// One of [`Limits`].
#[derive(Clone, Copy)]
struct Limit {
    index: usize,
    /// What its element had before.
    before: u64,
    /// Of those that share the last, from 1 on.
    number: u32,
}

impl Limits {
    const NONE: Self = Self { at: [NEVER; MOST_LIMITS], shared: 0, newest: 0 };

    fn add(&mut self, limit: u64) -> Limit {
        let free = self.at.iter().take(MOST_LIMITS - 1).position(|at| *at == NEVER);
        if free.is_none() {
            self.shared += 1;
            self.newest += 1;
        }
        let index = free.unwrap_or(MOST_LIMITS - 1);
        let before = self.at.get(index).copied().unwrap_or(NEVER);
        self.set(index, limit.min(before));
        Limit { index, before, number: self.newest }
    }

    fn end(&mut self, limit: Limit) {
        let mut before = limit.before;
        if limit.index == MOST_LIMITS - 1 {
            self.shared -= 1;
            if self.shared == 0 {
                (self.newest, before) = (0, NEVER);
            } else if self.newest == limit.number {
                self.newest -= 1;
            } else {
                // What was added behind it may be all that there is.
                return;
            }
        }
        self.set(limit.index, before);
    }

    fn set(&mut self, index: usize, at: u64) {
        self.at.get_mut(index).into_iter().for_each(|element| *element = at);
    }

    fn earliest(&self) -> u64 {
        self.at.into_iter().min().unwrap_or(NEVER)
    }
}

/// Waits of its task end when its time is over; when it is dropped, those behind it continue as without it.
#[must_use = "the time ends with this value"]
pub struct Within<'w> {
    until: &'w Cell<u64>,
    limits: &'w Cell<Option<Limits>>,
    /// `None`: it has no end.
    limit: Option<Limit>,
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        let (Some(limit), Some(mut limits)) = (self.limit, self.limits.get()) else { return };
        limits.end(limit);
        self.limits.set(Some(limits));
        self.until.set(limits.earliest());
    }
}

/// Microseconds of a time, or a little more; [`NEVER`] where it is too long.
fn in_micros(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000).saturating_add(time.subsec_nanos().div_ceil(1000).into())
}

impl Task<'_> {
    /// Lets the other tasks and streams have a turn, and goes on.
    #[track_caller]
    pub fn yield_now(&self) -> Result<(), Interrupted> {
        self.wait(Wait::Turn, Reason::new(WaitKind::TURN, Place::caller()))
    }

    /// Waits until `ready` returns true. The device calls it in every round, and sleeps for at most a
    /// millisecond between two rounds when it has nothing else to do.
    #[track_caller]
    pub fn wait_until(&self, ready: impl FnMut() -> bool) -> Result<(), Interrupted> {
        self.wait_while(Wait::Poll, Reason::new(WaitKind::CONDITION, Place::caller()), ready)
    }

    /// [`Self::wait_until`] for what a rank publishes, and notifies this one of.
    ///
    /// Ranks that work alike come within nanoseconds of each other, so the task looks for a while itself.
    pub(crate) fn wait_for_peer(&self, reason: Reason, mut ready: impl FnMut() -> bool) -> Result<(), Interrupted> {
        if self.comes_soon(&mut ready) {
            return Ok(());
        }
        self.wait_while(Wait::Peer(self.until()), reason, ready)
    }

    pub(crate) fn wait_while(
        &self,
        wait: Wait,
        mut reason: Reason,
        mut ready: impl FnMut() -> bool,
    ) -> Result<(), Interrupted> {
        while !ready() {
            self.wait(wait, reason)?;
            reason = reason.again();
            if self.until() != NEVER && self.micros() >= self.until() {
                return Err(Interrupted::Deadline);
            }
        }
        Ok(())
    }

    /// Waits for so long at least.
    #[track_caller]
    pub fn sleep(&self, time: Duration) -> Result<(), Interrupted> {
        self.sleep_at(in_micros(time), Place::caller())
    }

    #[inline(never)]
    fn sleep_at(&self, micros: u64, at: Place) -> Result<(), Interrupted> {
        let until = self.micros().saturating_add(micros);
        self.wait(Wait::Time(until.min(self.until())), Reason::new(WaitKind::TIME, at))?;
        if until > self.until() { Err(Interrupted::Deadline) } else { Ok(()) }
    }

    /// Ends waits of this task with [`Interrupted::Deadline`] after `limit`, as long as the result
    /// lives. Of several the shortest counts, in whichever order they end. (Beyond three at a time, those that
    /// do not end in the reverse order end together.)
    pub fn within(&self, limit: Duration) -> Within<'_> {
        let limit = self.micros().saturating_add(in_micros(limit));
        let mut limits = self.limits.get().unwrap_or(Limits::NONE);
        let limit = (limit != NEVER).then(|| limits.add(limit));
        self.limits.set(Some(limits));
        self.until.set(limits.earliest());
        Within { until: &self.until, limits: &self.limits, limit }
    }

    /// Microseconds of the device's clock.
    #[inline(never)]
    pub fn micros(&self) -> u64 {
        self.suspender.with(|slice| (slice.clock)())
    }

    /// [`Context::views`]; they end at the next wait.
    pub fn views<V: ViewSet>(&mut self, set: V) -> Result<V::Views<'_>, Fault> {
        self.suspender.slice().cx.views(set)
    }

    /// [`Context::view`]; it ends at the next wait.
    pub fn view<T: Element>(&mut self, ptr: BufferPtr<T>) -> Result<&[T], Fault> {
        self.suspender.slice().cx.view(ptr)
    }

    /// [`Context::view_mut`]; it ends at the next wait.
    pub fn view_mut<T: Element>(&mut self, ptr: BufferPtr<T>) -> Result<&mut [T], Fault> {
        self.suspender.slice().cx.view_mut(ptr)
    }

    /// [`Context::copy_out`].
    pub fn copy_out<T: Element>(&self, from: BufferPtr<T>, to: &mut [T]) -> Result<(), Fault> {
        self.suspender.with(|slice| slice.cx.copy_out(from, to))
    }

    /// [`Context::copy_in`].
    pub fn copy_in<T: Element>(&self, from: &[T], to: BufferPtr<T>) -> Result<(), Fault> {
        self.suspender.with(|slice| slice.cx.copy_in(from, to))
    }

    /// [`Context::words`]: also across waits. The task has words of its rank's segment until it ends; nobody claims
    /// these bytes of the segment meanwhile.
    ///
    /// # Errors
    /// As [`Context::words`], or too many tasks have words or claims: the task has none then.
    #[track_caller]
    pub fn words(&self, ptr: BufferPtr<u32>) -> Result<Words<'_>, Fault> {
        let words = self.suspender.words(ptr)?;
        self.note_words(ptr)?;
        Ok(words)
    }

    /// [`Context::with`]: `f` cannot wait.
    pub fn with<T, R>(&mut self, resource: &Resource<T>, f: impl FnOnce(&mut T) -> R) -> Result<R, Fault> {
        self.suspender.slice().cx.with(resource, f)
    }

    /// [`Context::clear_poison`].
    pub fn clear_poison<T>(&mut self, resource: &Resource<T>, fresh: T) {
        self.suspender.slice().cx.clear_poison(resource, fresh);
    }

    /// Calls a function that inline handlers call as well; it cannot wait.
    pub fn inline<R>(&mut self, f: impl FnOnce(&mut Context<'_>) -> R) -> R {
        f(&mut self.suspender.slice().cx)
    }

    /// Bytes of the device's heap.
    pub(crate) fn heap_len(&self) -> u64 {
        self.suspender.with(|slice| slice.cx.heap_len())
    }

    /// The heap, while no view of it exists: none lasts across a wait, and one of this task would
    /// borrow it mutably.
    pub(crate) fn with_heap<R>(&self, f: impl FnOnce(&LentHeap<'_>) -> R) -> R {
        self.suspender.with(|slice| f(&slice.cx.heap))
    }

    /// [`Context::node`].
    pub fn node(&self) -> NodeId {
        self.suspender.with(|slice| slice.cx.node())
    }

    /// [`Context::isa`].
    pub fn isa(&self) -> Isa {
        Isa::of_this_build()
    }

    /// [`Context::cancelled`].
    pub fn cancelled(&self) -> bool {
        self.suspender.with(|slice| slice.cx.cancelled())
    }

    /// [`Context::deadline_us`].
    pub fn deadline_us(&self) -> u32 {
        self.suspender.with(|slice| slice.cx.deadline_us())
    }

    pub(crate) fn wait(&self, wait: Wait, reason: Reason) -> Result<(), Interrupted> {
        self.interrupted()?;
        self.suspender.suspend(wait, reason);
        self.interrupted()
    }

    /// At the end of the epoch a hosted task's stack is unwound, so that what it owns is dropped.
    fn interrupted(&self) -> Result<(), Interrupted> {
        let why = self.suspender.with(|slice| slice.interrupted);
        #[cfg(not(hamr_bare))]
        if std::thread::panicking() {
            // The unwinding cannot be left for another stack.
            return Err(why.unwrap_or(Interrupted::Ended));
        } else if why == Some(Interrupted::Ended) {
            std::panic::resume_unwind(std::boxed::Box::new(Interrupted::Ended));
        }
        why.map_or(Ok(()), Err)
    }
}

impl<'t> Task<'t> {
    /// What it tells the serve loop of its calls.
    pub(crate) fn marks(&self) -> &'t Cell<Marks> {
        self.suspender.marks()
    }

    /// The time at which [`Self::within`] ends waits, or [`NEVER`].
    pub(crate) fn until(&self) -> u64 {
        self.until.get()
    }

    /// What the serve loop has lent it, for the length of `f`, which must not wait, and calls no code of the program.
    pub(crate) fn lent<R>(&self, f: impl FnOnce(&mut Slice<'_>) -> R) -> R {
        self.suspender.with(f)
    }

    /// Runs `f`, which may call such code, with the scratch memory. A wait in it panics.
    pub(crate) fn with_scratch<R>(&self, f: impl FnOnce(&mut [u8]) -> R) -> R {
        self.suspender.with_scratch(f)
    }

    /// Suspends with something for the serve loop to do; what came of it.
    #[inline(never)]
    pub(crate) fn ask(&self, wait: Wait, reason: Reason) -> Result<Answer, Interrupted> {
        self.interrupted()?;
        let answer = match self.call_directly(wait) {
            Ok(answer) => answer,
            Err(wait) => self.suspend_for(wait, reason),
        };
        if let Answer::None = answer {
            self.interrupted()?;
            return Err(Interrupted::Deadline);
        }
        Ok(answer)
    }

    #[inline(always)]
    fn suspend_for(&self, wait: Wait, reason: Reason) -> Answer {
        self.suspender.suspend(wait, reason);
        self.suspender.with(|slice| slice.answer)
    }

    #[cfg(feature = "tasks")]
    fn of(suspender: Suspender<'t>) -> Self {
        Self {
            suspender,
            until: Cell::new(NEVER),
            limits: Cell::new(None),
            #[cfg(not(hamr_bare))]
            callee: Cell::new(None),
        }
    }

    /// The arguments of its call; once.
    pub(crate) fn arguments<A: Migratable>(&mut self) -> Result<A, Malformed> {
        let Slice { frame, args, .. } = self.suspender.slice();
        frame.arguments(args.take().ok_or(Malformed)?)
    }

    /// Storage for its reply.
    pub(crate) fn frame(&mut self) -> &mut Frame<'t> {
        &mut self.suspender.slice().frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In whichever order limits end, the earliest of those that last counts. The times are 1 to 3, so that any two may
    /// be equal; up to so many have an element of their own.
    #[test]
    fn the_earliest_of_the_limits_that_last_counts() {
        const MOST: usize = MOST_LIMITS - 1;
        for times in 0..27 {
            let times = [times % 3 + 1, times / 3 % 3 + 1, times / 9 + 1];
            for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                let mut limits = Limits::NONE;
                let added: [Limit; MOST] = times.map(|time| limits.add(time));
                let mut left = times;
                for ended in order {
                    assert_eq!(limits.earliest(), left.into_iter().min().expect("three"), "{times:?} {order:?}");
                    limits.end(added[ended]);
                    left[ended] = NEVER;
                }
                assert_eq!((limits.earliest(), limits.shared), (NEVER, 0));
            }
        }
    }

    #[test]
    fn more_limits_than_there_is_room_for_end_in_reverse_order_or_together() {
        let mut limits = Limits::NONE;
        let times = [90, 80, 70, 10, 20, 5, 7, 3];
        let added = times.map(|time| limits.add(time));
        assert_eq!(added.map(|limit| limit.index), [0, 1, 2, 3, 3, 3, 3, 3]);
        for (left, ended) in added.iter().enumerate().rev().take(3) {
            limits.end(*ended);
            assert_eq!(limits.earliest(), *times[..left].iter().min().expect("some"), "{left} are left");
        }
        // Of the two that share it now, the first ends first.
        limits.end(added[3]);
        limits.end(added[2]);
        let nested = limits.add(70);
        assert_eq!((nested.index, limits.earliest()), (2, 10), "one that shares it lasts");
        let last = limits.add(8);
        assert_eq!(limits.earliest(), 8);
        limits.end(added[4]);
        assert_eq!(limits.earliest(), 8, "it does not end with another one");
        limits.end(last);
        assert_eq!((limits.earliest(), limits.shared, limits.newest), (70, 0, 0));
    }

    /// In whichever order limits beyond the room end, none of those that last is lost.
    #[test]
    fn limits_beyond_the_room_are_never_longer_than_asked_for() {
        const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        for (times, order, added_late) in ORDERS
            .iter()
            .flat_map(|times| ORDERS.iter().flat_map(move |order| (0..3).map(move |at| (times, order, at))))
        {
            let mut limits = Limits::NONE;
            let _filled = [90, 80, 70].map(|time| limits.add(time));
            let added = times.map(|time| limits.add(10 * (time as u64 + 1)));
            let mut left = times.map(|time| 10 * (time as u64 + 1)).to_vec();
            let mut late = None;
            for (nth, ended) in order.iter().enumerate() {
                if nth == added_late {
                    late = Some(limits.add(15));
                    left.push(15);
                }
                limits.end(added[*ended]);
                left[*ended] = NEVER;
                let earliest = left.iter().copied().min().expect("some").min(70);
                assert!(limits.earliest() <= earliest, "{times:?} {order:?} {added_late}: {}", limits.earliest());
            }
            late.into_iter().for_each(|late| limits.end(late));
            assert_eq!((limits.earliest(), limits.shared, limits.newest), (70, 0, 0));
        }
    }
}
