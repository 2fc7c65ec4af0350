//! Shared memory: the hosted image as a process of its own over a sealed memfd.
//!
//! The memfd is sealed against shrinking, growing and further seals before anybody gets it: a peer that could truncate it
//! would kill this process with SIGBUS. The host holds a lock on it, so a second host is refused. It has no name in any
//! file system: when both processes are gone, so is the memory.

use crate::launcher::{LaunchRequest, Launcher};
use crate::mapping::map_window;
use crate::{Error, Target};
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::link::{Capabilities, Link, Peer};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{FlockOperation, MemfdFlags, SealFlags};
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// First bytes on the socket to the image; the same as in the image's runtime.
const GREETING: &[u8; 8] = b"hamrshm1";
/// Name of every window's memfd begins so; `inspect` looks for it.
pub(crate) const MEMFD_PREFIX: &str = "hamr:";

/// Starts hosted images.
pub(crate) struct ShmLauncher;

impl Launcher for ShmLauncher {
    fn describe(&self) -> String {
        "the image as a process of its own over shared memory (default)".into()
    }

    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        Ok(argument.is_empty().then(Target::hosted))
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        if !request.argument.is_empty() {
            return Err(join(request.argument));
        }
        let device = request.device;
        let fail = |why: String| Error::Launch { device: device.into(), why };
        let image = request.image.ok_or_else(|| fail("shared memory needs an image".into()))?;
        let memfd = make_window(device, request.window_len)?;
        let window = map_window(&memfd, request.window_len, true)?;
        let process = Process::start(&image.path, &memfd, request.cpu).map_err(|e| match e {
            Error::Os { what, source } => fail(format!("{what}: {source}")),
            other => other,
        })?;
        let image = image.path.clone();
        Ok(Box::new(ShmLink { window, process: Mutex::new(process), memfd, image, cpu: request.cpu }))
    }
}

fn make_window(device: &str, len: u64) -> Result<OwnedFd, Error> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let name = format!("{MEMFD_PREFIX}{device}");
    let memfd = rustix::fs::memfd_create(&name, flags).map_err(Error::os("making a memfd"))?;
    rustix::fs::ftruncate(&memfd, len).map_err(Error::os(format!("sizing a window of {len} bytes")))?;
    rustix::fs::flock(&memfd, FlockOperation::NonBlockingLockExclusive).map_err(Error::os("locking the window"))?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&memfd, seals).map_err(Error::os("sealing the window"))?;
    Ok(memfd)
}

/// Memory of the kind that shared-memory devices have, mapped and without a device: what a copy into it costs is the
/// floor under `put` and `get`.
///
/// # Errors
/// When the system gives no memory.
pub fn window_without_device(len: u64) -> Result<Window<Shared>, Error> {
    let memfd = make_window("floor", len)?;
    map_window(&memfd, len, true)
}

/// `shm:PATH`: a window that somebody else made. It has a host as long as its device lives, so this is always refused,
/// with the reason; a window without a host has no device either.
fn join(path: &str) -> Error {
    let file = match std::fs::OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(source) => return Error::Os { what: format!("opening window {path}"), source },
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(_) => Error::Owned { window: path.into(), owner: owner(&file) },
        Ok(()) => Error::Launch {
            device: format!("shm:{path}"),
            why: "expected a window with a device, got one that no host and no device has open; start a device with `--device shm`".into(),
        },
    }
}

fn owner(file: &std::fs::File) -> String {
    use hamr_comm::abi::preamble::{MAGIC, PREAMBLE_BYTES, Preamble};
    let preamble = map_window(file, PREAMBLE_BYTES, false)
        .and_then(|w| w.read::<Preamble>(0).map_err(|e| Error::Plan(e.to_string())));
    match preamble {
        Ok(p) if p.magic == MAGIC => format!("process {}", p.host_pid),
        _ => "its lock is held".into(),
    }
}

struct ShmLink {
    window: Window<Shared>,
    process: Mutex<Process>,
    memfd: OwnedFd,
    /// For the next start.
    image: PathBuf,
    cpu: Option<usize>,
}

/// One life of the image.
struct Process {
    child: Child,
    how: Option<String>,
    pidfd: OwnedFd,
    /// Our end: closing it ends the image.
    _socket: OwnedFd,
}

impl Process {
    fn start(image: &Path, memfd: &OwnedFd, cpu: Option<usize>) -> Result<Self, Error> {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .map_err(Error::os("making a socket pair"))?;
        let mut command = Command::new(image);
        command.stdin(Stdio::from(theirs)).stdout(Stdio::null());
        let mut child = command.spawn().map_err(Error::io(image.display().to_string()))?;
        match Self::greet(&child, &ours, memfd, cpu) {
            Ok(pidfd) => Ok(Self { child, how: None, pidfd, _socket: ours }),
            Err(e) => {
                // An error means that it has ended by itself.
                let _ = child.kill();
                let _ = child.wait();
                Err(e)
            }
        }
    }

    fn greet(child: &Child, socket: &OwnedFd, memfd: &OwnedFd, cpu: Option<usize>) -> Result<OwnedFd, Error> {
        let pid = rustix::process::Pid::from_child(child);
        let flags = rustix::process::PidfdFlags::empty();
        let pidfd = rustix::process::pidfd_open(pid, flags).map_err(Error::os("watching the image's process"))?;
        if let Some(cpu) = cpu {
            let mut set = rustix::thread::CpuSet::new();
            set.set(cpu);
            rustix::thread::sched_setaffinity(Some(pid), &set)
                .map_err(Error::os(format!("pinning the image to processor {cpu}")))?;
        }
        let fds = [memfd.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        // An image that has died already is reported by the handshake, with how it ended.
        let _ = rustix::net::sendmsg(socket, &[IoSlice::new(GREETING)], &mut ancillary, SendFlags::NOSIGNAL);
        tracing::debug!(pid = pid.as_raw_nonzero().get(), memfd = memfd.as_raw_fd(), "started the image");
        Ok(pidfd)
    }

    fn has_exited(&self) -> bool {
        let mut fds = [rustix::event::PollFd::new(&self.pidfd, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)).is_ok_and(|n| n > 0)
    }

    /// Waits for the end and says how it was.
    fn reap(&mut self) -> String {
        let Self { child, how, .. } = self;
        how.get_or_insert_with(|| match child.wait() {
            Ok(status) => format!("its process {} ended with {status}", child.id()),
            Err(e) => format!("its process {} ended ({e})", child.id()),
        })
        .clone()
    }
}

impl ShmLink {
    fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link for ShmLink {
    fn kind(&self) -> &str {
        "shm"
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            host_maps_device: true,
            device_reaches_host: true,
            coherent: true,
            line_read_atomic: false,
            doorbell: false,
        }
    }
    fn window(&self) -> &Window<Shared> {
        &self.window
    }
    fn ring(&self) {}
    fn wait(&self, max_us: u32) {
        if max_us == 0 {
            std::hint::spin_loop();
        } else {
            std::thread::sleep(Duration::from_micros(max_us.into()));
        }
    }
    fn peer(&self) -> Peer {
        let mut process = self.process();
        if process.has_exited() { Peer::Gone(process.reap()) } else { Peer::Alive }
    }
    fn stop(&self) {
        let mut process = self.process();
        if !process.has_exited() {
            // An error means that it has ended by itself.
            let _ = process.child.kill();
        }
        process.reap();
    }
    fn restart(&self) -> Result<(), String> {
        let mut process = self.process();
        if !process.has_exited() {
            return Err("its process has not ended".into());
        }
        process.reap();
        *process = Process::start(&self.image, &self.memfd, self.cpu).map_err(|e| e.to_string())?;
        Ok(())
    }
}

impl Drop for ShmLink {
    fn drop(&mut self) {
        self.stop();
    }
}
