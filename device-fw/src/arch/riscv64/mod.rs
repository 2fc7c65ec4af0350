//! riscv64: harts that are entered in machine mode.

pub(super) mod barriers;
#[cfg(feature = "image")]
pub mod imsic;
#[cfg(feature = "image")]
pub(super) mod machine_mode;
#[cfg(feature = "image")]
pub(super) mod stack;
#[cfg(feature = "image")]
pub(super) mod timer;
