//! x86_64, in long mode, entered by a PVH loader: its start, its traps and its tick.

mod boot;
#[cfg(feature = "modules")]
pub(super) mod code;
mod interrupts;
#[cfg(feature = "modules")]
pub(super) mod next_image;
mod pages;
mod segments;
pub(super) mod tick;
mod traps;

#[cfg(feature = "tasks")]
pub(super) use super::guard_pages as guards;
