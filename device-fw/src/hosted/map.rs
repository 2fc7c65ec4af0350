//! Maps the window into this process (`docs/unsafe.md` "hosted map").

#![expect(unsafe_code)]
// UNSAFETY: mmap hands out raw memory; the mapping is owned by one object that unmaps it when the
// last window over it is gone.

use super::control::{StartError, size_of_file};
use core::ptr::NonNull;
use hamr_comm::abi::preamble::PREAMBLE_BYTES;
use hamr_comm::abi::window::{DeviceWindow, Window};
use rustix::fd::AsFd;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::sync::Arc;

/// A shared mapping, unmapped when dropped.
pub(super) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is memory without thread affinity; access is governed by `Window`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// The dispatcher's window, and one of the preamble's words.
type Ends = (DeviceWindow<Arc<Mapping>>, Window<Arc<Mapping>>);

impl Mapping {
    /// All of the file behind `fd`: what the dispatcher serves, and a window for the preamble's
    /// words.
    pub(super) fn of(fd: impl AsFd) -> Result<Ends, StartError> {
        let len = size_of_file(&fd)? as usize;
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address the kernel chooses touches no memory of this
        // program; the file is sealed against shrinking (checked by the caller), so no access
        // inside `len` can fault.
        let raw = unsafe { mmap(core::ptr::null_mut(), len, both, MapFlags::SHARED, fd, 0) }?;
        let base = NonNull::new(raw.cast()).ok_or(StartError::NoWindow)?;
        let mapping = Arc::new(Self { base, len });
        // SAFETY: the mapping is page-aligned, readable, writable, and exists as long as the Arc
        // that the window keeps; it is this mapping's only one, and the window beside it reaches
        // the preamble alone.
        let device = unsafe { DeviceWindow::new(base, len, mapping.clone()) };
        // SAFETY: as above; it ends where the preamble does, which no heap covers.
        let words = unsafe { Window::new(base, len.min(PREAMBLE_BYTES as usize), mapping) };
        Ok((device, words))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `of` with this address and length; nothing refers to it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
