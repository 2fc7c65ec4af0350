//! The stacks of tasks, as `image!` reserves them and the engine takes them.

#![expect(unsafe_code)]
// UNSAFETY: memory becomes stacks (contract "task stacks").
//
// Contract "task stacks". `image!` reserves the stacks behind the serve stack, each above a guard, in
// a section that the linker keeps apart. Each belongs to one place, and to one coroutine at a time,
// whose frames own what a handler's own (contract "abandoning"). A guard is set before its stack is used, and never
// lifted; on x86_64 and aarch64 its page holds the table that unmaps it, made while the page was
// mapped. A walk reads a task's stack within bounds and never in a guard, and leaves it only by the
// link that `corosensei` keeps at its end.

use super::isa::guards;
use super::stacks::STACKS;
use core::num::NonZeroUsize;
use hamr_comm::am::TaskSlot;
use hamr_comm::task::TaskStack;

/// What `image!` reserves for `count` stacks of `bytes`: the bytes of a guard, to a multiple of which
/// it is aligned, and those of a guard and its stack. A constant, so that its checks end the build.
#[doc(hidden)]
pub const fn reserve(count: usize, bytes: usize) -> (usize, usize) {
    assert!(bytes >= 8192 && bytes.is_multiple_of(4096), "hamr: `task_stack` is a multiple of 4096, at least 8192");
    guards::check(count, bytes);
    let guard = guards::bytes(bytes);
    (guard, guard + bytes)
}

/// Sets the guards that boot code has not set, and makes the places of tasks: one for each stack with
/// a guard, of which a processor may have fewer than the image has stacks.
///
/// # Safety
/// Called once: each place owns its stack.
pub(super) unsafe fn places<const TASKS: usize>() -> heapless::Vec<TaskSlot, TASKS> {
    let mut places = heapless::Vec::new();
    for task in 0..guards::set(&STACKS) {
        let limit = STACKS.first + task * STACKS.stride.get();
        // No stack is at address 0, since RAM begins with code.
        let at = |address| NonZeroUsize::new(address).unwrap_or(NonZeroUsize::MIN);
        // SAFETY: memory that only `image!` reserves and only this function gives away, once by
        // contract; multiples of 4 KiB around at least 8 KiB above the guard, which is set.
        let stack = unsafe { TaskStack::new(at(limit + STACKS.stride.get()), at(limit)) };
        // There is room: `image!` counts the stacks.
        let _ = places.push(TaskSlot::new(stack));
    }
    places
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
            ".section .hamr.tasks, \"aw\", \"nobits\"",
            ".balign {guard}",
            ".globl __hamr_task_stacks",
            "__hamr_task_stacks:",
            ".zero {count} * {stride}",
            ".section .rodata.__hamr_task_stacks, \"a\"",
            ".balign 8",
            ".globl __hamr_task_stacks_record",
            "__hamr_task_stacks_record:",
            ".ifeq {word} - 4",
            ".4byte __hamr_task_stacks, {count}, {guard}, {stride}",
            ".else",
            ".8byte __hamr_task_stacks, {count}, {guard}, {stride}",
            ".endif",
            ".text",
            count = const HAMR_CONFIG.tasks,
            guard = const HAMR_RESERVED.0,
            stride = const HAMR_RESERVED.1,
            word = const ::core::mem::size_of::<usize>(),
        );
    };
}
