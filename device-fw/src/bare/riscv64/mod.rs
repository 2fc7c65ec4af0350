//! riscv64, in machine mode: its start, its traps and its tick.

mod boot;
#[cfg(feature = "modules")]
pub(super) mod code;
#[cfg(feature = "tasks")]
pub(super) mod guards;
#[cfg(feature = "modules")]
pub(super) mod next_image;
pub(super) mod tick;
mod traps;
