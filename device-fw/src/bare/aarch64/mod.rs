//! aarch64, at exception level 1: its start, its traps and its tick.

mod boot;
#[cfg(feature = "modules")]
pub(super) mod code;
#[cfg(feature = "modules")]
pub(super) mod next_image;
mod tables;
pub(super) mod tick;
mod traps;

#[cfg(feature = "tasks")]
pub(super) use super::guard_pages as guards;
