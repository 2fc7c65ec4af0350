//! A window in the image's own memory, for boards without a card: `image!(window = …)` reserves it, as the symbol `hamr_window`, by
//! which a host finds it in the image's file (abi §10).

#![expect(unsafe_code)]
// UNSAFETY: a static becomes a window (contract "bare image").
//
// Contract "bare image". Script and bus keep stacks, `.bss` and the window apart, and the window is
// made once, by one function.

use super::bare_board::StartError;
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use hamr_comm::abi::window::DeviceWindow;

/// Memory of a window. It has no start value.
#[doc(hidden)]
#[repr(C, align(4096))]
pub struct WindowMemory<const BYTES: usize>(UnsafeCell<[u8; BYTES]>);

// SAFETY: a shared reference offers its address only.
unsafe impl<const BYTES: usize> Sync for WindowMemory<BYTES> {}

impl<const BYTES: usize> WindowMemory<BYTES> {
    #[expect(clippy::new_without_default, reason = "for `image!` alone")]
    pub const fn new() -> Self {
        Self(UnsafeCell::new([0; BYTES]))
    }

    /// Where it is, and its length.
    pub fn place(&self) -> (NonNull<u8>, usize) {
        (NonNull::from_ref(&self.0).cast(), BYTES)
    }
}

unsafe extern "Rust" {
    /// Defined by `image!`.
    #[link_name = "__hamr_reserved_window"]
    safe fn place() -> (NonNull<u8>, usize);
}

/// The window that the image reserves.
///
/// # Errors
/// It reserves none, or the window was taken already.
pub fn reserved_window() -> Result<DeviceWindow<()>, StartError> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let (base, len) = place();
    if len == 0 {
        return Err(StartError::Board(
            "expected memory for a window, the image has none: say `image!(window = BYTES)`",
        ));
    }
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Err(StartError::Board("expected that the window is taken once"));
    }
    // SAFETY: the static that only `image!` makes, of `len` bytes aligned to 4096, which no code refers to but this function,
    // once.
    Ok(unsafe { DeviceWindow::new(base, len, ()) })
}
