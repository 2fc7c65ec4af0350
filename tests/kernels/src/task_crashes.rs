//! Tasks that fail: each ends its own call, and no other task.

use crate::crashes;
use hamr_comm::{Fault, Task, offload};

/// What [`fails()`] does.
pub const PANICS: u32 = 0;
/// Reads from a null pointer.
pub const READS_NULL: u32 = 1;
/// Runs an invalid instruction.
pub const IS_ILLEGAL: u32 = 2;
/// Calls itself until no stack is left.
pub const OVERFLOWS: u32 = 3;
/// The same with frames of 12 KiB, of which it touches the ends.
pub const LEAPS: u32 = 4;
/// Keeps the device's processor for ever.
pub const LOOPS: u32 = 5;

/// Lets others have a turn `rounds` times, and breaks a rule then.
#[offload]
pub fn fails(task: &mut Task, how: u32, rounds: u32) -> Result<u64, Fault> {
    for _ in 0..rounds {
        task.yield_now()?;
    }
    task.inline(|cx| match how {
        PANICS => panic!("asked to panic behind {rounds} waits"),
        READS_NULL => Ok(crashes::null(cx)),
        IS_ILLEGAL => Ok(crashes::illegal(cx)),
        OVERFLOWS => Ok(crashes::overflows(cx, u64::MAX)),
        LEAPS => Ok(crashes::leaps(cx, 12)),
        LOOPS => Ok(crashes::loops(cx)),
        _ => Ok(rounds.into()),
    })
}
