//! The adapter's process, and the socket to it.

use super::LIMIT;
use super::error::FabricError;
use super::remote::Wire;
use crate::wire::{Command, FINGERPRINT, GREETING, Greeting, Reply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::string::ToString;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// The environment variable that names the program.
const VARIABLE: &str = "HAMR_HCA";
/// How long it may take to start.
const START: Duration = Duration::from_secs(5);

/// A process that serves one section. It ends when its socket is closed.
pub(super) struct Adapter {
    socket: OwnedFd,
    pidfd: OwnedFd,
    child: Mutex<Child>,
    id: u32,
}

/// The program: beside this one, or beside the folder of a test or example.
pub(super) fn program() -> Result<PathBuf, FabricError> {
    const NAME: &str = "hamr-hca";
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return check(path.into());
    }
    let own = std::env::current_exe().unwrap_or_default();
    let beside = own.with_file_name(NAME);
    let folder = own.parent().filter(|folder| folder.ends_with("deps") || folder.ends_with("examples"));
    check(folder.filter(|_| !beside.is_file()).map_or(beside, |folder| folder.with_file_name(NAME)))
}

fn check(program: PathBuf) -> Result<PathBuf, FabricError> {
    if program.is_file() { Ok(program) } else { Err(FabricError::NoProgram(program)) }
}

impl Adapter {
    /// Starts the program over `len` bytes from `off` on in the window's memory.
    pub(super) fn start(
        program: &Path,
        wire: &Wire,
        memory: &OwnedFd,
        off: u64,
        len: u64,
        epoch: u32,
    ) -> Result<Self, FabricError> {
        let failed = |why: std::string::String| FabricError::Start { program: program.into(), why };
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(|e| failed(e.to_string()))?;
        let greeting = Greeting { magic: GREETING, fingerprint: FINGERPRINT, off, len, epoch, reserved: 0 };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [memory.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let text = [IoSlice::new(greeting.as_bytes())];
        rustix::net::sendmsg(&ours, &text, &mut ancillary, SendFlags::NOSIGNAL).map_err(|e| failed(e.to_string()))?;
        let mut command = Program::new(program);
        command.args(wire.arguments()).stdin(Stdio::from(theirs)).stdout(Stdio::null());
        // Out of the terminal's group, as images are: its signals end the host, and the adapter by that.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = hamr_linker::child::start(&mut command).map_err(|e| failed(e.to_string()))?;
        // This end of the pair goes with the command.
        drop(command);
        let pidfd = match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(e) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(e.to_string()));
            }
        };
        let id = child.id();
        let this = Self { socket: ours, pidfd, child: Mutex::new(child), id };
        let begun = this.receive::<Greeting>(START);
        let why = match begun {
            Ok(Greeting { magic: GREETING, fingerprint: FINGERPRINT, .. }) => return Ok(this),
            Ok(Greeting { magic: GREETING, fingerprint: theirs, .. }) => {
                FabricError::OtherBuild { program: program.into(), ours: FINGERPRINT, theirs }
            }
            Ok(_) => failed("it is another program".into()),
            Err(e) => failed(e.to_string()),
        };
        this.end(Duration::ZERO);
        Err(why)
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Asks for something, and waits for the answer.
    pub(super) fn ask(&self, command: &Command) -> Result<(), FabricError> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::send(&self.socket, command.as_bytes(), flags).map_err(|_| FabricError::Lost)?;
        match self.receive::<Reply>(LIMIT)? {
            Reply::DONE => Ok(()),
            refused => Err(FabricError::Refused(refused)),
        }
    }

    /// The next message, of this length.
    fn receive<T: FromBytes + IntoBytes>(&self, limit: Duration) -> Result<T, FabricError> {
        if !is_readable(&self.socket, limit) {
            return Err(FabricError::Late);
        }
        let mut message = T::new_zeroed();
        let received = rustix::net::recv(&self.socket, message.as_mut_bytes(), RecvFlags::DONTWAIT);
        if received.is_ok_and(|(bytes, _)| bytes == size_of::<T>()) { Ok(message) } else { Err(FabricError::Lost) }
    }

    /// Ends it: by the end of its socket, and if it has not ended within `limit`, by force. Then it writes nothing any more.
    pub(super) fn end(self, limit: Duration) {
        let Self { socket, pidfd, child, .. } = self;
        // Also where a copy of this process has the socket, too.
        let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both);
        drop(socket);
        if !is_readable(&pidfd, limit) {
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
            while !is_readable(&pidfd, LIMIT) {}
        }
        // An error means that this program, or the system for it, has taken its exit status.
        let _ = child.into_inner().map(|mut child| child.wait());
    }
}

/// Is there something to read, or the end, within `limit`?
fn is_readable(fd: impl AsFd, limit: Duration) -> bool {
    let begin = Instant::now();
    loop {
        let left = limit.saturating_sub(begin.elapsed());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            found => return found.is_ok_and(|n| n != 0),
        }
    }
}
