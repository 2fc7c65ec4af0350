//! riscv64, in machine mode.

pub(super) mod barriers;
#[cfg(feature = "image")]
mod boot;
#[cfg(feature = "image")]
pub mod imsic;
#[cfg(feature = "image")]
pub(super) mod stack;
#[cfg(feature = "image")]
pub(crate) mod tick;
#[cfg(feature = "image")]
pub(super) mod timer;
#[cfg(feature = "image")]
mod traps;
