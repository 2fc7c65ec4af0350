//! What is below the frames of a channel: bytes in their order, over a socket, or by whatever else carries them.

use crate::failure::Broken;
use crate::frame::End;
use crate::key::Key;
use crate::socket::{self, Bytes};
use crate::tls::{self, Tls};
use rustix::event::PollFlags;
use rustix::fd::OwnedFd;
use rustix::net::{Shutdown, shutdown};
use rustix::process::{Pid, getpid};
use std::io::{BufRead as _, Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

/// Another network than this system's sockets, which says itself who is at the other end. Nothing here waits.
pub trait Carrier: Send {
    /// Reads some bytes; 0: none have come.
    ///
    /// # Errors
    /// It has ended, and all that came before was read.
    fn read(&mut self, to: &mut [u8]) -> Result<usize, Broken>;
    /// Takes bytes to send, as many as there is room for, and returns how many.
    ///
    /// # Errors
    /// It has ended.
    fn write(&mut self, from: &[u8]) -> Result<usize, Broken>;
}

/// What other threads have of it.
pub trait Wire: Send + Sync {
    /// Ends it, at both ends.
    fn end(&self);
    /// Has either end ended it, whatever is still to be read?
    fn has_gone(&self) -> bool;
    /// How long to sleep before the next look: nothing tells of what comes.
    fn pause(&self) -> Duration;
}

/// A connection as other threads have it: to be waited for, and to be ended.
#[derive(Clone)]
pub enum Line {
    /// Over a socket.
    Socket(Arc<OwnedFd>),
    /// Over another network.
    Other(Arc<dyn Wire>),
}

impl Line {
    /// Ends the connection.
    pub fn end(&self) {
        match self {
            // To close it is not enough: a child that this process has forked has it, too. An error means that it has ended.
            Self::Socket(socket) => drop(shutdown(&**socket, Shutdown::Both)),
            Self::Other(wire) => wire.end(),
        }
    }

    /// Has the other end ended it, or this one, whatever is still to be read?
    pub fn has_gone(&self) -> bool {
        match self {
            Self::Socket(socket) => socket::has_gone(socket),
            Self::Other(wire) => wire.has_gone(),
        }
    }

    /// What tells of bytes that come. `None`: nothing does, and who waits looks again behind [`Self::pause`].
    pub fn descriptor(&self) -> Option<&Arc<OwnedFd>> {
        match self {
            Self::Socket(socket) => Some(socket),
            Self::Other(_) => None,
        }
    }

    /// How long to sleep before the next look, where nothing tells of what comes.
    pub fn pause(&self) -> Option<Duration> {
        match self {
            Self::Socket(_) => None,
            Self::Other(wire) => Some(wire.pause()),
        }
    }

    pub(crate) fn wait(&self, interest: PollFlags, limit: Duration) {
        match self {
            Self::Socket(socket) => socket::wait(socket, interest, limit),
            // Sleeps shorter than this take longer.
            Self::Other(wire) if wire.pause() < Duration::from_micros(20) => std::thread::yield_now(),
            Self::Other(wire) => std::thread::sleep(wire.pause().min(limit)),
        }
    }
}

/// The bytes below the frames.
pub(crate) enum Io {
    Secured(Secured),
    Carried(Carried),
}

/// Another network.
pub(crate) struct Carried {
    carrier: Box<dyn Carrier>,
    wire: Arc<dyn Wire>,
    /// Who opened it.
    process: Pid,
}

fn is_here(process: Pid) -> Result<(), Broken> {
    if getpid() == process { Ok(()) } else { Err(Broken::Forked) }
}

impl Io {
    /// As [`Channel::new`](crate::Channel::new).
    pub(crate) fn secured(socket: OwnedFd, end: End, key: Option<&Key>, silence: Duration) -> Result<Self, Broken> {
        let tls = key.map(|key| Tls::new(&key.0, end).map(Box::new)).transpose()?;
        let is_proven = tls.is_none();
        let (socket, process) = (Arc::new(socket), getpid());
        Ok(Self::Secured(Secured { socket, tls, is_proven, is_drained: false, silence, process }))
    }

    pub(crate) fn carried(carrier: impl Carrier + 'static, wire: Arc<dyn Wire>) -> Self {
        Self::Carried(Carried { carrier: Box::new(carrier), wire, process: getpid() })
    }

    pub(crate) fn line(&self) -> Line {
        match self {
            Self::Secured(io) => Line::Socket(io.socket.clone()),
            Self::Carried(io) => Line::Other(io.wire.clone()),
        }
    }

    pub(crate) fn is_ours(&self) -> Result<(), Broken> {
        match self {
            Self::Secured(io) => is_here(io.process),
            Self::Carried(io) => is_here(io.process),
        }
    }

    /// Has each end proved the key to the other?
    pub(crate) fn is_proven(&self) -> bool {
        match self {
            Self::Secured(io) => io.is_proven,
            Self::Carried(_) => true,
        }
    }

    /// Goes on with the handshake. True: each end has proved the key to the other.
    pub(crate) fn prove(&mut self) -> Result<bool, Broken> {
        match self {
            Self::Secured(io) => io.prove(),
            Self::Carried(_) => Ok(true),
        }
    }

    /// Reads some bytes; 0: none have come.
    pub(crate) fn read(&mut self, to: &mut [u8]) -> Result<usize, Broken> {
        match self {
            Self::Secured(io) => io.read(to),
            Self::Carried(io) => {
                is_here(io.process)?;
                io.carrier.read(to)
            }
        }
    }

    /// Gives bytes out where they are, at most so many. `None`: they are nowhere.
    pub(crate) fn pass(&mut self, most: usize, to: &mut impl FnMut(&[u8])) -> Result<Option<usize>, Broken> {
        match self {
            Self::Secured(io) => io.pass(most, to),
            Self::Carried(_) => Ok(None),
        }
    }

    /// Takes bytes to send; returns how many.
    pub(crate) fn write(&mut self, from: &[u8]) -> Result<usize, Broken> {
        match self {
            Self::Secured(io) => io.write(from),
            Self::Carried(_) if from.is_empty() => Ok(0),
            Self::Carried(io) => {
                is_here(io.process)?;
                io.carrier.write(from)
            }
        }
    }

    pub(crate) fn has_unsent(&self) -> bool {
        match self {
            Self::Secured(io) => io.has_unsent(),
            Self::Carried(_) => false,
        }
    }
}

/// A socket, mostly with TLS over it.
pub(crate) struct Secured {
    socket: Arc<OwnedFd>,
    /// `None` between two ends in one program.
    tls: Option<Box<Tls>>,
    is_proven: bool,
    /// The last look took all that there was, and stands for the next one.
    is_drained: bool,
    silence: Duration,
    /// Who opened it.
    pub(crate) process: Pid,
}

impl Secured {
    /// Hands over what TLS has to send.
    fn send(&mut self) -> Result<(), Broken> {
        if self.has_unsent() {
            is_here(self.process)?;
        }
        self.send_ours()
    }

    fn send_ours(&mut self) -> Result<(), Broken> {
        while self.has_unsent() {
            let Some(tls) = &mut self.tls else { break };
            match tls.connection.write_tls(&mut Bytes(&self.socket)) {
                Ok(_) => {}
                Err(e) => return socket::broken(&e, self.silence).map_or(Ok(()), Err),
            }
        }
        Ok(())
    }

    /// Goes on with the handshake. True: each end has proved the key to the other.
    fn prove(&mut self) -> Result<bool, Broken> {
        while !self.is_proven {
            let Some(tls) = &mut self.tls else { return Ok(true) };
            self.is_proven = tls.is_proven()?;
            if self.is_proven {
                break;
            }
            let heard = hear(&self.socket, tls, self.silence);
            // Also an alert, which tells the other end why.
            let sent = self.send();
            let is_heard = heard?.is_some();
            sent?;
            if !is_heard {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads some bytes; 0: none have come.
    fn read(&mut self, to: &mut [u8]) -> Result<usize, Broken> {
        if !self.prove()? || to.is_empty() {
            return Ok(0);
        }
        loop {
            let Some(tls) = &mut self.tls else {
                return match Bytes(&self.socket).read(to) {
                    Ok(0) => Err(Broken::Closed),
                    Ok(len) => Ok(len),
                    Err(e) => socket::broken(&e, self.silence).map_or(Ok(0), Err),
                };
            };
            match tls.connection.reader().read(to) {
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => return Err(Broken::Closed),
                Ok(len) => return Ok(len),
            }
            if !self.hear()? {
                return Ok(0);
            }
        }
    }

    /// As [`Io::pass`], over TLS.
    fn pass(&mut self, most: usize, to: &mut impl FnMut(&[u8])) -> Result<Option<usize>, Broken> {
        if !self.prove()? {
            return Ok(Some(0));
        }
        loop {
            let Some(tls) = &mut self.tls else { return Ok(None) };
            let mut reader = tls.connection.reader();
            match reader.fill_buf() {
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                Ok([]) | Err(_) => return Err(Broken::Closed),
                Ok(bytes) => {
                    let bytes = bytes.get(..most).unwrap_or(bytes);
                    to(bytes);
                    let len = bytes.len();
                    reader.consume(len);
                    return Ok(Some(len));
                }
            }
            if !self.hear()? {
                return Ok(Some(0));
            }
        }
    }

    /// Gives TLS what has come, and sends what it may have to say itself. False: nothing has.
    fn hear(&mut self) -> Result<bool, Broken> {
        let is_heard = match &mut self.tls {
            Some(tls) if !std::mem::take(&mut self.is_drained) => {
                hear(&self.socket, tls, self.silence)?.inspect(|is_all| self.is_drained = *is_all).is_some()
            }
            _ => false,
        };
        if !is_heard {
            self.send()?;
        }
        Ok(is_heard)
    }

    /// Takes bytes to send; returns how many.
    fn write(&mut self, from: &[u8]) -> Result<usize, Broken> {
        self.send()?;
        if !self.prove()? || from.is_empty() {
            return Ok(0);
        }
        is_here(self.process)?;
        let Some(tls) = &mut self.tls else {
            return Bytes(&self.socket).write(from).or_else(|e| socket::broken(&e, self.silence).map_or(Ok(0), Err));
        };
        if tls.connection.wants_write() {
            return Ok(0);
        }
        // What TLS takes it keeps until it is sent.
        let len = tls.connection.writer().write(from).map_err(|_| Broken::Closed)?;
        self.send_ours()?;
        Ok(len)
    }

    fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.connection.wants_write())
    }
}

/// Gives TLS what has come, and says whether that was all. `None`: nothing has.
fn hear(socket: &OwnedFd, tls: &mut Tls, silence: Duration) -> Result<Option<bool>, Broken> {
    let mut from = Short { socket: Bytes(socket), is_short: false };
    match tls.connection.read_tls(&mut from) {
        Ok(0) => return Err(Broken::Closed),
        Ok(_) => {}
        Err(e) => return socket::broken(&e, silence).map_or(Ok(None), Err),
    }
    tls.connection.process_new_packets().map(|_| Some(from.is_short)).map_err(|e| tls::broken(&e))
}

/// A socket, and whether it had less than there was room for.
struct Short<'a> {
    socket: Bytes<'a>,
    is_short: bool,
}

impl std::io::Read for Short<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let room = to.len();
        self.socket.read(to).inspect(|len| self.is_short = *len < room)
    }
}
