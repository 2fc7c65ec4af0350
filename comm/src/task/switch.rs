//! The switch between the serve loop and tasks: a task runs on a stack of its own, in *slices*, each
//! from a resume to the next wait.
//!
//! A slice lends the task what only the serve loop has: a context over the heap, storage for the
//! message, the clock. The task finds them through a pointer that each resume replaces, so nothing
//! on its stack refers to the device's state while it is suspended.

#![expect(unsafe_code)]
// UNSAFETY: a pointer to the slice on the serve stack, and stacks that are left with frames on them
// (contract "tasks").
//
// Contract "tasks". A task runs in slices on a stack of its own.
// - The task has a pointer to what a slice is lent. References through it end before a wait: a wait
//   needs `&Task`, they borrow `&mut Task`. Only `Words`, which refer to the window, last longer. A
//   `Resource` is held inside a closure that borrows the task.
// - No code of the program runs in a loan to `&Task` (`Suspender::with`): `View` and `ViewSet` are
//   sealed; conversions run with the scratch memory alone (`with_scratch`), and a wait or another
//   conversion in one panics. With debug assertions a second loan panics.
// - Only the thread that began a task resumes or unwinds it (`Coroutine::here`). Between tasks the
//   stack has the frame of the loop alone, which owns nothing and belongs to no thread. On bare metal
//   `Coroutine` is not `Send`.
// - A coroutine with a task is never dropped. Hosted, the task is unwound at the end of its epoch, or
//   leaked with its stack. On bare metal it is forgotten with `force_reset`, as an abandoned handler
//   is, and the place makes a new one (`Tasks::abandon_running`).
// - A panic of a hosted task is caught at the root of its stack, and raised again on the serve loop's.

use super::wait::Wait;
use super::{Marks, Reason, Slice, Task};
use crate::buffer::BufferPtr;
use crate::fault::Fault;
use crate::frame::Reply;
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use corosensei::{CoroutineResult, Yielder};
use hamr_shared_abi::window::Words;

#[cfg(not(any(target_os = "none", hamr_bare)))]
pub use corosensei::stack::DefaultStack as TaskStack;

/// A stack of static memory.
#[cfg(any(target_os = "none", hamr_bare))]
#[derive(Debug)]
pub struct TaskStack {
    base: core::num::NonZeroUsize,
    limit: core::num::NonZeroUsize,
}

#[cfg(any(target_os = "none", hamr_bare))]
impl TaskStack {
    /// The stack from `limit` up to `base`, both multiples of 16.
    ///
    /// # Safety
    /// Nothing else uses that memory for good. It has at least 4096 bytes above a guard at `limit`,
    /// which no code can touch.
    pub const unsafe fn new(base: core::num::NonZeroUsize, limit: core::num::NonZeroUsize) -> Self {
        Self { base, limit }
    }
}

// SAFETY: the contract of `new` is this trait's.
#[cfg(any(target_os = "none", hamr_bare))]
unsafe impl corosensei::stack::Stack for TaskStack {
    fn base(&self) -> core::num::NonZeroUsize {
        self.base
    }
    fn limit(&self) -> core::num::NonZeroUsize {
        self.limit
    }
}

/// A pointer to the slice of the present resume.
#[derive(Clone, Copy)]
struct Lent(NonNull<Slice<'static>>);

/// A task's end of the switch.
pub(crate) struct Suspender<'t> {
    yielder: &'t Yielder<Lent, Step>,
    lent: Cell<Lent>,
    marks: &'t Cell<Marks>,
    /// Code of the program has the scratch memory ([`Self::with_scratch`]).
    converts: Cell<bool>,
    /// A closure of [`Self::with`] runs.
    #[cfg(debug_assertions)]
    is_lent: Cell<bool>,
}

impl<'t> Suspender<'t> {
    /// Ends the slice. Returns in the next one.
    ///
    /// # Panics
    /// Code of the program has the scratch memory, which is the next slice's.
    #[cfg_attr(hamr_bare, inline(never))]
    pub(super) fn suspend(&self, wait: Wait, reason: Reason) {
        self.refuse_in_conversion();
        self.with(|slice| (slice.marks, slice.reason) = (self.marks.take(), Some(reason)));
        self.lent.set(self.yielder.suspend(Step::Waits(wait)));
        self.with(|slice| self.marks.set(slice.marks));
    }

    pub(super) fn marks(&self) -> &'t Cell<Marks> {
        self.marks
    }

    /// What this slice was lent. A suspension needs `&self`, so none comes while the reference lives.
    pub(super) fn slice(&mut self) -> &mut Slice<'t> {
        // SAFETY: `resume` made the pointer of a slice that exists and is not used by the serve loop
        // until this task suspends or returns. The mutable borrow rules out both, and a second
        // reference, as long as this one lives. `'t` is this task's own lifetime, of which no other
        // context can be made, so nothing that ends earlier can be put into the slice.
        unsafe { &mut *self.lent.get().0.as_ptr().cast::<Slice<'t>>() }
    }

    /// The same for the length of `f`, which must neither suspend nor look again: it calls no code of the program.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Slice<'_>) -> R) -> R {
        let mut lent = self.lent.get().0;
        #[cfg(debug_assertions)]
        let _loan = Loan::of(&self.is_lent);
        // SAFETY: as in `slice`; the closures of this module's callers use the task for nothing that comes here
        // again, and what programs implement runs in none of them: traits of views are sealed, and conversions
        // run in `with_scratch`.
        f(unsafe { lent.as_mut() })
    }

    /// Runs `f`, which may call code of the program, with the scratch memory.
    ///
    /// # Panics
    /// Such code calls this.
    pub(super) fn with_scratch<R>(&self, f: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut scratch = self.begin_conversion();
        let _converts = Converts(&self.converts);
        // SAFETY: the slice's memory, which it has alone. As long as `_converts` exists, the slice does not end,
        // since a suspension is refused, and nothing else here uses the memory: `begin_conversion` refuses a
        // second use, and arguments and replies are read and written by who has `&mut Task`.
        f(unsafe { scratch.as_mut() })
    }

    #[cfg_attr(hamr_bare, inline(never))]
    #[cfg_attr(not(hamr_bare), inline(always))]
    fn begin_conversion(&self) -> NonNull<[u8]> {
        self.refuse_in_conversion();
        self.converts.set(true);
        self.with(|slice| NonNull::from(&mut *slice.frame.scratch))
    }

    #[inline(always)]
    fn refuse_in_conversion(&self) {
        if self.converts.get() {
            waits_in_conversion();
        }
    }

    /// Words of a buffer, to be kept across waits.
    pub(super) fn words(&self, ptr: BufferPtr<u32>) -> Result<Words<'_>, Fault> {
        // SAFETY: as in `with`. Only the words outlive this function: they refer to the window, which is
        // mapped as long as the task can run.
        unsafe { self.lent.get().0.as_ref() }.cx.words(ptr)
    }
}

/// The slice is lent. Builds with debug assertions, and so the tests, look whether it is lent twice.
#[cfg(debug_assertions)]
struct Loan<'l>(&'l Cell<bool>);

#[cfg(debug_assertions)]
impl<'l> Loan<'l> {
    fn of(is_lent: &'l Cell<bool>) -> Self {
        assert!(!is_lent.replace(true), "a slice is lent twice");
        Self(is_lent)
    }
}

#[cfg(debug_assertions)]
impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

#[cold]
#[inline(never)]
fn waits_in_conversion() -> ! {
    panic!("a wait inside of a conversion");
}

/// Code of the program has the scratch memory until this is dropped.
struct Converts<'s>(&'s Cell<bool>);

impl Drop for Converts<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// It yields at each end of a slice, and never returns.
type Inner = corosensei::Coroutine<Lent, Step, (), TaskStack>;

/// What a panic carries.
#[cfg(not(hamr_bare))]
pub(crate) type Payload = std::boxed::Box<dyn core::any::Any + Send>;

/// How a slice ended.
pub(crate) enum Step {
    /// The task waits.
    Waits(Wait),
    /// It returned this reply, of which parts may be in the slice's frame.
    Returned(Reply),
    /// It panicked, or was unwound.
    #[cfg(not(hamr_bare))]
    Panicked(Payload),
}

/// A stack on which the tasks of one place run, one after the other. Dropped while one is suspended, it leaks both.
pub(crate) struct Coroutine {
    inner: ManuallyDrop<Inner>,
    /// A task has had a slice, and has not returned. Says nothing of a task whose slice was left for good.
    has_task: bool,
    /// The thread that its task began on. What a task has on its stack need not be `Send`.
    #[cfg(not(hamr_bare))]
    thread: std::thread::ThreadId,
}

// SAFETY: only a `Resumable` runs the task's code, and it is not `Send`. `here` makes one of a coroutine with a task for
// the thread alone that the task began on. Without one its stack has the frame of `root` alone, of which nothing belongs
// to a thread.
#[cfg(not(hamr_bare))]
unsafe impl Send for Coroutine {}

impl Coroutine {
    /// Without a task.
    pub(crate) fn new(stack: TaskStack) -> Self {
        let root = |yielder: &Yielder<Lent, Step>, mut lent: Lent| {
            loop {
                let marks = Cell::new(Marks::default());
                let mut task = Task::of(Suspender {
                    yielder,
                    lent: Cell::new(lent),
                    marks: &marks,
                    converts: Cell::new(false),
                    #[cfg(debug_assertions)]
                    is_lent: Cell::new(false),
                });
                let start = task.suspender.with(|slice| slice.start);
                #[cfg(not(hamr_bare))]
                let ended = match std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| start(&mut task))) {
                    Ok(reply) => Step::Returned(reply),
                    Err(payload) => Step::Panicked(payload),
                };
                #[cfg(hamr_bare)]
                let ended = Step::Returned(start(&mut task));
                lent = yielder.suspend(ended);
            }
        };
        Self {
            inner: ManuallyDrop::new(Inner::with_stack(stack, root)),
            has_task: false,
            #[cfg(not(hamr_bare))]
            thread: this_thread(),
        }
    }

    /// True if a task has had a slice, and has not returned.
    #[inline(always)]
    pub(crate) fn has_task(&self) -> bool {
        self.has_task
    }

    /// The coroutine for this thread, if it may resume its task or begin one.
    #[inline(always)]
    pub(crate) fn here(&mut self) -> Option<Resumable<'_>> {
        #[cfg(not(hamr_bare))]
        if self.thread != this_thread() {
            if self.has_task {
                return None;
            }
            self.thread = this_thread();
        }
        Some(Resumable { inner: &mut self.inner, has_task: &mut self.has_task, _thread: PhantomData })
    }

    /// Its stack, without the task that was left where it stood.
    #[cfg(hamr_bare)]
    pub(crate) fn into_stack(mut self) -> TaskStack {
        // SAFETY: the frames of such a task own nothing that must be dropped: what an abandoned handler may own
        // (contract "abandoning"). Also after a fault inside of `resume`, when what is stored may say either.
        unsafe { self.inner.force_reset() };
        ManuallyDrop::into_inner(self.inner).into_stack()
    }
}

/// On bare metal stacks are static.
#[cfg(not(hamr_bare))]
impl Drop for Coroutine {
    fn drop(&mut self) {
        if !self.has_task {
            // SAFETY: the frame of the loop between two tasks owns nothing that must be dropped.
            unsafe { self.inner.force_reset() };
            // SAFETY: `self` ends here.
            unsafe { ManuallyDrop::drop(&mut self.inner) };
        }
    }
}

/// A task on the thread that it began on, which it does not leave.
pub(crate) struct Resumable<'c> {
    inner: &'c mut Inner,
    has_task: &'c mut bool,
    _thread: PhantomData<*mut ()>,
}

impl Resumable<'_> {
    /// Runs the next slice, which is the first one of a task if there is none.
    #[inline(always)]
    pub(crate) fn resume(self, slice: &mut Slice<'_>) -> Step {
        // Before `resume` finds it, whose panic would link the formatting of texts: 2.3 KiB.
        if self.inner.done() {
            has_ended();
        }
        // The task has the slice alone until this resume returns.
        let CoroutineResult::Yield(step) = self.inner.resume(Lent(NonNull::from(slice).cast())) else { has_ended() };
        *self.has_task = matches!(step, Step::Waits(_));
        step
    }
}

#[cold]
#[inline(never)]
fn has_ended() -> ! {
    panic!("a coroutine has ended");
}

#[cfg(not(hamr_bare))]
fn this_thread() -> std::thread::ThreadId {
    std::thread_local!(static ID: std::thread::ThreadId = std::thread::current().id());
    ID.with(|id| *id)
}

#[cfg(all(test, feature = "claims", not(hamr_bare)))]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use crate::task::{Answer, TaskThunk};
    use crate::testing::Heap;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const SCRATCH: usize = 64;

    /// Runs slices of a task until it does not wait.
    fn outcome(start: TaskThunk) -> (u32, Step) {
        let mut coroutine = Coroutine::new(TaskStack::new(256 << 10).expect("memory"));
        // The second task finds the stack as the first one did.
        let first = run(&mut coroutine, start);
        let second = run(&mut coroutine, start);
        assert_eq!((first.0, is_returned(&first.1)), (second.0, is_returned(&second.1)));
        second
    }

    fn is_returned(step: &Step) -> bool {
        matches!(step, Step::Returned(_))
    }

    fn run(coroutine: &mut Coroutine, start: TaskThunk) -> (u32, Step) {
        for waits in 0.. {
            // Each slice has its own heap and memory, whose place is another one then.
            let (mut heap, mut scratch) = (Heap::new(4096), std::vec![0; SCRATCH]);
            let mut slice = Slice {
                cx: heap.context(),
                frame: Frame::new(&mut scratch),
                args: None,
                start,
                clock: &mut || 0,
                interrupted: None,
                answer: Answer::None,
                marks: Marks::default(),
                place: 0,
                slot: 1,
                #[cfg(feature = "world")]
                looks: 0,
                #[cfg(feature = "world")]
                direct: None,
                reason: None,
            };
            match coroutine.here().expect("its thread").resume(&mut slice) {
                Step::Waits(_) => {}
                ended => return (waits, ended),
            }
        }
        unreachable!("it ends")
    }

    fn returns(task: &mut Task<'_>) -> Reply {
        task.frame().status(hamr_shared_abi::status::Status::OK)
    }

    /// A conversion of the program's finds the task by a way that no lifetime forbids, and waits.
    fn waits(task: &mut Task<'_>) -> Reply {
        let seen = task.with_scratch(|scratch| (scratch.len(), task.yield_now()));
        unreachable!("{seen:?}")
    }

    #[test]
    fn a_wait_inside_of_a_conversion_ends_the_task() {
        let (waits, Step::Panicked(payload)) = outcome(waits) else { panic!("it panics") };
        assert_eq!((waits, payload.downcast_ref()), (0, Some(&"a wait inside of a conversion")));
    }

    /// All but a wait is as before, and behind a panic, too.
    fn uses_in_conversion(task: &mut Task<'_>) -> Reply {
        task.with_scratch(|scratch| {
            assert_eq!((task.micros(), task.node().0), (0, 1));
            scratch.fill(8);
        });
        let panics = || task.with_scratch(|_| task.with_scratch(|_| panic!("asked to")));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(task.with_scratch(|scratch| (scratch.len(), scratch[0])), (SCRATCH, 8));
        assert!(task.yield_now().is_ok());
        assert_eq!(task.with_scratch(|scratch| (scratch.len(), scratch[0])), (SCRATCH, 0), "the next slice's");
        returns(task)
    }

    #[test]
    fn a_conversion_has_the_scratch_memory_for_its_time() {
        let (waits, step) = outcome(uses_in_conversion);
        assert!(waits == 1 && matches!(step, Step::Returned(_)));
    }

    /// What is lent is lent once: code that is run inside of a loan and asks for another is found by every test.
    #[cfg(debug_assertions)]
    #[test]
    fn a_slice_is_not_lent_twice() {
        fn lends_twice(task: &mut Task<'_>) -> Reply {
            task.lent(|_| task.lent(|_| ()));
            returns(task)
        }
        let (_, Step::Panicked(payload)) = outcome(lends_twice) else { panic!("it panics") };
        assert_eq!(payload.downcast_ref(), Some(&"a slice is lent twice"));
    }
}
