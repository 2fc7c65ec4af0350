//! aarch64, at exception level 1.

pub(super) mod barriers;
#[cfg(feature = "image")]
pub(super) mod stack;
#[cfg(feature = "image")]
pub(super) mod timer;
