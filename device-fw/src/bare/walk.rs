//! Return addresses of an abandoned stack, by its frame pointers.
//!
//! Images are built with frame pointers, the prebuilt core too. Every step is checked: it stays in
//! the serve stack, goes outwards, and ends at what cannot be a return address, so a stack that a
//! handler overwrote costs its trace only.

use super::memory;
use crate::arch::{SAVED_FRAME, SAVED_RETURN};
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
                let Some(address) = word(SAVED_RETURN).filter(|address| memory::is_code(*address)) else { break };
                // Zero when the chain ends here.
                at = word(SAVED_FRAME).filter(|outer| *outer > at).unwrap_or(0);
                address
            }
        };
    }
}
