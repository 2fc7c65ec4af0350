//! Return addresses of an abandoned stack, by its frame pointers.
//!
//! Images are built with frame pointers, the prebuilt core too. Every step is checked: it stays in
//! the stack, goes outwards, and ends at what cannot be a return address, so a stack that a handler
//! overwrote costs its trace only. Behind a task's stack comes the stack that resumed the task.

use super::{memory, stacks};
use crate::arch::{CODE_BITS, SAVED_FRAME, SAVED_RETURN};
use hamr_comm::fault::FRAMES;

/// Writes the return addresses of the frame that `frame` points to and of those around it into
/// `found`, which is zero. `first` precedes them when it is one: where a call of an address that is
/// no code came from.
pub(super) fn frames(frame: u64, first: Option<u64>, found: &mut [u64; FRAMES]) {
    let (mut at, mut first) = (frame, first.filter(|address| memory::is_code(*address)));
    for entry in found {
        *entry = match first.take() {
            Some(address) => address,
            None => {
                let word = |offset| memory::stack_word(at.wrapping_add_signed(offset));
                let address = word(SAVED_RETURN).map(|address| address & CODE_BITS);
                let Some(address) = address.filter(|address| memory::is_code(*address)) else { break };
                // Zero when the chain ends here.
                let outer = word(SAVED_FRAME).filter(|outer| *outer > at).unwrap_or(0);
                at = behind(at, outer);
                address
            }
        };
    }
}

/// The frame behind the one at `at`, whose frame around it is at `outer`; 0 when there is none. A
/// walk leaves a task's stack only at its end, where `corosensei` keeps a link to the frame that
/// resumed the task. Beside the link, in place of a return address, is the address of the
/// coroutine's first function.
fn behind(at: u64, outer: u64) -> u64 {
    let word = |frame: u64| frame.wrapping_add_signed(SAVED_RETURN);
    let task = stacks::task_of(word(at));
    if stacks::task_of(word(outer)) != task {
        return 0;
    }
    if task.is_none() || !stacks::is_last_word(word(outer)) {
        return outer;
    }
    let resumer = memory::stack_word(outer.wrapping_add_signed(SAVED_FRAME)).unwrap_or(0);
    if stacks::task_of(word(resumer)).is_none() { resumer } else { 0 }
}
