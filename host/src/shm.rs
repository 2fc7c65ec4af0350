//! Shared memory: the hosted image as a process of its own over a memfd.
//!
//! ```text
//! host                                                   image (child process)
//! memfd_create("hamr:<device>"), sized, locked, sealed
//! socketpair ─────────────────────────────────────────▶  standard input
//! greeting "hamrshm1" + the memfd's descriptor ────────▶  checks the seals, maps the window
//! …the handshake (abi §3.4) and calls, in the window; on the socket at most why the image cannot start…
//! end of file (the host ended, however) ───────────────▶  the process ends
//! ```
//!
//! Seals are against shrinking, growing and further seals: truncation would kill the peer with SIGBUS.
//!
//! - A rank of a world is greeted with "hamrwrl2" and its number (32 bits) before its process starts; the
//!   descriptor is the world's. A second message, of one byte, has the descriptor of a file in which the
//!   launcher states the process of each rank (32 bits; 0: no process). Machines do not get it.
//! - Doorbells are two pairs of sockets, whose ends are sent with the window. A host that sends the window
//!   alone gets an image that sleeps by the clock, 1 ms at most.
//! - With split placement the host makes a second sealed memfd, `hamr-host:INODE` of the window's, and sends it
//!   behind the doorbells. Both sides map it behind the window: requests are in the one, replies in the other
//!   (abi §4.6). A device that is kept by another process has one memory, with both.
//! - Device-driven, behind "hamrshm1" comes a 1 (32 bits), and behind the doorbells a sealed memfd as long as the window, which the
//!   host does not map: the image serves a window there, and drives the host's (abi §15.5). It stays over restarts.
//! - With `Options::verbs` there comes a 2, and behind all others the doorbell of the adapter (abi §16).

use crate::debugger::is_installed;
use crate::doorbells::Doorbells;
use crate::launcher::{Home, LaunchRequest, Launcher};
use crate::link::{Link, Protocol};
use crate::mapping::{map_two, map_window};
use crate::memfd::{Processes, make_device_memory, make_host_memory, make_window};
use crate::process::{Memory, Process, ProcessLink, pin};
use crate::text::Clean;
use crate::window::{self, InspectError};
use crate::{Error, ImageFile, Target};
use hamr_comm::abi::ids::RankId;
use hamr_comm::abi::preamble::{MAGIC, Preamble};
use hamr_comm::abi::window::{Shared, Window};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::process::Pid;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// First bytes on the socket to the image; the same as in the image's runtime. The second is of a
/// rank, whose number follows.
const HANDSHAKE: &[u8; 8] = b"hamrshm1";
const WORLD_HANDSHAKE: &[u8; 8] = b"hamrwrl2";
/// Bits behind the first: the image drives the window; the last descriptor notifies a program beside this one.
const DRIVES: u32 = 1;
const HAS_SIDE: u32 = 2;

/// Ranks that are processes, in one world: a message on a socket has at most 253 descriptors.
pub(crate) const MOST_PROCESSES: usize = 250;

/// Between two tries of [`unless_in_flight`].
const IN_FLIGHT_PAUSE: Duration = Duration::from_millis(2);

/// The launcher of hosted images: `shm` in every runtime. It is public for launchers that decorate
/// its links.
pub struct ShmLauncher;

/// The same, of images that wait under `gdbserver` at their first instruction.
struct ShmDebugLauncher {
    /// The port of this machine that gdb connects to.
    port: u16,
}

impl Launcher for ShmDebugLauncher {
    fn describe(&self) -> String {
        "the image as a process under gdbserver".into()
    }

    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        ShmLauncher.target(argument)
    }

    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        let (greeting, window) = Greeting::alone(request)?;
        let port = self.port;
        // gdbserver is the parent of the image: where a process may only trace its children, gdb
        // could not attach to it.
        let command = move |image: &ImageFile| {
            let mut command = Command::new("gdbserver");
            command.args(["--once", &format!("127.0.0.1:{port}")]).arg(&image.path);
            command
        };
        let doorbells = doorbells(request)?;
        // An image ends when its socket closes, but not in front of its first instruction.
        let spawn = |command| hamr_qemu::spawn(command, Vec::new());
        start_over(request, window, doorbells, greeting, command, spawn)
    }

    fn has_host_memory(&self) -> bool {
        true
    }

    fn protocols(&self) -> &'static [Protocol] {
        &Protocol::CHOICES
    }
}

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
        let (greeting, window) = Greeting::alone(request)?;
        let doorbells = doorbells(request)?;
        start_over(request, window, doorbells, greeting, ImageFile::command, spawn)
    }

    fn has_host_memory(&self) -> bool {
        true
    }

    fn protocols(&self) -> &'static [Protocol] {
        &Protocol::CHOICES
    }

    fn for_debugger(&self, port: u16) -> Result<Option<Box<dyn Launcher>>, Error> {
        if is_installed("gdbserver") {
            return Ok(Some(Box::new(ShmDebugLauncher { port })));
        }
        let why = "expected `gdbserver` in PATH, found none; `apt-get install gdbserver` brings it".into();
        Err(Error::Launch { device: "shm".into(), why })
    }

    fn launch_rank(&self, request: &LaunchRequest<'_>, home: Home) -> Result<Box<dyn Link>, Error> {
        let text = [&WORLD_HANDSHAKE[..], &home.rank.0.to_le_bytes()].concat();
        let greeting = Greeting {
            text,
            memfd: home.world,
            host_memory: None,
            rank: Some(RankSide { rank: home.rank, doorbells: home.rank_doorbells, processes: home.processes }),
        };
        start_over(request, home.window, home.doorbells, greeting, ImageFile::command, spawn)
    }
}

/// What an image gets at its start, besides its doorbells.
struct Greeting {
    text: Vec<u8>,
    memfd: Arc<OwnedFd>,
    /// What the host polls, behind the window; or the image's own memory.
    host_memory: Option<OwnedFd>,
    rank: Option<RankSide>,
}

/// What a rank gets besides.
struct RankSide {
    rank: RankId,
    /// What it notifies the ranks by.
    doorbells: Arc<[OwnedFd]>,
    processes: Arc<Processes>,
}

/// Is there a program beside this one, which maps the window?
fn has_side(request: &LaunchRequest<'_>) -> bool {
    request.has_side && request.host_memory.is_none() && !request.drives
}

fn doorbells(request: &LaunchRequest<'_>) -> Result<Arc<Doorbells>, Error> {
    let doorbells = Doorbells::new()?;
    Ok(Arc::new(if has_side(request) { doorbells.with_side()? } else { doorbells }))
}

impl Greeting {
    /// Of a device that is no rank, and its window.
    fn alone(request: &LaunchRequest<'_>) -> Result<(Self, Window<Shared>), Error> {
        let make = |len| make_window(request.device, len);
        let mut text = HANDSHAKE.to_vec();
        let (memfd, host_memory, window) = match request.host_memory {
            None => {
                let memfd = make(request.window_len)?;
                let window = map_window(&memfd, request.window_len, true)?;
                let own =
                    if request.drives { Some(make_device_memory(request.device, request.window_len)?) } else { None };
                let flags = if request.drives { DRIVES } else { 0 } | if has_side(request) { HAS_SIDE } else { 0 };
                text.extend(Some(flags).filter(|flags| *flags != 0).into_iter().flat_map(u32::to_le_bytes));
                (memfd, own, window)
            }
            Some((start, len)) => {
                let memfd = make(start)?;
                let host = make_host_memory(&memfd, len)?;
                let window = map_two(&memfd, start, Some(&host), len, true)?;
                (memfd, Some(host), window)
            }
        };
        Ok((Self { text, memfd: memfd.into(), host_memory, rank: None }, window))
    }
}

/// Starts an image whose window is in `memfd`.
fn start_over(
    request: &LaunchRequest<'_>,
    window: Window<Shared>,
    doorbells: Arc<Doorbells>,
    greeting: Greeting,
    command: impl Fn(&ImageFile) -> Command + Send + Sync + 'static,
    spawn: fn(Command) -> std::io::Result<Child>,
) -> Result<Box<dyn Link>, Error> {
    let cpu = request.cpu;
    let theirs = doorbells.clone();
    let memory = match greeting.rank {
        None => Memory::File(greeting.memfd.clone()),
        Some(_) => Memory::World,
    };
    let start =
        move |image: &ImageFile, limit: Duration| start(command(image), spawn, image, &greeting, &theirs, cpu, limit);
    Ok(Box::new(ProcessLink::start("shm", request, window, doorbells, memory, start)?))
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
    mut command: Command,
    spawn: fn(Command) -> std::io::Result<Child>,
    image: &ImageFile,
    Greeting { text, memfd, host_memory, rank }: &Greeting,
    doorbells: &Doorbells,
    cpu: Option<usize>,
    limit: Duration,
) -> Result<Process, Error> {
    let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(Error::os("making a socket pair"))?;
    let [own, host] = doorbells.theirs();
    let rank_doorbells = rank.iter().flat_map(|rank| rank.doorbells.iter().map(OwnedFd::as_fd));
    let host_memory = host_memory.iter().map(OwnedFd::as_fd);
    let fds: Vec<BorrowedFd<'_>> = [memfd.as_fd(), own, host]
        .into_iter()
        .chain(host_memory)
        .chain(rank_doorbells)
        .chain(doorbells.for_device())
        .collect();
    // Before the process starts: a program looks whether it is a rank, and does not wait for that.
    send(&ours, text, &fds, limit)?;
    if let Some(rank) = rank {
        // A message of its own: the first one is as full as the system allows.
        send(&ours, &[0], &[rank.processes.file().as_fd()], limit)?;
    }
    let stdout = if image.is_program() { Stdio::inherit() } else { Stdio::null() };
    command.stdin(Stdio::from(theirs)).stdout(stdout);
    let child = spawn(command).map_err(Error::io(image.path.display().to_string()))?;
    let pid = Pid::from_child(&child);
    tracing::debug!(pid = pid.as_raw_nonzero().get(), memfd = memfd.as_raw_fd(), "started the image");
    // The image ends when this end of the socket is closed, and says there why it cannot start.
    let process = Process::watch(child, (), move |_| reason(&ours))?;
    if let Some(cpu) = cpu {
        pin(pid, cpu)?;
    }
    if let Some(RankSide { rank, processes, .. }) = rank {
        processes.state(*rank, pid.as_raw_nonzero().get().cast_unsigned())?;
    }
    Ok(process)
}

/// Sends a message with descriptors to an image, within `limit`.
fn send(to: &OwnedFd, text: &[u8], descriptors: &[BorrowedFd<'_>], limit: Duration) -> Result<(), Error> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3 + MOST_PROCESSES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    let mut attempt = || rustix::net::sendmsg(to, &[IoSlice::new(text)], &mut ancillary, SendFlags::NOSIGNAL);
    unless_in_flight(limit, &mut attempt).map(|_| ()).map_err(Error::os("sending the window to an image"))
}

/// Tries again while descriptors of this user's that others have not yet received are too many for the system: ranks
/// that start receive theirs.
fn unless_in_flight(
    limit: Duration,
    attempt: &mut dyn FnMut() -> rustix::io::Result<usize>,
) -> rustix::io::Result<usize> {
    let begin = Instant::now();
    loop {
        match attempt() {
            Err(Errno::TOOMANYREFS) if begin.elapsed() < limit => std::thread::sleep(IN_FLIGHT_PAUSE.min(limit)),
            sent => return sent,
        }
    }
}

/// Starts an image. In a process group of its own, so that the terminal's signals do not reach it: a program
/// that handles them keeps its device, and one that does not ends, and its image with it.
fn spawn(mut command: Command) -> std::io::Result<Child> {
    hamr_linker::child::start(command.process_group(0))
}

/// Why an image that has ended could not start, as the end of a sentence; empty when it has not said so.
fn reason(control: &OwnedFd) -> String {
    let mut text = [0; 512];
    let len = rustix::net::recv(control, &mut text, RecvFlags::DONTWAIT).map_or(0, |(len, _)| len);
    let text = String::from_utf8_lossy(text.split_at(len.min(text.len())).0).into_owned();
    if text.is_empty() { text } else { format!(": {}", Clean(&text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_in_flight_are_waited_for_until_the_limit() {
        for (refused, limit, sent) in [
            (3, Duration::from_secs(20), Ok(1)),
            (u32::MAX, Duration::ZERO, Err(Errno::TOOMANYREFS)),
            (u32::MAX, Duration::from_millis(5), Err(Errno::TOOMANYREFS)),
        ] {
            let mut left = refused;
            let mut attempt = || match left {
                0 => Ok(1),
                _ => {
                    left -= 1;
                    Err(Errno::TOOMANYREFS)
                }
            };
            assert_eq!(unless_in_flight(limit, &mut attempt), sent);
        }
        assert_eq!(unless_in_flight(Duration::MAX, &mut || Err(Errno::PIPE)), Err(Errno::PIPE), "at once");
    }
}
