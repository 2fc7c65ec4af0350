//! arm: Cortex-M of ARMv7-M, with floating point in hardware.

pub(super) mod barriers;
#[cfg(feature = "image")]
pub(crate) mod registers;
#[cfg(feature = "image")]
pub(super) mod stack;
#[cfg(feature = "image")]
pub(crate) mod timer;
