//! The switch between the serve loop and tasks: a task runs on a stack of its own, in *slices*, each
//! from a resume to the next wait.
//!
//! A slice lends the task what only the serve loop has: a context over the heap, storage for the
//! message, the clock. The task finds them through a pointer that each resume replaces, so nothing
//! on its stack refers to the device's state while it is suspended.

#![expect(unsafe_code)]
// UNSAFETY: a pointer to the slice on the serve stack, and stacks that are left with frames on them
// (`docs/unsafe.md` "tasks").

use super::TaskThunk;
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
    yielder: &'t Yielder<Lent, Wait>,
    lent: Cell<Lent>,
    marks: &'t Cell<Marks>,
}

impl<'t> Suspender<'t> {
    /// Ends the slice. Returns in the next one.
    pub(super) fn suspend(&self, wait: Wait, reason: Reason) {
        self.with(|slice| (slice.marks, slice.reason) = (self.marks.take(), Some(reason)));
        self.lent.set(self.yielder.suspend(wait));
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

    /// The same for the length of `f`, which must neither suspend nor look again.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Slice<'_>) -> R) -> R {
        let mut lent = self.lent.get().0;
        // SAFETY: as in `slice`; the closures of this module's callers have no access to the task.
        f(unsafe { lent.as_mut() })
    }

    /// Words of a buffer, to be kept across waits.
    pub(super) fn words(&self, ptr: BufferPtr<u32>) -> Result<Words<'_>, Fault> {
        // SAFETY: as in `with`. Only the words outlive this function: they refer to the window, which is
        // mapped as long as the task can run.
        unsafe { self.lent.get().0.as_ref() }.cx.words(ptr)
    }
}

type Inner = corosensei::Coroutine<Lent, Wait, Returned, TaskStack>;

#[cfg(not(hamr_bare))]
type Returned = Result<Reply, Payload>;
#[cfg(hamr_bare)]
type Returned = Reply;

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

/// A task on its stack. Dropped while it is suspended, it leaks both.
pub(crate) struct Coroutine {
    inner: ManuallyDrop<Inner>,
    /// The thread that it was made on. What a task has on its stack need not be `Send`.
    #[cfg(not(hamr_bare))]
    thread: std::thread::ThreadId,
}

// SAFETY: only a `Resumable` runs or ends the task's code. `here` makes one for the first thread alone,
// and it is not `Send`.
#[cfg(not(hamr_bare))]
unsafe impl Send for Coroutine {}

impl Coroutine {
    /// A task that has not begun.
    pub(crate) fn new(stack: TaskStack, start: TaskThunk) -> Self {
        let root = move |yielder: &Yielder<Lent, Wait>, lent: Lent| {
            let marks = Cell::new(Marks::default());
            let mut task = Task::of(Suspender { yielder, lent: Cell::new(lent), marks: &marks });
            #[cfg(not(hamr_bare))]
            return std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| start(&mut task)));
            #[cfg(hamr_bare)]
            start(&mut task)
        };
        Self {
            inner: ManuallyDrop::new(Inner::with_stack(stack, root)),
            #[cfg(not(hamr_bare))]
            thread: this_thread(),
        }
    }

    /// The task for this thread, if it may resume it.
    #[inline(always)]
    pub(crate) fn here(&mut self) -> Option<Resumable<'_>> {
        #[cfg(not(hamr_bare))]
        if self.thread != this_thread() {
            return None;
        }
        Some(Resumable { inner: &mut self.inner, _thread: PhantomData })
    }

    /// Its stack. On a hosted system that of a task that has not returned is leaked, and the result
    /// `None`.
    pub(crate) fn into_stack(mut self) -> Option<TaskStack> {
        #[cfg(not(hamr_bare))]
        if !self.inner.done() {
            return None;
        }
        #[cfg(hamr_bare)]
        // SAFETY: the frames of a task that is left where it stands own nothing that must be dropped:
        // what an abandoned handler may own (`docs/unsafe.md` "abandoning"). Also after a fault inside
        // of `resume`, when what is stored may say either.
        unsafe {
            self.inner.force_reset();
        }
        // SAFETY: `self` ends here, and has no destructor.
        Some(unsafe { ManuallyDrop::take(&mut self.inner) }.into_stack())
    }
}

/// A task on the thread that it was made on, which it does not leave.
pub(crate) struct Resumable<'c> {
    inner: &'c mut Inner,
    _thread: PhantomData<*mut ()>,
}

impl Resumable<'_> {
    /// Runs the next slice. The task must not have returned.
    #[inline(always)]
    pub(crate) fn resume(self, slice: &mut Slice<'_>) -> Step {
        // Before `resume` finds it, whose panic would link the formatting of texts: 2.3 KiB.
        assert!(!self.inner.done(), "a task that has returned is not resumed");
        // The task has the slice alone until this resume returns.
        match self.inner.resume(Lent(NonNull::from(slice).cast())) {
            CoroutineResult::Yield(wait) => Step::Waits(wait),
            #[cfg(not(hamr_bare))]
            CoroutineResult::Return(Err(payload)) => Step::Panicked(payload),
            #[cfg(not(hamr_bare))]
            CoroutineResult::Return(Ok(reply)) => Step::Returned(reply),
            #[cfg(hamr_bare)]
            CoroutineResult::Return(reply) => Step::Returned(reply),
        }
    }
}

#[cfg(not(hamr_bare))]
fn this_thread() -> std::thread::ThreadId {
    std::thread_local!(static ID: std::thread::ThreadId = std::thread::current().id());
    ID.with(|id| *id)
}
