//! Polls, and waits.
//!
//! A wait polls, and yields the processor where others need it; in between the serve loop has a turn, without a
//! sleep (`Wait::Turn`). So a rank in `GASNET_BLOCKUNTIL`, in a wait for an event or for room, or in a loop of
//! polls, finds a message in the poll after it was published: no wake-up can be lost. Ranks sleep only in the
//! attach of `gex_Client_Init`, where a rank that waits for messages is notified with the owed fence, and after
//! the program's end. Models: `messages`, `lanes` and `worlds` (`docs/model.md`). In PAR a thread that finds the
//! library taken does not wait for a wait: no wait keeps the lock.

#![expect(unsafe_code)]
// UNSAFETY: exported names.

use crate::{job, operations};
use hamr_comm::am::patience;
use std::cell::Cell;
use std::ffi::c_int;

/// Fruitless polls of a thread between two of its turns.
const TURN: u32 = 32;
/// Fruitless polls before other ranks may want the processor.
const PAUSES: u32 = 16;

std::thread_local! {
    /// Fruitless polls in a row.
    static IDLE: Cell<u32> = const { Cell::new(0) };
    /// Fruitless polls of this thread in all, where there are others.
    static VAIN: Cell<u32> = const { Cell::new(0) };
}

/// Runs handlers, and steps collectives; how many have run and ended. A thread that finds another in the library returns at once: that
/// one polls, or lets the next poll do so.
pub(crate) fn poll(function: &str) -> u32 {
    let found = job::try_rank(function, |rank| {
        let found = if rank.is_quiet() { Ok(0) } else { rank.poll() };
        found.unwrap_or_else(|why| job::failed(function, &why)) + operations::step()
    });
    if found.unwrap_or(0) == 0 && job::has_threads() {
        // The thread that another one polls for may have no processor.
        let vain = VAIN.get().wrapping_add(1);
        VAIN.set(vain);
        if vain.is_multiple_of(TURN) {
            std::thread::yield_now();
        }
    }
    found.unwrap_or(0)
}

/// The same for a program that has ended: nothing can be refused any more, and the library may have been used never.
pub(crate) fn poll_if_begun() {
    if job::max_medium() != 0 && job::restriction() == 0 {
        poll("pthread_exit");
    }
}

/// The same in a loop that waits.
pub(crate) fn poll_idle(function: &str) {
    if poll(function) != 0 {
        IDLE.set(0);
        return;
    }
    let idle = IDLE.get() + 1;
    IDLE.set(idle % (1 << 20));
    match idle {
        // This rank's other threads need the processor, and want the lock.
        _ if job::has_threads() => std::thread::yield_now(),
        0..=PAUSES => std::hint::spin_loop(),
        _ => patience::rest(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn gasnet_AMPoll() -> c_int {
    poll("gasnet_AMPoll");
    0
}

#[unsafe(no_mangle)]
extern "C" fn hamr_gex_poll_idle() {
    poll_idle("GASNET_BLOCKUNTIL");
}
