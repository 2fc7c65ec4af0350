//! Shared memory: the hosted image as a process of its own over a memfd.

use crate::doorbells::Doorbells;
use crate::launcher::{Home, LaunchRequest, Launcher};
use crate::link::{Capabilities, Link};
use crate::mapping::map_window;
use crate::memfd::make_window;
use crate::process::{Process, ProcessLink, pin};
use crate::window::{self, InspectError};
use crate::{Error, ImageFile, Target};
use hamr_comm::abi::preamble::{MAGIC, Preamble};
use hamr_comm::abi::window::{Shared, Window};
use hamr_comm::abi::world::MAX_RANKS;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::FlockOperation;
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType};
use rustix::process::Pid;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

/// First bytes on the socket to the image; the same as in the image's runtime. The second is of a
/// rank, whose number follows.
const HANDSHAKE: &[u8; 8] = b"hamrshm1";
const WORLD_HANDSHAKE: &[u8; 8] = b"hamrwrl1";

const CAPABILITIES: Capabilities = Capabilities {
    host_maps_device: true,
    device_reaches_host: true,
    coherent: true,
    line_read_atomic: false,
    doorbell: false,
    world: false,
};

/// The launcher of hosted images: `shm` in every runtime. It is public for launchers that decorate
/// its links.
pub struct ShmLauncher;

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
        let memfd = make_window(request.device, request.window_len)?;
        let window = map_window(&memfd, request.window_len, true)?;
        let doorbells = Arc::new(Doorbells::of_process()?);
        start_over(
            request,
            CAPABILITIES,
            window,
            doorbells,
            Greeting { text: HANDSHAKE.to_vec(), memfd: memfd.into(), bells: None },
        )
    }

    fn launch_rank(&self, request: &LaunchRequest<'_>, home: Home) -> Result<Box<dyn Link>, Error> {
        let text = [&WORLD_HANDSHAKE[..], &home.rank.0.to_le_bytes()].concat();
        let capabilities = Capabilities { world: true, ..CAPABILITIES };
        let greeting = Greeting { text, memfd: home.world, bells: Some(home.bells) };
        start_over(request, capabilities, home.window, home.doorbells, greeting)
    }
}

/// What an image gets at its start, besides its doorbells.
struct Greeting {
    text: Vec<u8>,
    memfd: Arc<OwnedFd>,
    /// Of a rank: what it notifies the ranks by.
    bells: Option<Arc<[OwnedFd]>>,
}

/// Starts an image whose window is in `memfd`.
fn start_over(
    request: &LaunchRequest<'_>,
    capabilities: Capabilities,
    window: Window<Shared>,
    doorbells: Arc<Doorbells>,
    greeting: Greeting,
) -> Result<Box<dyn Link>, Error> {
    let &LaunchRequest { device, image, cpu, .. } = request;
    let none = || Error::Launch { device: device.into(), why: "shared memory needs an image".into() };
    let image = image.ok_or_else(none)?.clone();
    let theirs = doorbells.clone();
    let start = move || start(&image, &greeting, &theirs, cpu);
    Ok(Box::new(ProcessLink::start("shm", device, capabilities, window, Some(doorbells), start)?))
}

/// `shm:PATH`: a window of another program. It has a host as long as its device runs, so this is
/// always refused, with the reason; a window without a host has no device either.
fn join(path: &str) -> Error {
    let refused = |why: String| Error::Launch { device: format!("shm:{path}"), why };
    // Reads before it locks, because a lock would keep the window's own host out.
    let window = match window::open(Path::new(path)) {
        Ok(window) => window,
        Err(InspectError::Os { path, what, source }) => {
            return Error::Os { what: format!("{}: {what}", path.display()), source };
        }
        Err(e) => return refused(e.to_string()),
    };
    let file = match std::fs::OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(source) => return Error::Os { what: format!("opening window {path}"), source },
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(_) => Error::Owned { window: path.into(), owner: owner(&window) },
        Ok(()) => refused(
            "expected a window with a device, got one that no host and no device has open; start a device with `--device shm`".into(),
        ),
    }
}

fn owner(window: &Window<Shared>) -> String {
    match window.read::<Preamble>(0) {
        Ok(p) if p.magic == MAGIC => format!("process {}", p.host_pid),
        _ => "another process has its lock".into(),
    }
}

/// Starts the image and sends it the window and the doorbells: the one that it sleeps on, the one of
/// this process, those of all ranks.
fn start(
    image: &ImageFile,
    Greeting { text, memfd, bells }: &Greeting,
    doorbells: &Doorbells,
    cpu: Option<usize>,
) -> Result<Process, Error> {
    let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(Error::os("making a socket pair"))?;
    let [own, host] = doorbells.theirs();
    let bells = bells.iter().flat_map(|bells| bells.iter().map(OwnedFd::as_fd));
    let fds: Vec<BorrowedFd<'_>> = [memfd.as_fd(), own, host].into_iter().chain(bells).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3 + MAX_RANKS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    // Before the process starts: a program looks whether it is a rank, and does not wait for that.
    rustix::net::sendmsg(&ours, &[IoSlice::new(text)], &mut ancillary, SendFlags::NOSIGNAL)
        .map_err(Error::os("sending the window to an image"))?;
    let mut command = image.command();
    let stdout = if image.is_program() { Stdio::inherit() } else { Stdio::null() };
    command.stdin(Stdio::from(theirs)).stdout(stdout);
    let child = command.spawn().map_err(Error::io(image.path.display().to_string()))?;
    let pid = Pid::from_child(&child);
    tracing::debug!(pid = pid.as_raw_nonzero().get(), memfd = memfd.as_raw_fd(), "started the image");
    // The image ends when this end of the socket is closed.
    let process = Process::watch(child, ours, |_| String::new())?;
    if let Some(cpu) = cpu {
        pin(pid, cpu)?;
    }
    Ok(process)
}
