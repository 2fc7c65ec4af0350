//! x86_64, in long mode, entered by a PVH loader.

#[cfg(feature = "image")]
pub(crate) mod apic;
pub(super) mod barriers;
#[cfg(feature = "image")]
mod mem;
#[cfg(feature = "image")]
pub(super) mod stack;
#[cfg(feature = "image")]
pub(super) mod timer;
