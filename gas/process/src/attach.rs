//! Copies between this process's memory and another's (contract "cross-memory attach").

#![expect(unsafe_code)]
// UNSAFETY: the system calls take addresses.
//
// Contract "cross-memory attach". `Peer` copies between a borrowed slice of this process and addresses
// of another. It refuses this process and its threads, so no reference of this program is in the other
// range; one that shares this one's memory (a `vfork`) does not outlive its call. The launcher says
// which process a rank is (`WorldRef::process`); a pidfd tells it from a later process of its number.
// The other program names the addresses, of its own memory alone, made of atomics (`exposed.rs`);
// there the copies race (`docs/unsafe.md`, "racing copies"). `mlock` and `munlock` change no byte and no mapping.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fmt;
use std::io;
use std::path::Path;

/// Why a process's memory is out of reach.
#[derive(Debug)]
pub enum AttachError {
    /// It is this process, whose memory has references.
    Myself,
    /// The system forbids it: another user, a sandbox, or its policy on tracing. Or there is no such process or memory.
    Refused(io::Error),
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Myself => f.write_str("a process does not attach to its own memory"),
            Self::Refused(error) => write!(f, "no copies between these processes' memories: {error}"),
        }
    }
}

impl std::error::Error for AttachError {}

/// Another process.
#[derive(Debug)]
pub struct Peer {
    process: libc::pid_t,
    /// Readable once it has ended, when its number may become that of another.
    ended: OwnedFd,
}

impl Peer {
    /// Looks once whether the 8 bytes at `at` of a process can be read: what the system allows does not change while
    /// both run.
    ///
    /// # Errors
    /// This process, or one of its threads; what the system does not allow.
    pub fn attach(process: u32, at: u64) -> Result<Self, AttachError> {
        if Path::new(&format!("/proc/self/task/{process}")).exists() || process == std::process::id() {
            return Err(AttachError::Myself);
        }
        let not_found = || AttachError::Refused(io::Error::from_raw_os_error(libc::ESRCH));
        let pid = process.try_into().ok().and_then(Pid::from_raw).ok_or_else(not_found)?;
        let ended = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| AttachError::Refused(e.into()))?;
        let peer = Self { process: pid.as_raw_nonzero().get(), ended };
        peer.read(at, &mut [0; 8]).map_err(AttachError::Refused)?;
        Ok(peer)
    }

    /// Copies into the process's memory at `at`. All of it, or an error, which may leave a part.
    ///
    /// # Errors
    /// The process is gone, or has no such memory.
    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
            let local = libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() };
            let remote = remote(at, done, rest.len())?;
            self.is_here()?;
            // SAFETY: the kernel reads `rest`, which is borrowed for that long, and writes nothing of this process:
            // `attach` refused this one and its threads, and no other process shares its memory.
            let copied = unsafe { libc::process_vm_writev(self.process, &raw const local, 1, &raw const remote, 1, 0) };
            done += moved(copied)?;
        }
        Ok(())
    }

    /// Copies out of the process's memory at `at`.
    ///
    /// # Errors
    /// As [`Peer::write`].
    pub fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let local = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
            let remote = remote(at, done, rest.len())?;
            self.is_here()?;
            // SAFETY: the kernel writes into `rest`, which is borrowed exclusively for that long; any bytes are valid
            // there.
            let copied = unsafe { libc::process_vm_readv(self.process, &raw const local, 1, &raw const remote, 1, 0) };
            done += moved(copied)?;
        }
        Ok(())
    }

    /// It has not ended, so its number is still its own.
    fn is_here(&self) -> io::Result<()> {
        // A signal that is handled meanwhile says nothing of the process.
        match retry_on_intr(|| poll(&mut [PollFd::new(&self.ended, PollFlags::IN)], Some(&Timespec::default()))) {
            Ok(0) => Ok(()),
            _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    }
}

fn remote(at: u64, done: usize, len: usize) -> io::Result<libc::iovec> {
    let address = at.checked_add(done as u64).and_then(|address| usize::try_from(address).ok());
    let address = address.ok_or_else(|| io::Error::from_raw_os_error(libc::EFAULT))?;
    Ok(libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: len })
}

/// The bytes that a call moved; none is an error, too, since the range was not empty.
fn moved(copied: isize) -> io::Result<usize> {
    match usize::try_from(copied) {
        Ok(0) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Ok(copied) => Ok(copied),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_does_not_attach_to_itself() {
        let value = 7u64;
        let at = (&raw const value).addr() as u64;
        assert!(matches!(Peer::attach(std::process::id(), at), Err(AttachError::Myself)));
        let thread =
            std::thread::spawn(move || Peer::attach(rustix::thread::gettid().as_raw_pid().cast_unsigned(), at));
        assert!(matches!(thread.join(), Ok(Err(AttachError::Myself))));
    }

    /// A process, without a look at its memory.
    fn child() -> (std::process::Child, Peer) {
        let child = std::process::Command::new("sleep").arg("100").spawn().expect("it starts");
        let pid = Pid::from_child(&child);
        let ended = pidfd_open(pid, PidfdFlags::empty()).expect("it runs");
        (child, Peer { process: pid.as_raw_nonzero().get(), ended })
    }

    #[test]
    fn a_process_that_has_ended_is_no_other_one() {
        let (mut child, peer) = child();
        peer.is_here().expect("it runs");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        let why = peer.read(0, &mut [0; 8]).expect_err("it has ended");
        assert_eq!(why.raw_os_error(), Some(libc::ESRCH));
    }

    extern "C" fn nothing(_: libc::c_int) {}

    #[test]
    fn a_process_is_here_also_where_signals_interrupt() {
        use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
        let (mut child, peer) = child();
        let handler = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: a handler that does nothing; no other test uses the signal.
        unsafe { libc::signal(libc::SIGUSR1, handler) };
        // SAFETY: the function takes nothing.
        let here = unsafe { libc::pthread_self() };
        let is_done = AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Relaxed) {
                    // SAFETY: the thread that this scope is in.
                    unsafe { libc::pthread_kill(here, libc::SIGUSR1) };
                }
            });
            let seen = (0..1_000_000).try_for_each(|_| peer.is_here());
            is_done.store(true, Relaxed);
            seen
        });
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        seen.expect("it runs");
    }

    #[test]
    fn a_process_that_is_not_there_is_refused() {
        assert!(matches!(Peer::attach(u32::MAX, 0), Err(AttachError::Refused(_))));
        assert!(matches!(Peer::attach(i32::MAX.cast_unsigned(), 0), Err(AttachError::Refused(_))));
    }
}
