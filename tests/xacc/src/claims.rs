//! A handler that claims its rank's segment.

use hamr_comm::{BufferPtr, Fault, Task, offload};

/// How [`claim()`] ends.
pub mod end {
    /// When word 0 of `gate` is not zero, or when it is cancelled.
    pub const RETURN: u32 = 0;
    /// It panics with the claim.
    pub const PANIC: u32 = 1;
}

/// Claims the segment from byte `from`, and returns how many bytes that are.
#[offload(unordered)]
pub fn claim(task: &mut Task, from: u64, end: u32, gate: BufferPtr<u32>) -> Result<u64, Fault> {
    let mut claim = task.claim_segment(from)?;
    assert!(end != end::PANIC, "it panics with a claim");
    let mut memory = claim.memory();
    let len = memory.len() as u64;
    let pieces = (memory.take_front(4096), memory.take_end(4096));
    let (Some(front), Some(back)) = pieces else { return Err(Fault::msg("no room")) };
    let (mut front, back) = (front.piece::<u64>(), back.piece::<u32>());
    front.as_mut_slice().iter_mut().zip(0..).for_each(|(x, i)| *x = i);
    let back = back.into_mut_slice();
    back.fill(7);
    let gate = task.words(gate)?;
    let gate = gate.get(0).ok_or_else(|| Fault::msg("no word"))?;
    task.wait_until(|| gate.observe() != 0)?;
    let is_kept = front.as_slice().iter().zip(0..).all(|(x, i)| *x == i) && back.iter().all(|x| *x == 7);
    if is_kept { Ok(len) } else { Err(Fault::msg("claimed bytes have changed")) }
}
