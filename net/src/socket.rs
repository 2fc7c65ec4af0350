//! Sockets that never block, and never end a program by SIGPIPE.

use crate::failure::{Broken, Failure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, bind, connect, listen, recv,
    sendmsg, socket_with,
};
use std::io::{self, IoSlice};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Connections that the system holds for a server that is busy.
const BACKLOG: i32 = 64;

/// The addresses of `HOST:PORT`, of which there is one at least. Name servers have `limit` to answer.
///
/// # Errors
/// A text that is no address, or a name without one.
pub fn resolve(text: &str, limit: Duration) -> Result<Vec<SocketAddr>, Failure> {
    let fail = |why: String| Failure::Address { text: text.into(), why };
    if let Ok(at) = text.parse() {
        return Ok(vec![at]);
    }
    let (answer, answered) = sync_channel(1);
    let name = text.to_owned();
    // The system's call has no limit. A thread that it holds for longer has nobody to tell.
    let ask = move || drop(answer.send(name.to_socket_addrs().map(Vec::from_iter)));
    std::thread::Builder::new().name("hamr-resolve".into()).spawn(ask).map_err(|e| fail(e.to_string()))?;
    match answered.recv_timeout(limit) {
        Ok(Ok(all)) if all.is_empty() => Err(fail("the name has no address".into())),
        Ok(Ok(all)) => Ok(all),
        Ok(Err(e)) => Err(fail(e.to_string())),
        Err(_) => Err(fail(format!("no name server answered within {} s", limit.as_secs_f32()))),
    }
}

/// What is left of a caller's limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    begin: Instant,
    pub(crate) whole: Duration,
}

impl Limit {
    pub(crate) fn of(whole: Duration) -> Self {
        Self { begin: Instant::now(), whole }
    }

    pub(crate) fn left(self) -> Duration {
        self.whole.saturating_sub(self.begin.elapsed())
    }
}

pub(crate) fn timespec(limit: Duration) -> Timespec {
    Timespec { tv_sec: limit.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: limit.subsec_nanos().into() }
}

/// While bytes flow the next ones come sooner than a thread is woken: so long it looks before it sleeps.
const AWAKE: Duration = Duration::from_micros(50);

/// Waits until the descriptor has one of `flags`, at most so long.
pub(crate) fn wait(fd: impl AsFd, flags: PollFlags, limit: Duration) {
    let begin = Instant::now();
    // An error is an early end: every caller looks again.
    let is_over = |limit| poll(&mut [PollFd::new(&fd, flags)], Some(&timespec(limit))) != Ok(0);
    while begin.elapsed() < limit.min(AWAKE) {
        if is_over(Duration::ZERO) {
            return;
        }
        std::thread::yield_now();
    }
    is_over(limit);
}

/// Has the other end closed it, or this one, whatever is still to be read?
pub(crate) fn has_gone(socket: &OwnedFd) -> bool {
    let now = timespec(Duration::ZERO);
    poll(&mut [PollFd::new(socket, PollFlags::RDHUP)], Some(&now)).is_ok_and(|n| n > 0)
}

fn stream(at: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

pub(crate) fn listener(at: SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = stream(at)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &at)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Begins to connect.
pub(crate) fn connecting(at: SocketAddr, silence: Duration) -> Result<OwnedFd, Errno> {
    let socket = stream(at)?;
    tune(&socket, silence)?;
    match connect(&socket, &at) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(e) => Err(e),
    }
}

/// Small frames go at once, and a cut cable ends the connection within `silence`: the kernel of the other machine
/// answers for a program that computes. A program that takes nothing for so long while there is something for it ends
/// it, too.
pub(crate) fn tune(socket: &OwnedFd, silence: Duration) -> Result<(), Errno> {
    /// Unanswered looks, of which each waits for a fifth of the time.
    const LOOKS: u32 = 4;
    sockopt::set_tcp_nodelay(socket, true)?;
    // The system's number is a signed one, and 0 is no time-out.
    let most = silence.as_millis().clamp(1, i32::MAX as u128) as u32;
    sockopt::set_tcp_user_timeout(socket, most)?;
    // Whole seconds are all that the system takes here; the time-out above decides.
    let pause = Duration::from_secs((silence / (LOOKS + 1)).as_secs().clamp(1, 30_000));
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, pause)?;
    sockopt::set_tcp_keepintvl(socket, pause)?;
    sockopt::set_tcp_keepcnt(socket, LOOKS)
}

/// A socket as [`io::Read`] and [`io::Write`].
pub(crate) struct Bytes<'a>(pub(crate) &'a OwnedFd);

impl io::Read for Bytes<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            match recv(self.0, &mut *to, RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                Ok((len, _)) => return Ok(len),
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl io::Write for Bytes<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(from)])
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        loop {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match sendmsg(self.0, from, &mut SendAncillaryBuffer::default(), flags) {
                Err(Errno::INTR) => {}
                sent => return Ok(sent?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What an error of a socket says of its connection. `None`: it would have to wait.
pub(crate) fn broken(e: &io::Error, silence: Duration) -> Option<Broken> {
    match Errno::from_io_error(e) {
        Some(Errno::AGAIN) => None,
        Some(Errno::TIMEDOUT) => Some(Broken::Silent(silence)),
        Some(Errno::PIPE | Errno::CONNRESET) => Some(Broken::Closed),
        Some(other) => Some(Broken::System(other)),
        None => Some(Broken::Closed),
    }
}
