//! State of the runtime that outlasts a call, all of it: a module has a copy of this crate, and so of each static. What
//! is here it has from its image, before each of its handlers runs; it changes between calls alone. A static elsewhere
//! that handlers ask is a fault: `hamr_tests::modules::statics` knows those of modules by name.

#[cfg(feature = "modules")]
mod image;

#[cfg(feature = "modules")]
pub(crate) use image::IMAGE;
#[cfg(feature = "modules")]
pub use image::{ModuleImage, Panic};

use core::sync::atomic::AtomicU32;

pub(crate) struct Shared {
    /// How many ranges are claimed, at least (`claims`).
    #[cfg(feature = "claims")]
    pub(crate) claimed: AtomicU32,
    /// The mark of the code that takes a resource now (`resource`).
    pub(crate) present: AtomicU32,
}

/// That of the image; in a module, as of the beginning of the present call.
pub(crate) static SHARED: Shared = Shared {
    #[cfg(feature = "claims")]
    claimed: AtomicU32::new(0),
    present: AtomicU32::new(1),
};
