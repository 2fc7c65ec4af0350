//! Windows in memory that this process makes and shares with a device's process.
//!
//! The memfd is sealed against shrinking, growing and further seals before any other process gets
//! it: a peer that could truncate it would kill this process with SIGBUS. The host has a lock on
//! it, so a second host is refused. It has no name in any file system: when both processes end, the
//! memory is freed.

use crate::Error;
use hamr_comm::abi::ids::RankId;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FlockOperation, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// The prefix of every window's memfd name; `inspect` searches for it.
pub(crate) const MEMFD_PREFIX: &str = "hamr:";

/// The same of the host's memory beside a window; what follows is the number of the window's inode.
pub(crate) const HOST_PREFIX: &str = "hamr-host:";

/// A sealed and locked memfd of `len` bytes.
pub(crate) fn make_window(device: &str, len: u64) -> Result<OwnedFd, Error> {
    make(&format!("{MEMFD_PREFIX}{device}"), len)
}

/// The same for what the host polls of `window`.
pub(crate) fn make_host_memory(window: impl AsFd, len: u64) -> Result<OwnedFd, Error> {
    let facts = rustix::fs::fstat(window).map_err(Error::os("looking at a memfd"))?;
    make(&format!("{HOST_PREFIX}{}", facts.st_ino), len)
}

/// The same for what a device has of its own, that drives a window of this process, which does not map it.
pub(crate) fn make_device_memory(device: &str, len: u64) -> Result<OwnedFd, Error> {
    make(&format!("hamr-device:{device}"), len)
}

fn make(name: &str, len: u64) -> Result<OwnedFd, Error> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memfd = rustix::fs::memfd_create(name, flags).map_err(Error::os("making a memfd"))?;
    let sizing = Error::os(format!("sizing a window of {len} bytes"));
    check_len(len).and_then(|()| rustix::fs::ftruncate(&memfd, len)).map_err(sizing)?;
    rustix::fs::flock(&memfd, FlockOperation::NonBlockingLockExclusive).map_err(Error::os("locking the window"))?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&memfd, seals).map_err(Error::os("sealing the window"))?;
    Ok(memfd)
}

/// An error where a file of so many bytes is beyond the limit (`ulimit -f`): the system would end this process by a
/// signal.
pub(crate) fn check_len(len: u64) -> Result<(), Errno> {
    if getrlimit(Resource::Fsize).current.is_some_and(|most| len > most) { Err(Errno::FBIG) } else { Ok(()) }
}

/// Which process each rank of a world is: a file of 32 bits a rank, 0 none. Ranks that are processes get it, and no
/// machine does, so that what is done to a process is not decided by a guest. The world's own memory would not do: all ranks
/// write there.
pub(crate) struct Processes(OwnedFd);

impl Processes {
    pub(crate) fn new(ranks: usize) -> Result<Self, Error> {
        let file = rustix::fs::memfd_create("ranks", MemfdFlags::CLOEXEC).map_err(Error::os("making a memfd"))?;
        rustix::fs::ftruncate(&file, 4 * ranks as u64).map_err(Error::os("sizing the list of ranks"))?;
        Ok(Self(file))
    }

    /// States what a rank is, before it serves.
    pub(crate) fn state(&self, rank: RankId, process: u32) -> Result<(), Error> {
        let written = rustix::io::pwrite(&self.0, &process.to_le_bytes(), 4 * u64::from(rank.0));
        written.map(|_| ()).map_err(Error::os("writing the list of ranks"))
    }

    pub(crate) fn file(&self) -> &OwnedFd {
        &self.0
    }
}
