//! The socket to the host: the window's descriptor comes over it, and its end of file ends the
//! process.

use super::doorbells::ProcessDoorbells;
use super::peer::peer;
use hamr_comm::abi::ids::RankId;
use hamr_comm::abi::world::WorldFault;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::fstat;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recv, recvmsg, send};
use rustix::process::{PidfdFlags, pidfd_open};
use std::fs;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::string::{String, ToString};
use std::vec::Vec;

/// First bytes on the socket; the digit is the version of this protocol. A rank's number follows
/// the second one.
const HANDSHAKE: &[u8; 8] = b"hamrshm1";
const WORLD_HANDSHAKE: &[u8; 8] = b"hamrwrl2";
/// Bits behind the first: the image drives the window, and has other memory of its own; the last descriptor is the doorbell of a
/// program that serves a section beside the host.
const DRIVES: u32 = 1;
const HAS_SIDE: u32 = 2;
/// Between two steps of `alive`.
const BEAT: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// The same while pings are answered beside a task, which has already run for some time.
const QUICK_BEAT: Timespec = Timespec { tv_sec: 0, tv_nsec: 2_000_000 };

/// Is standard input a launcher's socket with the greeting of a rank? It is sent before the process
/// starts, so this does not wait.
pub(super) fn is_rank() -> bool {
    let mut greeting = [0; WORLD_HANDSHAKE.len()];
    let seen = recv(std::io::stdin(), &mut greeting, RecvFlags::PEEK | RecvFlags::DONTWAIT);
    seen.is_ok_and(|(_, seen)| seen == greeting.len()) && greeting == *WORLD_HANDSHAKE
}

/// Why a hosted image cannot start. Printed as one line.
#[derive(Debug)]
pub(super) enum StartError {
    /// Standard input is no socket to a hamr host.
    NotStartedByHost(String),
    /// The window's file can be truncated while it is mapped.
    NotSealed,
    /// The world that it is to join is malformed.
    World(WorldFault),
    /// The system has no addresses for so many bytes.
    Memory {
        bytes: usize,
        /// Of the process's addresses.
        limit: Option<u64>,
        why: std::io::Error,
    },
    /// Something of the operating system.
    Os(std::io::Error),
    /// The board has no window.
    NoWindow,
}

impl core::fmt::Display for StartError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NotStartedByHost(got) => write!(
                f,
                "this is a device image; standard input should be a hamr host's socket ({got}). Start it through a host: \
                 `hamr --device shm --image PATH …`"
            ),
            Self::NotSealed => {
                write!(f, "the window's memfd is not sealed against shrinking: its peer could kill this process")
            }
            Self::World(why) => write!(f, "it cannot join its world: {why}"),
            Self::Memory { bytes, limit: Some(limit), why } => write!(
                f,
                "it wants {bytes} bytes of addresses more, and its limit of addresses is {limit} bytes in all (`ulimit -v`): \
                 {why}; raise the limit, or ask for a smaller heap or fewer streams (Options)"
            ),
            Self::Memory { bytes, limit: None, why } => write!(f, "it wants {bytes} bytes of addresses more: {why}"),
            Self::Os(e) => write!(f, "{e}"),
            Self::NoWindow => write!(f, "no window"),
        }
    }
}

impl From<WorldFault> for StartError {
    fn from(why: WorldFault) -> Self {
        Self::World(why)
    }
}

impl From<std::io::Error> for StartError {
    fn from(e: std::io::Error) -> Self {
        Self::Os(e)
    }
}

impl From<rustix::io::Errno> for StartError {
    fn from(e: rustix::io::Errno) -> Self {
        Self::Os(e.into())
    }
}

/// Descriptors of a message on a socket at most.
const MOST_DESCRIPTORS: usize = 253;

/// The socket, after the handshake.
pub(super) struct ControlChannel {
    socket: OwnedFd,
    /// Readable when the host's process has ended. Its end of the socket stays open while a child lives
    /// that it has forked. `None` where the system has no such descriptors, or this PID namespace no such process.
    process: Option<OwnedFd>,
    window: OwnedFd,
    /// Memory of the host's, behind the window; or the image's own, where it drives the window.
    host_memory: Option<OwnedFd>,
    drives: bool,
    /// The rank that it is to be, when the window is a world.
    rank: Option<RankId>,
    doorbells: Option<ProcessDoorbells>,
    /// What it notifies the program by that serves a section beside the host.
    side_doorbell: Option<OwnedFd>,
    /// Of a rank: what it notifies the ranks by, in their order.
    rank_doorbells: Vec<OwnedFd>,
    /// Likewise: where the launcher says which processes the ranks are.
    processes: Option<OwnedFd>,
}

impl ControlChannel {
    /// Takes the window's descriptor off standard input.
    pub(super) fn from_stdin() -> Result<Self, StartError> {
        let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
        let mut greeting = [0; 12];
        let not_ours = |what: &str| StartError::NotStartedByHost(what.to_string());
        let mut descriptors = receive(&socket, &mut greeting)?.into_iter();
        let [handshake @ .., a, b, c, d] = greeting;
        let number = u32::from_le_bytes([a, b, c, d]);
        let rank = match &handshake {
            HANDSHAKE => None,
            WORLD_HANDSHAKE => Some(RankId(number)),
            _ => return Err(not_ours("another handshake")),
        };
        let window = descriptors.next().ok_or(not_ours("no descriptor"))?;
        // A host that has no doorbells sends the window alone.
        let doorbells = descriptors.next().zip(descriptors.next()).map(|(own, host)| ProcessDoorbells::new(own, host));
        let is = |flag| rank.is_none() && number & flag != 0;
        let (drives, side_doorbell) = (is(DRIVES), if is(HAS_SIDE) { descriptors.next_back() } else { None });
        let host_memory = if rank.is_none() { descriptors.next() } else { None };
        let rank_doorbells = descriptors.collect();
        let processes = match rank {
            Some(_) => receive(&socket, &mut [0])?.into_iter().next(),
            None => None,
        };
        // The process that made the pair of sockets.
        let process = peer(&socket).ok().and_then(|host| pidfd_open(host.pid?, PidfdFlags::empty()).ok());
        Ok(Self {
            socket,
            process,
            window,
            host_memory,
            drives,
            rank,
            doorbells,
            side_doorbell,
            rank_doorbells,
            processes,
        })
    }

    /// Puts an empty file in the place of standard input, for a program that may read it and may
    /// start others. This end of the socket is a descriptor of its own.
    pub(super) fn leave_stdin(self) -> Result<Self, StartError> {
        rustix::stdio::dup2_stdin(fs::File::open("/dev/null")?)?;
        Ok(self)
    }

    /// Another descriptor of the socket, for [`say`].
    pub(super) fn host(&self) -> Option<OwnedFd> {
        self.socket.try_clone().ok()
    }

    /// The rank that this image is to be, when the window is a world.
    pub(super) fn rank(&self) -> Option<RankId> {
        self.rank
    }

    /// The window is memory of the host's, which this image drives.
    pub(super) fn drives(&self) -> bool {
        self.drives
    }

    /// The doorbells, if the host sent any; once.
    pub(super) fn take_doorbells(&mut self) -> Option<ProcessDoorbells> {
        self.doorbells.take()
    }

    /// What it notifies the program by that serves a section beside the host; once.
    pub(super) fn take_side_doorbell(&mut self) -> Option<OwnedFd> {
        self.side_doorbell.take()
    }

    /// What a rank notifies the ranks by, in their order; once.
    pub(super) fn take_rank_doorbells(&mut self) -> Vec<OwnedFd> {
        core::mem::take(&mut self.rank_doorbells)
    }

    /// The file in which the launcher says which processes the ranks are; once.
    pub(super) fn take_processes(&mut self) -> Option<OwnedFd> {
        self.processes.take()
    }

    /// The window's descriptor, and that of what lies behind it, or of the image's own memory.
    pub(super) fn window_fds(&self) -> (impl AsFd + '_, Option<impl AsFd + '_>) {
        (self.window.as_fd(), self.host_memory.as_ref())
    }

    /// Steps `alive` until the host is gone; more often while `alive` returns true. The host never
    /// writes after the handshake, so anything readable is its end, as is the end of its process.
    pub(super) fn watch(&self, mut alive: impl FnMut(u32) -> bool) {
        let mut beat = 0u32;
        loop {
            beat = beat.wrapping_add(1);
            let beat_length = if alive(beat) { QUICK_BEAT } else { BEAT };
            let ends = [Some(&self.socket), self.process.as_ref()];
            let mut fds = ends.map(|fd| PollFd::new(fd.unwrap_or(&self.socket), PollFlags::IN));
            if poll(&mut fds, Some(&beat_length)).is_ok_and(|n| n > 0) {
                return;
            }
        }
    }
}

/// One message of the launcher, and the descriptors in it.
fn receive(socket: &OwnedFd, bytes: &mut [u8]) -> Result<Vec<OwnedFd>, StartError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut iov = [IoSliceMut::new(bytes)];
    let not_ours = |e: rustix::io::Errno| StartError::NotStartedByHost(e.to_string());
    recvmsg(socket, &mut iov, &mut ancillary, RecvFlags::CMSG_CLOEXEC).map_err(not_ours)?;
    let descriptors = ancillary.drain().filter_map(|m| match m {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(descriptors.flatten().collect())
}

/// Tells the host why the image cannot start. True when it was told.
pub(super) fn say(host: &OwnedFd, why: &StartError) -> bool {
    send(host, why.to_string().as_bytes(), SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
}

/// Bytes of the file behind a descriptor.
pub(super) fn size_of_file(fd: impl AsFd) -> Result<u64, StartError> {
    Ok(fstat(fd)?.st_size as u64)
}

/// The build id in this process's own ELF file, or zeros.
pub(super) fn build_id() -> [u8; 20] {
    use object::Object;
    let mut id = [0; 20];
    let Ok(bytes) = fs::read("/proc/self/exe") else { return id };
    if let Ok(file) = object::File::parse(&*bytes)
        && let Ok(Some(found)) = file.build_id()
    {
        for (to, from) in id.iter_mut().zip(found) {
            *to = *from;
        }
    }
    id
}
