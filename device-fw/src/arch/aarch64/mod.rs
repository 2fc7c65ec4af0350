//! aarch64, at exception level 1.

pub(super) mod barriers;
#[cfg(feature = "image")]
mod boot;
#[cfg(feature = "image")]
pub(super) mod stack;
#[cfg(feature = "image")]
mod tables;
#[cfg(feature = "image")]
pub(crate) mod tick;
#[cfg(feature = "image")]
pub(super) mod timer;
#[cfg(feature = "image")]
mod traps;
