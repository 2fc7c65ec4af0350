//! The server of `ivshmem-doorbell` for two machines (QEMU, `specs/ivshmem-spec`): the same memory for both, and for each an
//! eventfd that the other one rings.
//!
//! A socket per machine, so that numbers do not depend on who comes first: the host is 0, which is whom images ring.

use crate::Error;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Version of the protocol.
const VERSION: i64 = 0;
/// Precedes the memory.
const MEMORY: i64 = -1;

/// Who shares the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The machine with the host program.
    Host,
    /// The machine with the image.
    Device,
}

impl Side {
    fn number(self) -> i64 {
        if self == Self::Host { 0 } else { 1 }
    }
    fn name(self) -> &'static str {
        if self == Self::Host { "host.sock" } else { "device.sock" }
    }
}

struct Shared {
    memory: OwnedFd,
    bells: [OwnedFd; 2],
    is_over: AtomicBool,
}

/// Runs until it is dropped.
pub(super) struct Server {
    folder: PathBuf,
    shared: Arc<Shared>,
}

impl Server {
    /// Serves `bytes` of memory at sockets in `folder`.
    pub(super) fn start(folder: &Path, bytes: u64) -> Result<Self, Error> {
        let failed = |e: std::io::Error| Error::Failed(format!("the server of shared memory: {e}"));
        let shared = Arc::new(Shared::new(bytes).map_err(|e| failed(e.into()))?);
        for side in [Side::Host, Side::Device] {
            let path = folder.join(side.name());
            // What a run that was killed left behind.
            let _ = std::fs::remove_file(&path);
            let listener = UnixListener::bind(&path).map_err(failed)?;
            let shared = shared.clone();
            std::thread::spawn(move || serve(side, &listener, &shared));
        }
        Ok(Self { folder: folder.into(), shared })
    }

    /// QEMU's arguments for a machine of this side, with the card at device 1 of its bus.
    pub(super) fn arguments(&self, side: Side) -> Vec<String> {
        let path = self.folder.join(side.name());
        let socket = format!("socket,path={},id=hamr", path.display());
        ["-chardev", &socket, "-device", "ivshmem-doorbell,chardev=hamr,vectors=1,addr=1"].map(String::from).into()
    }

    /// Answers each ring of the device's bell with one of the host's, in place of a device, until the server ends.
    pub(super) fn ring_back(&self) {
        let shared = self.shared.clone();
        std::thread::spawn(move || {
            let [host, device] = &shared.bells;
            let limit = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            while !shared.is_over.load(Ordering::Acquire) {
                let mut fds = [PollFd::new(device, PollFlags::IN)];
                if poll(&mut fds, Some(&limit)).is_ok_and(|n| n > 0) {
                    // Both are eventfds of ours: neither is closed, full, or empty here.
                    let _ = rustix::io::read(device, &mut [0u8; 8]);
                    let _ = rustix::io::write(host, &1u64.to_le_bytes());
                }
            }
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        for side in [Side::Host, Side::Device] {
            let path = self.folder.join(side.name());
            // Wakes the thread that waits for the next machine.
            let _ = UnixStream::connect(&path);
            let _ = std::fs::remove_file(&path);
        }
    }
}

impl Shared {
    fn new(bytes: u64) -> rustix::io::Result<Self> {
        let memory = rustix::fs::memfd_create("hamr-guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&memory, bytes)?;
        rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let bell = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Ok(Self { memory, bells: [bell()?, bell()?], is_over: AtomicBool::new(false) })
    }

    /// What a machine hears: version, its number, the memory, its peer's bell, its own.
    fn greet(&self, side: Side, stream: &UnixStream) -> rustix::io::Result<()> {
        let [host, device] = &self.bells;
        let (peer, own) = if side == Side::Host { (device, host) } else { (host, device) };
        say(stream, VERSION, None)?;
        say(stream, side.number(), None)?;
        say(stream, MEMORY, Some(self.memory.as_fd()))?;
        say(stream, 1 - side.number(), Some(peer.as_fd()))?;
        say(stream, side.number(), Some(own.as_fd()))
    }
}

fn serve(side: Side, listener: &UnixListener, shared: &Shared) {
    // Kept: a machine whose socket closes would believe the server gone, which is allowed, and says so, which is noise.
    let mut connected = Vec::new();
    while let Ok((stream, _)) = listener.accept() {
        if shared.is_over.load(Ordering::Acquire) {
            return;
        }
        // A machine that has ended meanwhile is noticed by whoever waits for it.
        let _ = shared.greet(side, &stream);
        connected.push(stream);
    }
}

fn say(stream: &UnixStream, number: i64, fd: Option<BorrowedFd<'_>>) -> rustix::io::Result<()> {
    let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    }
    sendmsg(stream, &[IoSlice::new(&number.to_le_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}
