//! riscv64, in machine mode.

pub(super) mod barriers;
mod boot;
pub(super) mod stack;
pub(crate) mod tick;
pub(super) mod timer;
mod traps;
