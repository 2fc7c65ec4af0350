//! Windows in memory that this process makes and shares with a device's process.
//!
//! The memfd is sealed against shrinking, growing and further seals before any other process gets
//! it: a peer that could truncate it would kill this process with SIGBUS. The host has a lock on
//! it, so a second host is refused. It has no name in any file system: when both processes end, the
//! memory is freed.

use crate::Error;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, MemfdFlags, SealFlags};

/// The prefix of every window's memfd name; `inspect` searches for it.
pub(crate) const MEMFD_PREFIX: &str = "hamr:";

/// A sealed and locked memfd of `len` bytes.
pub(crate) fn make_window(device: &str, len: u64) -> Result<OwnedFd, Error> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let name = format!("{MEMFD_PREFIX}{device}");
    let memfd = rustix::fs::memfd_create(&name, flags).map_err(Error::os("making a memfd"))?;
    rustix::fs::ftruncate(&memfd, len).map_err(Error::os(format!("sizing a window of {len} bytes")))?;
    rustix::fs::flock(&memfd, FlockOperation::NonBlockingLockExclusive).map_err(Error::os("locking the window"))?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&memfd, seals).map_err(Error::os("sealing the window"))?;
    Ok(memfd)
}
