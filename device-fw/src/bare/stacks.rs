//! Where the stacks of tasks are: one after the other behind the serve stack, each above a guard
//! that no code may touch. `image!` says how many there are, and of which size; without the feature
//! `tasks` there are none, and nothing of this is linked.
//!
//! ```text
//!  __hamr_task_stacks
//!  | guard 0 | stack 0        | guard 1 | stack 1        | …
//! ```

#![cfg_attr(feature = "tasks", expect(unsafe_code))]
// UNSAFETY: a symbol of `image!` (contract "task stacks").

use core::num::NonZeroUsize;

/// The stacks, as `image!` describes them.
#[repr(C)]
pub(super) struct Stacks {
    /// Where the first guard begins; a multiple of a guard's width.
    pub(super) first: usize,
    /// Number of stacks.
    pub(super) count: usize,
    /// Bytes of a guard.
    pub(super) guard: usize,
    /// Bytes of a guard and its stack.
    pub(super) stride: NonZeroUsize,
}

#[cfg(feature = "tasks")]
unsafe extern "C" {
    /// Made by [`__task_stacks`](crate::__task_stacks). Constants, and linked with the image's code,
    /// so that boot code reaches them before translation is on.
    #[link_name = "__hamr_task_stacks_record"]
    pub(super) safe static STACKS: Stacks;
}

#[cfg(not(feature = "tasks"))]
pub(super) static STACKS: Stacks = Stacks { first: 0, count: 0, guard: 0, stride: NonZeroUsize::MIN };

/// The task whose guard or stack has `address`, and how far it is behind the guard's begin.
fn find(address: u64) -> Option<(usize, usize)> {
    let offset = (address as usize).checked_sub(STACKS.first)?;
    let task = offset / STACKS.stride;
    (task < STACKS.count).then_some((task, offset % STACKS.stride))
}

/// The task whose guard or stack has `address`.
pub(super) fn task_of(address: u64) -> Option<usize> {
    find(address).map(|(task, _)| task)
}

/// Is it the outermost word of a task's stack?
pub(super) fn is_last_word(address: u64) -> bool {
    find(address).is_some_and(|(_, offset)| offset + size_of::<usize>() == STACKS.stride.get())
}

/// Is `address` in a task's stack, where it can be read?
pub(super) fn contains(address: u64) -> bool {
    find(address).is_some_and(|(_, offset)| offset >= STACKS.guard)
}

/// The task that has used `address`, in its own guard; `stack` is its stack pointer.
pub(super) fn overflown(address: u64, stack: u64) -> Option<u32> {
    let (task, offset) = find(address)?;
    (task_of(stack) == Some(task) && offset < STACKS.guard).then_some(task as u32)
}
