//! riscv64, in machine mode: its start, its traps and its tick.

mod boot;
pub(super) mod tick;
mod traps;
