//! x86_64, in long mode, entered by a PVH loader.

#[cfg(feature = "image")]
mod apic;
pub(super) mod barriers;
#[cfg(feature = "image")]
mod boot;
#[cfg(feature = "image")]
mod interrupts;
#[cfg(feature = "image")]
mod mem;
#[cfg(feature = "image")]
mod pages;
#[cfg(feature = "image")]
mod segments;
#[cfg(feature = "image")]
pub(super) mod stack;
#[cfg(feature = "image")]
pub(crate) mod tick;
#[cfg(feature = "image")]
pub(super) mod timer;
#[cfg(feature = "image")]
mod traps;
