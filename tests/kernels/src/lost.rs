//! Tasks that wait for a rank that a test ends, and leave what their wait said in their segment.

use crate::lanes::waits_for_cancel;
use crate::worlds::world_of;
use hamr_comm::abi::ids::RankId;
use hamr_comm::{Fault, Task, offload};

/// How [`waits_for()`] waits.
pub const WAYS: [&str; 5] = ["sync", "wait_for", "barrier", "wait_signal", "a signal of another rank"];

/// Where in the segment [`waits_for()`] leaves its notes: a [`Note`].
pub const NOTE: u64 = 0x4000;

/// What [`waits_for()`] leaves: 1 before it waits, then 2, the fault's first number, and its text with
/// zeros behind it.
pub type Note = [u8; 96];

/// Waits for a rank in one of the ways, for ever.
#[offload(unordered)]
pub fn waits_for(task: &mut Task, how: u32, at: u32) -> Result<u32, Fault> {
    let at = RankId(at);
    begins(task, NOTE)?;
    let waited = match how {
        0 => task.sync(at, waits_for_cancel::with()).map_err(Fault::from),
        1 => match task.offload(at, waits_for_cancel::with()) {
            Ok(call) => task.wait_for(call).map_err(Fault::from),
            Err(why) => Err(why.into()),
        },
        2 => task.barrier().map(|()| 0).map_err(Fault::from),
        3 => task.wait_signal(at, 5, |value| value != 0),
        _ => task.wait_signal(world_of(task.world())?.me(), 5, |value| value != 0),
    };
    if let Err(fault) = &waited {
        fails(task, NOTE, fault)?;
    }
    waited
}

/// Leaves in a note of this rank that it is about to wait.
///
/// # Errors
/// The task is on no rank.
pub fn begins(task: &Task, note: u64) -> Result<(), Fault> {
    let world = world_of(task.world())?;
    Ok(world.put(world.me(), note, &1u32.to_le_bytes())?)
}

/// Leaves there how its wait has ended.
///
/// # Errors
/// The task is on no rank.
pub fn fails(task: &Task, note: u64, fault: &Fault) -> Result<(), Fault> {
    let mut bytes: Note = [0; 96];
    let (numbers, text) = bytes.split_at_mut(8);
    let words = [2u32, fault.numbers[0] as u32].map(u32::to_le_bytes);
    numbers.copy_from_slice(words.as_flattened());
    text.iter_mut().zip(fault.text.bytes()).for_each(|(to, byte)| *to = byte);
    let world = world_of(task.world())?;
    Ok(world.put(world.me(), note, &bytes)?)
}
