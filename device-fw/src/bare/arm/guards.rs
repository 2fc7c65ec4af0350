//! Guards below the stacks of tasks: one region of the memory protection unit each, behind that of the serve stack.

#![expect(unsafe_code)]
// UNSAFETY: the unit's registers.

use super::boot::GUARD;
use crate::arch::registers::{MPU_RASR, MPU_RBAR, MPU_TYPE};
use crate::bare::stacks::Stacks;

/// Bytes of a guard. Code touches each page of its frames.
const BYTES: usize = 4096;
/// The first region for tasks.
const FIRST: usize = 2;
/// Regions of every Cortex-M4 and M7 that has the unit.
const REGIONS: usize = 8;
/// MPU_RBAR: the region is that in the lowest bits.
const REGION: u32 = 1 << 4;

/// Bytes of the guard below a stack of `_stack` bytes.
pub(in crate::bare) const fn bytes(_stack: usize) -> usize {
    BYTES
}

/// Ends the build when there are too few regions.
pub(in crate::bare) const fn check(count: usize, _stack: usize) {
    assert!(count <= REGIONS - FIRST, "hamr: arm guards at most 6 task stacks: lower `tasks`");
}

/// Sets the guards. Returns how many of the first ones there are.
pub(in crate::bare) fn set(stacks: &Stacks) -> usize {
    let regions = (MPU_TYPE.read() >> 8 & 0xFF) as usize;
    let count = stacks.count.min(regions.saturating_sub(FIRST));
    for task in 0..count {
        let at = stacks.first + task * stacks.stride.get();
        // SAFETY: takes the rights to a guard, which nothing uses.
        unsafe { MPU_RBAR.write(at as u32 | REGION | (FIRST + task) as u32) };
        // SAFETY: as above.
        unsafe { MPU_RASR.write(GUARD) };
    }
    count
}
