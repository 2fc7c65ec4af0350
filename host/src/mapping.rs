//! Maps a window into the host (contract "host map").

#![expect(unsafe_code)]
// UNSAFETY: mmap hands out raw memory; the mapping is owned by one object that unmaps it when the
// last window over it is gone.
//
// Contract "host map". As contract "hosted map", over files that the host made and sealed, without a
// `DeviceWindow`; a lock keeps a second host away. Seals and length of the file of a device that
// another process keeps are checked before it is mapped, also where `restore` replaces a mapping. On a
// bus the file cannot be truncated, and a function that leaves it reads as ones, or as before.
// `provide_pages` changes no byte.
// Accepted: a read-only mapping, of another process's window, breaks "writable" in S1. A store would
// fault; only code that reads gets one, which the type does not show.

use crate::Error;
use crate::memfd::make_window;
use hamr_comm::abi::window::{Shared, Window};
use hamr_qemu::origin::{InOneProcess, register};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, mmap_anonymous, msync, munmap};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

/// A shared mapping, unmapped when dropped.
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is memory without thread affinity; access is governed by `Window`.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn replace_by_zeros(&self) -> Result<(), Errno> {
        self.map_zeros(MapFlags::FIXED).map_err(|why| self.keep(why))
    }

    /// The system has refused to replace it. It may have ended what was there first, as Linux did before 6.12: windows over it find
    /// zeros then, and where there are not even those, this program ends.
    fn keep(&self, why: Errno) -> Errno {
        // SAFETY: starts to write back what is there, and changes no memory.
        let is_there = unsafe { msync(self.base.as_ptr().cast(), self.len, MsyncFlags::ASYNC) }.is_ok();
        // Never over what another thread has mapped there meanwhile.
        if !is_there && self.map_zeros(MapFlags::FIXED_NOREPLACE).is_err() {
            // Also in a copy of the process, where a lock may be held for ever.
            const LAST: &[u8] = b"hamr: the system has ended a window's mapping and has no memory to put there\n";
            let _ = rustix::io::write(rustix::stdio::stderr(), LAST);
            std::process::abort();
        }
        why
    }

    fn map_zeros(&self, place: MapFlags) -> Result<(), Errno> {
        let Self { base, len } = *self;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE | place);
        // SAFETY: replaces this mapping and nothing else, in one step: at every moment the range is mapped, readable,
        // and as writable as before. Windows over it expect any value at any time, because a peer writes there.
        unsafe { mmap_anonymous(base.as_ptr().cast(), len, access, flags) }.map(drop)
    }
}

/// A copy of the process has memory of its own there: what its threads still store into a window, as
/// [`Words`](hamr_comm::abi::window::Words) do, no device sees.
impl InOneProcess for Mapping {
    fn forget(&self) {
        // It fails without a mapping to spare: then the copy is as any other process that has the window.
        let _ = self.replace_by_zeros();
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `map_window_at` with this address and length; the last window over it
        // is gone.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A file that windows can be mapped from, for a [`Link`](crate::link::Link) of one's own: in memory, no other program can shrink it, which
/// would end this one by a signal. Of a device, its driver answers for that while windows exist.
///
/// ```
/// use hamr::link::WindowFile;
/// let file = WindowFile::new("my-board", 1 << 20)?;      // for the device's process: a file, AsFd
/// let (window, _) = file.map(0, 1 << 20)?;
/// let (theirs, map) = file.map(4096, 4096)?;
/// window.write_bytes(4096, b"hello")?;
/// let mut seen = [0; 5];
/// theirs.read_bytes(0, &mut seen)?;
/// assert_eq!(&seen, b"hello");
/// map.revoke()?;                                          // Link::release: stores do not reach the file any more
/// theirs.read_bytes(0, &mut seen)?;
/// assert_eq!(seen, [0; 5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct WindowFile {
    file: OwnedFd,
    /// `None`: a device, which refuses mappings that it does not have.
    len: Option<u64>,
}

impl WindowFile {
    /// A new file in memory, of zeros, that nobody can shrink or grow, for a device of this name.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn new(device: &str, len: u64) -> Result<Self, Error> {
        Ok(Self { file: make_window(device, len)?, len: Some(len) })
    }

    /// A file that is there: one in memory that is sealed against shrinking, a character device (`/dev/uio0`), or one of sysfs (a
    /// function's `resource2`).
    ///
    /// # Errors
    /// It is another kind of file.
    pub fn of(file: OwnedFd) -> Result<Self, Error> {
        const SYSFS: u64 = 0x6265_6572;
        const HUGETLBFS: u64 = 0x9584_58f6;
        let facts = rustix::fs::fstat(&file).map_err(Error::os("looking at the file of a window"))?;
        if FileType::from_raw_mode(facts.st_mode) == FileType::CharacterDevice {
            return Ok(Self { file, len: None });
        }
        let system = rustix::fs::fstatfs(&file).map_or(0, |system| system.f_type as u64);
        let is_sealed = rustix::fs::fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        // Of huge pages a mapping cannot be replaced in part, nor by others.
        if is_sealed && system != HUGETLBFS || system == SYSFS {
            return Ok(Self { file, len: Some(facts.st_size.unsigned_abs()) });
        }
        let source = std::io::Error::other(
            "expected a file that no program can shrink: sealed and not of huge pages, a device, or of sysfs",
        );
        Err(Error::Os { what: "mapping a window".into(), source })
    }

    /// Maps `len` bytes from `off` on, a multiple of the page size, and returns what ends the mapping while windows over it exist.
    ///
    /// # Errors
    /// The file does not have these bytes, or the system refuses.
    pub fn map(&self, off: u64, len: u64) -> Result<(Window<Shared>, Revocable), Error> {
        Self::check_in(self.len.unwrap_or(u64::MAX), off, len)?;
        map_revocable(&self.file, off, len, true)
    }

    /// [`Self::map`], to read only: a store through the window would end this program.
    ///
    /// # Errors
    /// As of [`Self::map`].
    #[doc(hidden)]
    pub fn map_to_read(&self, off: u64, len: u64) -> Result<Window<Shared>, Error> {
        Self::check_in(self.len.unwrap_or(u64::MAX), off, len)?;
        map_window_at(&self.file, off, len, false)
    }

    fn check_in(has: u64, off: u64, len: u64) -> Result<(), Error> {
        match off.checked_add(len) {
            Some(end) if end <= has => Ok(()),
            _ => {
                let source =
                    std::io::Error::other(format!("expected a file of at least {off} + {len} bytes, got {has}"));
                Err(Error::Os { what: "mapping a window".into(), source })
            }
        }
    }
}

impl AsFd for WindowFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Maps the first `len` bytes of the file behind `fd`, which must be sealed against shrinking, or
/// be a file that only the caller could shrink. `writable` false maps read-only: a later write
/// through the window would fault, so only readers use it.
pub(crate) fn map_window(fd: impl AsFd, len: u64, writable: bool) -> Result<Window<Shared>, Error> {
    map_window_at(fd, 0, len, writable)
}

/// [`map_window`] from `off` on, a multiple of the page size: one descriptor may provide several
/// memories of a function.
pub(crate) fn map_window_at(fd: impl AsFd, off: u64, len: u64, writable: bool) -> Result<Window<Shared>, Error> {
    Ok(map_revocable(fd, off, len, writable)?.0)
}

/// Ends a mapping while windows over it exist.
pub struct Revocable(Arc<Mapping>);

impl std::fmt::Debug for Revocable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a mapping of {} bytes", self.0.len)
    }
}

impl Revocable {
    /// Replaces the file's memory by zeros of this program's own. The file then has one user less.
    ///
    /// # Errors
    /// The system has no mapping to spare.
    pub fn revoke(&self) -> Result<(), Error> {
        self.0.replace_by_zeros().map_err(Error::os("letting go of a mapping"))
    }

    /// Replaces the memory by that of another file, from `off` on, for a device that is back with other memory. Not by that of a character device.
    ///
    /// # Errors
    /// As [`WindowFile::map`].
    pub fn replace(&self, file: &WindowFile, off: u64) -> Result<(), Error> {
        // Of a device, only the system knows what it has, and where it refuses, nothing is mapped any more.
        WindowFile::check_in(file.len.unwrap_or(0), off, self.0.len as u64)?;
        // Elsewhere first: a file that refuses does so behind the end of what was mapped here.
        let _probe = file.map(off, self.0.len as u64)?;
        self.restore(&file.file, off)
    }

    /// Replaces the memory by that of another file, from `off` on, for a device whose own memory is
    /// gone. The file has to be one that [`map_window`] could map in full.
    pub(crate) fn restore(&self, fd: impl AsFd, off: u64) -> Result<(), Error> {
        let Mapping { base, len } = *self.0;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
        // SAFETY: as in `revoke`: the mapping that `self.0` keeps is replaced in one step, and the
        // caller's file is as long as it.
        let mapped = unsafe { mmap(base.as_ptr().cast(), len, access, flags, fd, off) };
        mapped
            .map(drop)
            .map_err(|why| self.0.keep(why))
            .map_err(Error::os("mapping the memory of a device that is back"))
    }
}

/// Has the system provide the pages of a range that is about to be written, all at once: each fault costs more than half of
/// what it provides. Where the system cannot, nothing happens, and each page comes at its first use.
pub(crate) fn provide_pages(address: usize, bytes: usize) {
    let first = address & !(rustix::param::page_size() - 1);
    let from = std::ptr::without_provenance_mut(first);
    // SAFETY: what is at any address stays as it is: pages are provided as if a byte of each had been read and stored
    // again, which a mapping that is not there, or is not writable, refuses by an error.
    let _ = unsafe { madvise(from, address - first + bytes, Advice::LinuxPopulateWrite) };
}

/// [`map_window_at`], and the object that can end the mapping.
pub(crate) fn map_revocable(
    fd: impl AsFd,
    off: u64,
    len: u64,
    writable: bool,
) -> Result<(Window<Shared>, Revocable), Error> {
    let mut access = ProtFlags::READ;
    access.set(ProtFlags::WRITE, writable);
    // A private read-only mapping of a shared file also shows the writer's changes, but without a
    // guarantee; SHARED guarantees it.
    let what = || format!("mapping a window of {len} bytes");
    let too_long = |_| Error::Os { what: what(), source: std::io::ErrorKind::FileTooLarge.into() };
    let bytes = usize::try_from(len).map_err(too_long)?;
    // SAFETY: a fresh mapping at an address the kernel chooses touches no memory of this program.
    let raw =
        unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, fd, off) }.map_err(Error::os(what()))?;
    own(raw, bytes, writable, what)
}

/// Maps all `len` bytes of a device's memory, and behind them the first `host_len` of memory of the host's, or zeros where
/// there is no such file; both as [`map_window`].
pub(crate) fn map_two(
    device: impl AsFd,
    len: u64,
    host: Option<impl AsFd>,
    host_len: u64,
    writable: bool,
) -> Result<Window<Shared>, Error> {
    let mut access = ProtFlags::READ;
    access.set(ProtFlags::WRITE, writable);
    let what = || format!("mapping a window of {len} bytes and {host_len} of the host's");
    let sizes = usize::try_from(len).ok().zip(usize::try_from(host_len).ok());
    let sizes = sizes.and_then(|(len, host_len)| Some((len, host_len, len.checked_add(host_len)?)));
    let (len, host_len, bytes) =
        sizes.ok_or_else(|| Error::Os { what: what(), source: std::io::ErrorKind::FileTooLarge.into() })?;
    let none = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: as in `map_revocable`.
    let raw = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, none) }.map_err(Error::os(what()))?;
    let (window, _) = own(raw, bytes, writable, what)?;
    let fixed = MapFlags::SHARED | MapFlags::FIXED;
    // SAFETY: replaces the first part of the mapping above, which `window` keeps and nothing uses yet.
    unsafe { mmap(raw, len, access, fixed, device, 0) }.map_err(Error::os(what()))?;
    if let Some(host) = host {
        // SAFETY: so many bytes are behind `len` in that mapping.
        let at = unsafe { raw.byte_add(len) };
        // SAFETY: as above, of the second part.
        unsafe { mmap(at, host_len, access, fixed, host, 0) }.map_err(Error::os(what()))?;
    }
    Ok(window)
}

/// A window over a mapping that is there, which it unmaps at its end.
fn own(
    raw: *mut std::ffi::c_void,
    bytes: usize,
    writable: bool,
    what: impl Fn() -> String,
) -> Result<(Window<Shared>, Revocable), Error> {
    let base = NonNull::new(raw.cast::<u8>()).ok_or_else(|| Error::Os {
        what: what(),
        source: std::io::Error::other("expected an address of the kernel's choice, got zero"),
    })?;
    let mapping = Arc::new(Mapping { base, len: bytes });
    if writable {
        let weak: Weak<Mapping> = Arc::downgrade(&mapping);
        register(weak);
    }
    let revocable = Revocable(mapping.clone());
    // SAFETY: the mapping is page-aligned and exists as long as its owner; no reference covers it,
    // and a host makes no device window.
    let window = unsafe { Window::new(base, bytes, mapping) };
    Ok((window.share(), revocable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_can_be_shrunk_and_bytes_that_are_not_there_are_refused() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(8192).expect("room");
        let error = WindowFile::of(file.into()).expect_err("it can be shrunk").to_string();
        assert!(error.contains("no program can shrink"), "{error}");
        let file = WindowFile::new("test", 8192).expect("a file");
        let copy = file.as_fd().try_clone_to_owned().expect("a descriptor");
        let same = WindowFile::of(copy).expect("it is sealed");
        for (off, len) in [(0, 8193), (4096, 4097), (u64::MAX, 1), (1 << 63, 1 << 63)] {
            assert!(same.map(off, len).is_err(), "{off} {len}");
        }
        let (window, map) = same.map(4096, 4096).expect("there");
        window.write_bytes(0, &[7]).expect("inside");
        map.replace(&file, 0).expect("as long");
        let mut seen = [1];
        window.read_bytes(0, &mut seen).expect("inside");
        assert_eq!(seen, [0]);
        assert!(map.replace(&WindowFile::new("short", 4095).expect("a file"), 0).is_err());
    }
}
