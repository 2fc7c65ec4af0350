//! Maps the window into this process (contract "hosted map").

#![expect(unsafe_code)]
// UNSAFETY: mmap hands out raw memory; the mapping is owned by one object that unmaps it when the
// last window over it is gone.
//
// Contract "hosted map". The image starts only with files sealed against shrinking: its window, and
// host memory where there is some, mapped behind it in one range of addresses. The heap lies between
// the two and is split off. The thread that watches the host has a word of the preamble, and of a rank
// the front of its world. A rank that is a thread maps the world for itself: two mappings, as of two
// programs.

use super::control::{StartError, size_of_file};
use core::ptr::NonNull;
use hamr_comm::abi::window::{DeviceWindow, Window};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{SealFlags, fcntl_get_seals};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::process::{Resource, getrlimit};
use std::sync::Arc;

/// A mapping begins at a multiple of it, so that large pages of the file can be such in this program.
const LARGE_PAGE: usize = 2 << 20;

/// A shared mapping within addresses that are its own, unmapped when dropped.
pub(super) struct Mapping {
    addresses: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is memory without thread affinity; access is governed by `Window`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// All of the file behind `fd`, a window, or a world; and behind it all of another one, memory of the host's.
    pub(super) fn of(fd: impl AsFd, host: Option<impl AsFd>) -> Result<DeviceWindow<Arc<Mapping>>, StartError> {
        let (base, len, mapping) = Self::map(fd, host)?;
        // SAFETY: the mapping is page-aligned, readable, writable, and exists as long as the Arc
        // that the window keeps; it is this mapping's only one.
        Ok(unsafe { DeviceWindow::new(base, len, mapping) })
    }

    /// All of a file once more, for copies into and out of a heap, as another process has it.
    pub(super) fn beside(fd: impl AsFd) -> Result<Window<Arc<Mapping>>, StartError> {
        let (base, len, mapping) = Self::map(fd, None::<&OwnedFd>)?;
        // SAFETY: as above; no reference covers a byte of this mapping, whose addresses are its own.
        Ok(unsafe { Window::new(base, len, mapping) })
    }

    fn map(fd: impl AsFd, host: Option<impl AsFd>) -> Result<(NonNull<u8>, usize, Arc<Mapping>), StartError> {
        let first_len = sealed_len(&fd)?;
        let host_len = host.as_ref().map_or(Ok(0), sealed_len)?;
        let len = first_len.checked_add(host_len).ok_or(StartError::NoWindow)?;
        let none = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let reserved = len.checked_add(LARGE_PAGE).ok_or(StartError::NoWindow)?;
        // SAFETY: a fresh mapping at an address the kernel chooses touches no memory of this program.
        let addresses = unsafe { mmap_anonymous(core::ptr::null_mut(), reserved, ProtFlags::empty(), none) };
        let addresses = addresses.map_err(|why| refused(reserved, why))?;
        let addresses = NonNull::new(addresses.cast::<u8>()).ok_or(StartError::NoWindow)?;
        let mapping = Arc::new(Self { addresses, len: reserved });
        // SAFETY: less than the reserved bytes more than `len` behind their begin.
        let base = unsafe { addresses.add(addresses.align_offset(LARGE_PAGE)) };
        let (both, fixed) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
        // SAFETY: replaces a part of the mapping above, which nothing uses. The file is sealed against
        // shrinking (checked above), so no access inside its length can fault.
        unsafe { mmap(base.as_ptr().cast(), first_len, both, fixed, fd, 0) }?;
        if let Some(host) = host {
            // SAFETY: less than `len`, which is mapped from `base` on.
            let behind = unsafe { base.add(first_len) };
            // SAFETY: as above, of the part behind the first.
            unsafe { mmap(behind.as_ptr().cast(), host_len, both, fixed, host, 0) }?;
        }
        Ok((base, len, mapping))
    }
}

/// Bytes of a file that no process can shrink.
fn sealed_len(fd: impl AsFd) -> Result<usize, StartError> {
    if !fcntl_get_seals(&fd)?.contains(SealFlags::SHRINK | SealFlags::SEAL) {
        return Err(StartError::NotSealed);
    }
    usize::try_from(size_of_file(fd)?).map_err(|_| StartError::NoWindow)
}

/// So many zeros, for as long as the process runs.
pub(super) fn zeroed(len: usize) -> Result<&'static mut [u8], StartError> {
    let both = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address the kernel chooses touches no memory of this program.
    let base = unsafe { mmap_anonymous(core::ptr::null_mut(), len, both, MapFlags::PRIVATE | MapFlags::NORESERVE) };
    let base = base.map_err(|why| refused(len, why))?;
    // SAFETY: mapped above, readable, writable and zero, of this length, never unmapped, and only here.
    Ok(unsafe { core::slice::from_raw_parts_mut(base.cast::<u8>(), len) })
}

/// Are there addresses for so many bytes more?
pub(super) fn check_room(bytes: usize) -> Result<(), StartError> {
    // SAFETY: as in `zeroed`.
    let base = unsafe { mmap_anonymous(core::ptr::null_mut(), bytes, ProtFlags::empty(), MapFlags::PRIVATE) };
    let base = base.map_err(|why| refused(bytes, why))?;
    // SAFETY: mapped above with this length; nothing refers to it.
    let _ = unsafe { munmap(base, bytes) };
    Ok(())
}

fn refused(bytes: usize, why: rustix::io::Errno) -> StartError {
    StartError::Memory { bytes, limit: getrlimit(Resource::As).current, why: why.into() }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this address and length; nothing refers to it any more.
        let _ = unsafe { munmap(self.addresses.as_ptr().cast(), self.len) };
    }
}
