//! State of the runtime that outlasts a call, all of it: a module has a copy of this crate, and so of each static. What
//! is here it has from its image, before each of its handlers runs; it changes between calls alone. A static elsewhere
//! that handlers ask is a fault: `hamr_tests::modules::statics` knows those of modules by name.

#[cfg(feature = "modules")]
use crate::fault::Fault;
use core::sync::atomic::AtomicU32;
#[cfg(feature = "modules")]
use core::sync::atomic::Ordering::Relaxed;
#[cfg(feature = "modules")]
use hamr_shared_abi::window::LentHeap;

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

#[cfg(feature = "modules")]
impl Shared {
    /// Becomes as that of the image. No other handler runs meanwhile.
    pub(crate) fn follow(&self, image: &Self) {
        let Self { claimed, present } = image;
        self.claimed.store(claimed.load(Relaxed), Relaxed);
        self.present.store(present.load(Relaxed), Relaxed);
    }
}

/// What a module is given of its image.
#[cfg(feature = "modules")]
pub struct ModuleImage {
    #[cfg_attr(not(hamr_bare), expect(dead_code, reason = "panics of a module in a process end in the module"))]
    pub(crate) panic: Panic,
    pub(crate) shared: &'static Shared,
    /// [`claims::check`](crate::claims::check).
    pub(crate) check: Check,
}

/// Ends the running call by a panic, in the image.
#[cfg(feature = "modules")]
pub type Panic = fn(&core::panic::PanicInfo<'_>) -> !;

#[cfg(feature = "modules")]
type Check = fn(&LentHeap<'_>, (u64, u64), bool, u32) -> Result<(), Fault>;

/// In a module: its image.
#[cfg(feature = "modules")]
pub(crate) static IMAGE: spin::Once<ModuleImage> = spin::Once::new();
