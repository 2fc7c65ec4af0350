//! The server of `ivshmem-doorbell` (QEMU, `specs/ivshmem-spec`). Each machine that connects gets
//! the same memory, a number, and a doorbell for each other machine.
//!
//! Numbers are given in the order of connecting and never twice, as by QEMU's own server. So a
//! number does not show which machine is the host: the window has to.

use crate::Error;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Version of the protocol.
const VERSION: i64 = 0;
/// This number in a message announces the memory.
const MEMORY: i64 = -1;

/// The server runs until it is dropped. The machines must end before it: a QEMU whose socket closes
/// prints a complaint.
pub(super) struct Server {
    path: PathBuf,
    shared: Arc<SharedMemory>,
}

struct SharedMemory {
    memory: OwnedFd,
    state: Mutex<State>,
}

struct State {
    machines: Vec<Machine>,
    next: i64,
    is_over: bool,
}

/// A connected machine.
struct Machine {
    number: i64,
    stream: UnixStream,
    /// Notifies the machine.
    doorbell: OwnedFd,
}

impl Server {
    /// Serves `bytes` of memory at a socket in `folder`.
    pub(super) fn start(folder: &Path, bytes: u64) -> Result<Self, Error> {
        let failed = |e: std::io::Error| Error::Failed(format!("the server of shared memory: {e}"));
        let memory = memory(bytes).map_err(|e| failed(e.into()))?;
        let state = Mutex::new(State { machines: Vec::new(), next: 0, is_over: false });
        let shared = Arc::new(SharedMemory { memory, state });
        let path = folder.join("ivshmem.sock");
        // A run that was killed may have left a socket.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        let accepting = shared.clone();
        std::thread::spawn(move || accepting.serve(&listener));
        Ok(Self { path, shared })
    }

    /// QEMU's arguments for a machine with the card at device 1 of its bus.
    pub(super) fn arguments(&self) -> Vec<String> {
        let socket = format!("socket,path={},id=hamr", self.path.display());
        ["-chardev", &socket, "-device", "ivshmem-doorbell,chardev=hamr,vectors=1,addr=1"].map(String::from).into()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.is_over = true;
        // Ends the threads that read from the machines.
        for machine in state.machines.drain(..) {
            let _ = machine.stream.shutdown(Shutdown::Both);
        }
        drop(state);
        // Wakes the thread that waits for the next machine.
        let _ = UnixStream::connect(&self.path);
        let _ = std::fs::remove_file(&self.path);
    }
}

impl SharedMemory {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(self: &Arc<Self>, listener: &UnixListener) {
        while let Ok((stream, _)) = listener.accept() {
            if self.state().is_over {
                return;
            }
            // A failure means that the machine has ended, which is noticed elsewhere.
            let Ok(number) = self.join(&stream) else { continue };
            let shared = self.clone();
            std::thread::spawn(move || {
                let mut stream = stream;
                // Clients send nothing, so the read ends when the machine does.
                let _ = stream.read(&mut [0]);
                shared.leave(number);
            });
        }
    }

    /// Sends a machine the memory and the other machines, and announces it to those. Returns its
    /// number.
    fn join(&self, stream: &UnixStream) -> rustix::io::Result<i64> {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        say(stream, VERSION, None)?;
        say(stream, number, None)?;
        say(stream, MEMORY, Some(self.memory.as_fd()))?;
        for other in &state.machines {
            say(stream, other.number, Some(other.doorbell.as_fd()))?;
        }
        // With a machine's own number comes the doorbell that it receives on.
        say(stream, number, Some(doorbell.as_fd()))?;
        for other in &state.machines {
            // As above: a failure means that the other machine has ended.
            let _ = say(&other.stream, number, Some(doorbell.as_fd()));
        }
        let stream = stream.try_clone().map_err(|_| rustix::io::Errno::MFILE)?;
        state.machines.push(Machine { number, stream, doorbell });
        Ok(number)
    }

    fn leave(&self, number: i64) {
        let mut state = self.state();
        state.machines.retain(|machine| machine.number != number);
        for other in &state.machines {
            // A number without a descriptor announces that this machine is gone.
            let _ = say(&other.stream, number, None);
        }
    }
}

fn memory(bytes: u64) -> rustix::io::Result<OwnedFd> {
    let memory = rustix::fs::memfd_create("hamr-guest", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&memory, bytes)?;
    rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(memory)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn hear(stream: &mut UnixStream, messages: usize) -> Vec<i64> {
        let mut one = || {
            let mut bytes = [0; 8];
            stream.read_exact(&mut bytes).map(|()| i64::from_le_bytes(bytes))
        };
        (0..messages).map(|_| one().expect("the server speaks")).collect()
    }

    #[test]
    fn server_announces_machines_and_never_reuses_a_number() {
        let folder = a_folder();
        let server = Server::start(&folder, 4096).expect("a socket");
        let join = || {
            let stream = UnixStream::connect(&server.path).expect("it listens");
            stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
            stream
        };
        let mut first = join();
        assert_eq!(hear(&mut first, 4), [VERSION, 0, MEMORY, 0]);
        let mut second = join();
        assert_eq!(hear(&mut second, 5), [VERSION, 1, MEMORY, 0, 1]);
        assert_eq!(hear(&mut first, 1), [1], "with its doorbell");
        drop(second);
        assert_eq!(hear(&mut first, 1), [1], "without");
        assert_eq!(hear(&mut join(), 5), [VERSION, 2, MEMORY, 0, 2]);
        drop(server);
        let _ = std::fs::remove_dir_all(&folder);
    }

    fn a_folder() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("hamr-server-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        folder
    }
}
