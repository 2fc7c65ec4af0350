//! Both ends of one memory in one program, for tests of what is above the link.

#![expect(unsafe_code)]

use hamr_comm::abi::window::{DeviceWindow, Shared, Window};

/// A host's and a device's end of `len` bytes. The host's copies nothing into or out of the heap while a handler
/// has a view of it: its tests poll the device in their own thread, or copy through a node, whose records refuse
/// buffers that calls name.
pub fn both_ends(len: u64) -> (Window<Shared>, DeviceWindow<Shared>) {
    // SAFETY: as said above.
    unsafe { Window::private_pair(len) }.expect("memory")
}
