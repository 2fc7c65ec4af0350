//! riscv64: its start, its traps and its tick, in machine mode.

mod boot;
#[cfg(feature = "modules")]
pub(super) mod code;
#[cfg(feature = "tasks")]
pub(super) mod guards;
#[cfg(feature = "modules")]
pub(super) mod next_image;
pub(super) mod tick;
mod traps;
