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
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
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
        let none = SocketFlags::CLOEXEC;
        let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, none, None)
            .map_err(Error::os("making a socket pair"))?;
        let mut command = Command::new(&image.path);
        command.stdin(Stdio::from(theirs)).stdout(Stdio::null());
        let child = command.spawn().map_err(|e| fail(format!("{}: {e}", image.path.display())))?;
        // From here on the process is ours to end: Link owns it before anything else can fail.
        let link = ShmLink { window, socket: ours, child: Mutex::new(Ending { child, how: None }), pidfd: None, memfd };
        link.finish(request.cpu)
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
    /// Our end: closing it ends the image.
    socket: OwnedFd,
    child: Mutex<Ending>,
    pidfd: Option<OwnedFd>,
    memfd: OwnedFd,
}

struct Ending {
    child: Child,
    how: Option<String>,
}

impl ShmLink {
    fn finish(mut self, cpu: Option<usize>) -> Result<Box<dyn Link>, Error> {
        let pid = {
            let ending = self.child.lock().unwrap_or_else(PoisonError::into_inner);
            rustix::process::Pid::from_child(&ending.child)
        };
        let flags = rustix::process::PidfdFlags::empty();
        self.pidfd = Some(rustix::process::pidfd_open(pid, flags).map_err(Error::os("watching the image's process"))?);
        if let Some(cpu) = cpu {
            let mut set = rustix::thread::CpuSet::new();
            set.set(cpu);
            rustix::thread::sched_setaffinity(Some(pid), &set)
                .map_err(Error::os(format!("pinning the image to processor {cpu}")))?;
        }
        let fds = [self.memfd.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        // An image that has died already is reported by the handshake, with how it ended.
        let _ = rustix::net::sendmsg(&self.socket, &[IoSlice::new(GREETING)], &mut ancillary, SendFlags::NOSIGNAL);
        tracing::debug!(pid = pid.as_raw_nonzero().get(), memfd = self.memfd.as_raw_fd(), "started the image");
        Ok(Box::new(self))
    }

    fn exited(&self) -> bool {
        let Some(pidfd) = &self.pidfd else { return false };
        let mut fds = [rustix::event::PollFd::new(pidfd, rustix::event::PollFlags::IN)];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&now)).is_ok_and(|n| n > 0)
    }

    fn reap(&self) -> String {
        let mut ending = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if ending.how.is_none() {
            let how = match ending.child.wait() {
                Ok(status) => format!("its process {} ended with {status}", ending.child.id()),
                Err(e) => format!("its process {} ended ({e})", ending.child.id()),
            };
            ending.how = Some(how);
        }
        ending.how.clone().unwrap_or_default()
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
        if self.exited() { Peer::Gone(self.reap()) } else { Peer::Alive }
    }
    fn stop(&self) {
        if !self.exited() {
            let mut ending = self.child.lock().unwrap_or_else(PoisonError::into_inner);
            // An error means that it has ended by itself.
            let _ = ending.child.kill();
        }
        self.reap();
    }
}

impl Drop for ShmLink {
    fn drop(&mut self) {
        self.stop();
    }
}
