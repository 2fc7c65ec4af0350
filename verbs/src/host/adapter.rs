//! The adapter's process, and the socket to it.

use super::error::FabricError;
use super::remote::Wire;
use crate::wire::{Answer, Command, FINGERPRINT, GREETING, Greeting, NO_GREETING, Question, Reply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};
use std::string::ToString;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// The environment variable that names the program.
const VARIABLE: &str = "HAMR_HCA";
/// A look of a wait takes so long at most.
const STEP: Duration = Duration::from_millis(50);
/// How long it may take to start.
const START: Duration = Duration::from_secs(5);

/// A process that serves one section. It ends when its socket is closed, or its host's process has ended.
pub(super) struct Adapter {
    socket: OwnedFd,
    pidfd: OwnedFd,
    child: Mutex<Running>,
    id: u32,
    /// Of the last command.
    number: AtomicU32,
}

/// The process, and what it leaves if it is killed.
struct Running {
    child: Child,
    /// The socket of its wire, once it serves.
    path: Option<PathBuf>,
}

/// What it is given of a device.
pub(super) struct Start<'a> {
    pub(super) memory: &'a OwnedFd,
    /// A socket that notifies the device, and the one that the device notifies.
    pub(super) device: &'a OwnedFd,
    pub(super) doorbell: &'a OwnedFd,
    /// The section: these bytes from `off` on in the memory.
    pub(super) off: u64,
    pub(super) len: u64,
    pub(super) epoch: u32,
    pub(super) spin_us: u32,
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
    /// Starts the program; [`Self::greeted`] waits until it serves.
    pub(super) fn start(program: &Path, wire: &Wire, start: &Start<'_>) -> Result<Self, FabricError> {
        let failed = |why: std::string::String| FabricError::Start { program: program.into(), why };
        let (socket, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(|e| failed(e.to_string()))?;
        let Start { memory, device, doorbell, off, len, epoch, spin_us } = *start;
        let greeting = Greeting { magic: GREETING, fingerprint: FINGERPRINT, off, len, epoch, spin_us };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [memory.as_fd(), doorbell.as_fd(), device.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let text = [IoSlice::new(greeting.as_bytes())];
        rustix::net::sendmsg(&socket, &text, &mut ancillary, SendFlags::NOSIGNAL).map_err(|e| failed(e.to_string()))?;
        let mut command = Program::new(program);
        command.args(wire.arguments()).stdin(Stdio::from(theirs)).stdout(Stdio::null());
        // Out of the terminal's group, as images are: its signals end the host, and the adapter by that.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = hamr_linker::child::start(&mut command).map_err(|e| failed(e.to_string()))?;
        // This end of the pair goes with the command.
        drop(command);
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(pidfd) => {
                let (id, number) = (child.id(), AtomicU32::new(0));
                let running = Running { child, path: None };
                Ok(Self { socket, pidfd, child: Mutex::new(running), id, number })
            }
            Err(e) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(failed(e.to_string()))
            }
        }
    }

    /// Waits until it serves.
    pub(super) fn greeted(&self, program: &Path, wire: &Wire) -> Result<(), FabricError> {
        let failed = |why: std::string::String| FabricError::Start { program: program.into(), why };
        let mut message = [0; NO_GREETING];
        let bytes = self.receive(&mut message, START).map_err(|e| failed(e.to_string()))?;
        let theirs = match Greeting::read_from_bytes(bytes) {
            Ok(Greeting { magic: GREETING, fingerprint, .. }) => fingerprint,
            _ => {
                let why = std::str::from_utf8(bytes).ok().filter(|why| !why.is_empty() && !why.contains('\n'));
                return Err(failed(why.unwrap_or("it is another program").into()));
            }
        };
        // Before that it may be another's.
        self.running().path = wire.socket().map(Into::into);
        let (program, ours) = (program.into(), FINGERPRINT);
        if theirs == ours { Ok(()) } else { Err(FabricError::OtherBuild { program, ours, theirs }) }
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Asks for something, and waits for the answer, for one thread at a time. An answer that came too late for its question is
    /// none to the next one.
    pub(super) fn ask(&self, command: Command, limit: Duration) -> Result<(), FabricError> {
        let begin = Instant::now();
        let number = self.number.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let question = Question { number, reserved: 0, command };
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::send(&self.socket, question.as_bytes(), flags) {
            Ok(_) => {}
            // It has taken none of many for long.
            Err(Errno::AGAIN) => return Err(FabricError::Late),
            Err(_) => return Err(FabricError::Lost),
        }
        // All of it for the first answer: the machine may have stalled since.
        let mut left = limit;
        loop {
            let mut answer = Answer { number: 0, reply: Reply::DONE };
            if self.receive(answer.as_mut_bytes(), left)?.len() != size_of::<Answer>() {
                return Err(FabricError::Lost);
            }
            match answer {
                Answer { number: of, .. } if of != number => {}
                Answer { reply: Reply::DONE, .. } => return Ok(()),
                Answer { reply, .. } => return Err(FabricError::Refused(reply)),
            }
            left = limit.saturating_sub(begin.elapsed());
        }
    }

    /// The next message, as far as there is room for it.
    fn receive<'m>(&self, message: &'m mut [u8], limit: Duration) -> Result<&'m [u8], FabricError> {
        if !is_readable(&self.socket, Some(limit)) {
            return Err(FabricError::Late);
        }
        match take(&self.socket, message) {
            Ok(bytes) if bytes != 0 => Ok(message.get(..bytes).unwrap_or_default()),
            _ => Err(FabricError::Lost),
        }
    }

    /// Asks it to end; what it is asked from now on, or was before, is not answered.
    pub(super) fn hang_up(&self) {
        // Also where a copy of this process has the socket, too.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// Ends it: by the end of its socket, and if it has not ended within `grace`, by force, within `limit` in all. True: it writes
    /// nothing any more.
    pub(super) fn end(&self, grace: Duration, limit: Duration) -> bool {
        let begin = Instant::now();
        self.hang_up();
        if !is_readable(&self.pidfd, Some(grace.min(limit))) {
            let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
            if !is_readable(&self.pidfd, Some(limit.saturating_sub(begin.elapsed()))) {
                return false;
            }
        }
        self.reap();
        true
    }

    /// Waits until it has ended.
    pub(super) fn await_end(&self) {
        // A wait that the system refuses says nothing of the end.
        while !is_readable(&self.pidfd, None) {
            std::thread::sleep(STEP);
        }
        self.reap();
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the exit status of one that has ended, and removes what it has left, once.
    fn reap(&self) {
        let mut running = self.running();
        // An error means that this program, or the system for it, has taken it.
        let was_killed =
            running.child.try_wait().is_ok_and(|status| status.is_some_and(|status| status.signal().is_some()));
        if let Some(path) = running.path.take().filter(|_| was_killed) {
            // An error means that somebody else has.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Takes a message; of how many bytes.
fn take(socket: &OwnedFd, message: &mut [u8]) -> Result<usize, Errno> {
    let mut take = || rustix::net::recv(socket, &mut *message, RecvFlags::DONTWAIT).map(|(bytes, _)| bytes);
    match take() {
        // The other end has ended without a look at what it was sent. What it has said is behind that.
        Err(Errno::CONNRESET) => take(),
        came => came,
    }
}

/// Is there something to read, or the end, within `limit`?
fn is_readable(fd: impl AsFd, limit: Option<Duration>) -> bool {
    within(limit, |step| {
        let seconds = |step: Duration| i64::try_from(step.as_secs()).unwrap_or(i64::MAX);
        let step = step.map(|step| Timespec { tv_sec: seconds(step), tv_nsec: step.subsec_nanos().into() });
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], step.as_ref()).map(|n| n != 0)
    })
}

/// Looks until something is found, for `limit` at most: a look has a step of that.
///
/// It is a limit of time in which this program runs. A machine that stands still, or has no processor for it, has none for the other
/// end either.
fn within(limit: Option<Duration>, mut look: impl FnMut(Option<Duration>) -> Result<bool, Errno>) -> bool {
    let mut left = limit;
    loop {
        let (begin, step) = (Instant::now(), left.map(|left| left.min(STEP)));
        match look(step) {
            Ok(false) | Err(Errno::INTR) => {}
            found => return found == Ok(true),
        }
        left = left.zip(step).map(|(left, step)| left - begin.elapsed().min(step));
        if left == Some(Duration::ZERO) {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_adapter_has_said_is_found_behind_its_end() {
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .expect("a socket pair");
        rustix::net::send(&ours, b"a greeting that it does not take", SendFlags::NOSIGNAL).expect("room");
        rustix::net::send(&theirs, b"why", SendFlags::NOSIGNAL).expect("room");
        drop(theirs);
        let mut message = [0; 8];
        assert_eq!((take(&ours, &mut message), &message[..3]), (Ok(3), &b"why"[..]));
        assert_eq!(take(&ours, &mut message), Ok(0));
    }

    #[test]
    fn a_limit_is_of_time_in_which_this_program_runs() {
        let (limit, mut looks) = (4 * STEP, 0);
        let is_found = within(Some(limit), |step| {
            looks += 1;
            // The machine stands still, and then the other end has its turn.
            std::thread::sleep(if looks == 1 { 2 * limit } else { step.unwrap_or_default() });
            Ok(looks == 3)
        });
        assert_eq!((is_found, looks), (true, 3));
        let begin = Instant::now();
        let never = within(Some(limit), |step| {
            std::thread::sleep(step.unwrap_or_default());
            Ok(false)
        });
        assert!(!never && begin.elapsed() >= limit);
        let mut looks = [Err(Errno::INTR), Ok(true), Err(Errno::BADF)].into_iter();
        let mut look = |_| looks.next().unwrap_or(Ok(false));
        assert_eq!([within(None, &mut look), within(Some(limit), &mut look)], [true, false]);
    }
}
