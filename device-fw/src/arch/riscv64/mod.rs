//! riscv64, in machine mode.

pub(super) mod barriers;
mod boot;
pub mod imsic;
pub(super) mod stack;
pub(super) mod timer;
mod traps;
