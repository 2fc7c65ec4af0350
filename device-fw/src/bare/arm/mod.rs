//! arm: the start, the faults and the tick of an ARMv7-M processor.

mod boot;
#[cfg(feature = "modules")]
pub(super) mod code;
#[cfg(feature = "tasks")]
pub(super) mod guards;
#[cfg(feature = "modules")]
pub(super) mod next_image;
pub(super) mod tick;
mod traps;
