//! aarch64, at exception level 1.

pub(super) mod barriers;
mod boot;
pub(super) mod stack;
mod tables;
pub(crate) mod tick;
pub(super) mod timer;
mod traps;
