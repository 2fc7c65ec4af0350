//! Maps the window into this process (`docs/unsafe.md` "hosted map").

#![expect(unsafe_code)]
// UNSAFETY: mmap hands out raw memory; the mapping is owned by one object that unmaps it when the
// last window over it is gone.

use super::control::{StartError, size_of_file};
use core::ptr::NonNull;
use hamr_comm::abi::window::DeviceWindow;
use rustix::fd::AsFd;
use rustix::fs::{SealFlags, fcntl_get_seals};
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

impl Mapping {
    /// All of the file behind `fd`: a window, or a world.
    pub(super) fn of(fd: impl AsFd) -> Result<DeviceWindow<Arc<Mapping>>, StartError> {
        if !fcntl_get_seals(&fd)?.contains(SealFlags::SHRINK | SealFlags::SEAL) {
            return Err(StartError::NotSealed);
        }
        let len = size_of_file(&fd)? as usize;
        let both = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address the kernel chooses touches no memory of this
        // program; the file is sealed against shrinking (checked above), so no access
        // inside `len` can fault.
        let raw = unsafe { mmap(core::ptr::null_mut(), len, both, MapFlags::SHARED, fd, 0) }?;
        let base = NonNull::new(raw.cast()).ok_or(StartError::NoWindow)?;
        let mapping = Arc::new(Self { base, len });
        // SAFETY: the mapping is page-aligned, readable, writable, and exists as long as the Arc
        // that the window keeps; it is this mapping's only one.
        Ok(unsafe { DeviceWindow::new(base, len, mapping) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `of` with this address and length; nothing refers to it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
