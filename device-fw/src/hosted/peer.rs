//! The process at the other end of a socket.

#![expect(unsafe_code)]
// UNSAFETY: the system writes plain numbers (contract "peers of sockets"). That of a process is 0
// where this one's PID namespace does not have it, which `rustix`'s type of it must not be.
//
// Contract "peers of sockets". The system writes three numbers at most into a struct of its own
// layout, of which every value is one. A type that must not be zero is made of them by a check, never
// by the copy.

use core::mem::size_of;
use libc::{SO_PEERCRED, SOL_SOCKET, getsockopt, socklen_t, ucred};
use rustix::fd::{AsFd, AsRawFd};
use rustix::process::Pid;

/// The process that made the other end of a socket.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// `None` where this process's PID namespace does not have it.
    pub pid: Option<Pid>,
    /// Its user.
    pub user: u32,
}

/// Who made the other end.
///
/// # Errors
/// The system's.
pub fn peer(socket: impl AsFd) -> std::io::Result<Peer> {
    let mut made = ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<ucred>() as socklen_t;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: an open descriptor; the places of the answer and of its length, each in this frame.
    let failed = unsafe { getsockopt(socket, SOL_SOCKET, SO_PEERCRED, (&raw mut made).cast(), &raw mut len) };
    if failed != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(Peer { pid: Pid::from_raw(made.pid.max(0)), user: made.uid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maker_of_a_pair_is_its_peer() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let peer = peer(&one).expect("a socket");
        assert_eq!(peer.pid, Some(rustix::process::getpid()));
        assert_eq!(peer.user, rustix::process::geteuid().as_raw());
        super::peer(std::fs::File::open("/dev/null").expect("there")).expect_err("no socket");
    }

    /// As a socket has it whose maker is in a PID namespace that this process does not see.
    #[test]
    fn a_process_that_is_not_seen_has_no_number() {
        // Not connected: the system answers with the number 0, too.
        let socket = rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None);
        let peer = peer(socket.expect("a socket")).expect("it has an answer");
        assert_eq!(peer.pid, None);
    }
}
