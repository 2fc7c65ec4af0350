//! x86_64, in long mode, entered by a PVH loader.

pub(super) mod barriers;
mod boot;
mod mem;
mod pages;
mod segments;
pub(super) mod stack;
pub(crate) mod tick;
pub(super) mod timer;
mod traps;
