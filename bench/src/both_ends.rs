//! Both ends of one memory in one program, for counts of instructions.

#![expect(unsafe_code)]
// UNSAFETY: a host's copies could meet a handler's views.

use super::BoxError;
use hamr_comm::abi::window::{DeviceWindow, Shared, Window};

/// A host's and a device's end of `len` bytes. One thread polls the device and copies, so no copy meets a view.
pub(super) fn both_ends(len: u64) -> Result<(Window<Shared>, DeviceWindow<Shared>), BoxError> {
    // SAFETY: the runs that are counted use one thread, in turn for the host and the device; a view ends with
    // its handler.
    unsafe { Window::private_pair(len) }.ok_or_else(|| "no memory for a window".into())
}
