//! What a module has of its image.

use super::Shared;
use crate::fault::Fault;
use core::sync::atomic::Ordering::Relaxed;
use hamr_shared_abi::window::LentHeap;

impl Shared {
    /// Becomes as that of the image. No other handler runs meanwhile.
    pub(crate) fn follow(&self, image: &Self) {
        let Self { claimed, present } = image;
        self.claimed.store(claimed.load(Relaxed), Relaxed);
        self.present.store(present.load(Relaxed), Relaxed);
    }
}

/// What a module is given of its image.
pub struct ModuleImage {
    #[cfg_attr(not(hamr_bare), expect(dead_code, reason = "panics of a module in a process end in the module"))]
    pub(crate) panic: Panic,
    pub(crate) shared: &'static Shared,
    /// [`claims::check`](crate::claims::check).
    pub(crate) check: Check,
}

/// Ends the running call by a panic, in the image.
pub type Panic = fn(&core::panic::PanicInfo<'_>) -> !;

type Check = fn(&LentHeap<'_>, (u64, u64), bool, u32) -> Result<(), Fault>;

/// In a module: its image.
pub(crate) static IMAGE: spin::Once<ModuleImage> = spin::Once::new();
