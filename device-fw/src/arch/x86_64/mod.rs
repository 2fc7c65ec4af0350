//! x86_64, in long mode, entered by a PVH loader.

pub(super) mod barriers;
mod boot;
mod interrupts;
mod mem;
mod pages;
mod segments;
pub(super) mod stack;
pub(super) mod timer;
mod traps;
