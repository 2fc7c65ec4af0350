//! riscv64, in machine mode.

pub(super) mod barriers;
mod boot;
pub(super) mod stack;
pub(super) mod timer;
mod traps;
