//! x86_64, in long mode, entered by a PVH loader: its start, its traps and its tick.

mod boot;
mod interrupts;
mod pages;
mod segments;
pub(super) mod tick;
mod traps;
