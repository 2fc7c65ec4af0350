//! The stacks of tasks, as `image!` reserves them and the engine takes them.

#![expect(unsafe_code)]
// UNSAFETY: a contract of `corosensei` (`docs/unsafe.md` "task stacks").

use super::isa::guards;
use super::stacks::STACKS;
use crate::bare::runtime::RUNTIME;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use corosensei::stack::Stack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// What `image!` reserves for `count` stacks of `bytes`: the bytes of a guard, to a multiple of which
/// it is aligned, and those of a guard and its stack. A constant, so that its checks end the build.
#[doc(hidden)]
pub const fn reserve(count: usize, bytes: usize) -> (usize, usize) {
    assert!(bytes >= 8192 && bytes.is_multiple_of(4096), "hamr: `task_stack` is a multiple of 4096, at least 8192");
    guards::check(count, bytes);
    let guard = guards::bytes(bytes);
    (guard, guard + bytes)
}

/// The stack of one task.
#[derive(Debug)]
pub struct TaskStack {
    task: usize,
}

/// Stacks that have a guard: a processor may have fewer guards than the image has stacks.
static GUARDED: AtomicUsize = AtomicUsize::new(0);

/// Sets the guards that boot code has not set. Returns the number of stacks that can be used.
pub(super) fn guard() -> usize {
    let guarded = guards::set(&STACKS);
    GUARDED.store(guarded, Ordering::Relaxed);
    guarded
}

// SAFETY: `base` and `limit` surround memory that nothing else uses (`on_task_stack`), of at least 8 KiB
// above its lowest part, which is a guard (`reserve`); both are multiples of 4 KiB.
unsafe impl Stack for TaskStack {
    fn base(&self) -> NonZeroUsize {
        address(STACKS.first + (self.task + 1) * STACKS.stride.get())
    }

    fn limit(&self) -> NonZeroUsize {
        address(STACKS.first + self.task * STACKS.stride.get())
    }
}

/// No stack is at address 0, since RAM begins with code.
fn address(at: usize) -> NonZeroUsize {
    NonZeroUsize::new(at).unwrap_or(NonZeroUsize::MIN)
}

/// The last call that used stacks in [`on_task_stack`].
static USER: AtomicU32 = AtomicU32::new(0);

/// Runs `f` as a coroutine on the stack of `task` until it returns; it suspends by calling its
/// argument, and is resumed at once. For tests of stacks: returns how often it was resumed, `None`
/// when this call uses a stack already or there is no such stack.
#[doc(hidden)]
pub fn on_task_stack(task: usize, f: impl FnOnce(&dyn Fn())) -> Option<u32> {
    let call = RUNTIME.running()?;
    if task >= GUARDED.load(Ordering::Relaxed) || USER.swap(call, Ordering::AcqRel) == call {
        return None;
    }
    let f = |yielder: &Yielder<(), ()>, ()| f(&|| yielder.suspend(()));
    // SAFETY: handlers run one at a time, and an abandoned one leaves the stack for good, so nothing
    // else uses it in this call. The coroutine returns before `f` ends, or is abandoned with it.
    let mut coroutine = unsafe { Coroutine::with_stack_unchecked(TaskStack { task }, f) };
    let mut resumed = 1;
    while let CoroutineResult::Yield(()) = coroutine.resume(()) {
        resumed += 1;
    }
    USER.store(call.wrapping_sub(1), Ordering::Release);
    Some(resumed)
}

/// The stacks of `Config::tasks` and `Config::task_stack`, and what the runtime is told of them.
#[doc(hidden)]
#[macro_export]
macro_rules! __task_stacks {
    ($($field:ident = $value:expr),*) => {
        const HAMR_CONFIG: $crate::Config = $crate::__config!($($field = $value),*);
        const HAMR_RESERVED: (usize, usize) =
            $crate::bare::reserve(HAMR_CONFIG.tasks, HAMR_CONFIG.task_stack);
        ::core::arch::global_asm!(
            ".section .hamr.tasks, \"aw\", @nobits",
            ".balign {guard}",
            ".globl __hamr_task_stacks",
            "__hamr_task_stacks:",
            ".zero {count} * {stride}",
            ".section .rodata.__hamr_task_stacks, \"a\"",
            ".balign 8",
            ".globl __hamr_task_stacks_record",
            "__hamr_task_stacks_record:",
            ".quad __hamr_task_stacks, {count}, {guard}, {stride}",
            ".text",
            count = const HAMR_CONFIG.tasks,
            guard = const HAMR_RESERVED.0,
            stride = const HAMR_RESERVED.1,
        );
    };
}
