//! The messages between a host and the process that keeps a device. Each is one packet; the sockets
//! keep packets apart.
//!
//! ```text
//! host                                keeper
//! greeting, Ask            ────────▶
//!                          ◀────────  greeting, granted, the window's length, kind and image; descriptors
//! RENEW (any time)         ────────▶  ends the device's process, and starts another
//!                          ◀────────  renewed; the process's descriptor
//! end of file              ────────▶  the next host may come
//!
//! greeting, Stop           ────────▶  ends the device, and gives the name up
//!                          ◀────────  greeting, stopped
//! ```
//!
//! The other end may be stopped, busy, or any user's: names have no owner. So nothing here waits but
//! with a [`Limit`].

use crate::Error;
use hamr_device_fw::hosted::peer::peer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg, socket_with,
};
use rustix::process::Pid;
use std::ffi::{OsStr, OsString};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, Instant};

/// First bytes of a connection, and of its answer; the digit is the version of this protocol.
const GREETING: [u8; 8] = *b"hamrsrv2";
/// Between two tries to connect to a keeper that has no room for connections.
const PAUSE: Duration = Duration::from_millis(5);
/// Bytes of the longest packet: a path and some words.
const LONGEST: usize = 8 << 10;
/// Descriptors of one packet.
pub(crate) const DESCRIPTORS: usize = 4;
/// Bytes of the longest name.
const LONGEST_NAME: usize = 64;

/// How long the caller waits, from now on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    begin: Instant,
    whole: Duration,
}

impl Limit {
    pub(crate) fn of(whole: Duration) -> Self {
        Self { begin: Instant::now(), whole }
    }

    /// What is left of it.
    pub(crate) fn left(self) -> Duration {
        self.whole.saturating_sub(self.begin.elapsed())
    }
}

/// Why there is no answer of use.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// It may still come.
    Late(String),
    /// It will not.
    Never(String),
}

impl From<Unanswered> for String {
    fn from(unanswered: Unanswered) -> Self {
        let (Unanswered::Late(why) | Unanswered::Never(why)) = unanswered;
        why
    }
}

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ask {
    /// To be the device's host.
    Attach,
    /// To end the device and its keeper.
    Stop,
}

/// The only request of a host that is attached.
pub(crate) const RENEW: [u8; 1] = *b"R";

/// A keeper's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// The host has the device. Descriptors: memory, notified, device, process.
    Granted {
        /// Bytes of the window.
        window_len: u64,
        /// Kind of the device's link, such as `shm`.
        kind: String,
        /// Path of the image's file, of any bytes; empty when it is not known.
        image: OsString,
    },
    /// The device has a new process. Descriptor: that process.
    Renewed,
    /// The device has ended, and the name is free.
    Stopped,
    /// Why not.
    Refused(String),
}

impl Answer {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = GREETING.to_vec();
        match self {
            Self::Granted { window_len, kind, image } => {
                bytes.push(b'G');
                bytes.extend(window_len.to_le_bytes());
                bytes.extend(kind.bytes().chain([b'\n']).chain(image.as_bytes().iter().copied()));
            }
            Self::Renewed => bytes.push(b'F'),
            Self::Stopped => bytes.push(b'E'),
            Self::Refused(why) => {
                bytes.push(b'N');
                bytes.extend(why.as_bytes());
            }
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.strip_prefix(&GREETING)?.split_first()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match kind {
            b'G' => {
                let (window_len, names) = rest.split_first_chunk()?;
                let end = names.iter().position(|byte| *byte == b'\n')?;
                let (kind, image) = (text(&names[..end]), OsStr::from_bytes(&names[end + 1..]).into());
                Some(Self::Granted { window_len: u64::from_le_bytes(*window_len), kind, image })
            }
            b'F' => Some(Self::Renewed),
            b'E' => Some(Self::Stopped),
            b'N' => Some(Self::Refused(text(rest))),
            _ => None,
        }
    }
}

/// What a name is.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(is_good) {
        return Ok(());
    }
    Err(format!("expected a name of 1 to {LONGEST_NAME} letters, digits and `._-`, got `{name}`"))
}

/// Each user has names of its own.
fn address(name: &str) -> Result<SocketAddrUnix, Errno> {
    let user = rustix::process::geteuid().as_raw();
    SocketAddrUnix::new_abstract_name(format!("hamr:{user}:{name}").as_bytes())
}

fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// The socket on which a keeper listens; `None` when there is one of that name.
pub(crate) fn listen(name: &str) -> Result<Option<OwnedFd>, Error> {
    let listening = || {
        let socket = socket()?;
        rustix::net::bind(&socket, &address(name)?)?;
        rustix::net::listen(&socket, 16)?;
        Ok(socket)
    };
    match listening() {
        Err(Errno::ADDRINUSE) => Ok(None),
        socket => socket.map(Some).map_err(Error::os(format!("listening at the name {name}"))),
    }
}

/// Another process of this user at the other end? Names of sockets have no owner. Its number, unless it is
/// in a PID namespace that this process does not see.
pub(crate) fn same_user(socket: impl AsFd) -> Result<Option<Pid>, String> {
    let peer = peer(socket).map_err(|e| e.to_string())?;
    let me = rustix::process::geteuid().as_raw();
    if peer.user == me {
        return Ok(peer.pid);
    }
    Err(format!("expected a process of user {me}, got one of user {}", peer.user))
}

/// What messages call a process of this number.
pub(crate) fn shown(pid: Option<i32>) -> String {
    pid.map_or_else(|| "a process of another PID namespace".into(), |pid| format!("process {pid}"))
}

/// The number for [`shown`].
pub(crate) fn number(pid: Option<Pid>) -> Option<i32> {
    pid.map(|pid| pid.as_raw_nonzero().get())
}

/// Why no keeper was asked.
#[derive(Debug)]
pub(crate) enum Unasked {
    /// None has the name here.
    Absent(String),
    /// What it is.
    Failed(String),
}

impl Unasked {
    /// For who reads it: looks into all processes for a keeper of this name elsewhere.
    pub(crate) fn explained(self, name: &str) -> String {
        match self {
            Self::Absent(why) => super::elsewhere::reason(name).unwrap_or(why),
            Self::Failed(why) => why,
        }
    }
}

impl From<Unasked> for String {
    fn from(unasked: Unasked) -> Self {
        let (Unasked::Absent(why) | Unasked::Failed(why)) = unasked;
        why
    }
}

/// Connects to a keeper and asks.
pub(crate) fn connect(name: &str, ask: Ask, limit: Limit) -> Result<OwnedFd, Unasked> {
    check_name(name).map_err(Unasked::Failed)?;
    let failed = |e: Errno| Unasked::Failed(format!("connecting to {name}: {e}"));
    let (socket, address) = (socket().map_err(failed)?, address(name).map_err(failed)?);
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::CONNREFUSED) => {
                return Err(Unasked::Absent(format!(
                    "expected a device that `hamr serve {name}` keeps running, found none of that name"
                )));
            }
            Err(Errno::INTR) => {}
            // Its queue is full, and nothing tells when there is room.
            Err(Errno::AGAIN) if !limit.left().is_zero() => std::thread::sleep(PAUSE.min(limit.left())),
            Err(Errno::AGAIN) => {
                return Err(Unasked::Failed(format!(
                    "expected the process at the name {name} to take a connection within {:?}, it did not: it is \
                     stopped or busy, or another user's",
                    limit.whole
                )));
            }
            Err(e) => return Err(failed(e)),
        }
    }
    same_user(&socket).map_err(Unasked::Failed)?;
    let word = match ask {
        Ask::Attach => b'A',
        Ask::Stop => b'S',
    };
    send(&socket, &[&GREETING[..], &[word]].concat(), &[])
        .map_err(|e| Unasked::Failed(format!("asking {name}: {e}")))?;
    Ok(socket)
}

/// What a new connection is for.
pub(crate) fn asked(socket: &OwnedFd) -> Option<Ask> {
    match receive(socket).ok()?.0.strip_prefix(&GREETING)? {
        b"A" => Some(Ask::Attach),
        b"S" => Some(Ask::Stop),
        _ => None,
    }
}

/// Answers a host. An error means that it has left.
pub(crate) fn answer(socket: &OwnedFd, answer: &Answer, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    send(socket, &answer.encode(), descriptors)
}

/// Asks the keeper for another process of the device, unless that `is_asked` already, and its answer
/// came too late for who asked.
pub(crate) fn renew(socket: &OwnedFd, is_asked: bool, limit: Limit) -> Result<OwnedFd, Unanswered> {
    if !is_asked {
        send(socket, &RENEW, &[]).map_err(|e| Unanswered::Never(e.to_string()))?;
    }
    match answered(socket, limit)? {
        (Answer::Renewed, descriptors) => descriptors.into_iter().next().ok_or_else(malformed),
        (Answer::Refused(why), _) => Err(Unanswered::Never(why)),
        _ => Err(malformed()),
    }
}

/// Waits for the keeper's answer.
pub(crate) fn answered(socket: &OwnedFd, limit: Limit) -> Result<(Answer, Vec<OwnedFd>), Unanswered> {
    let never = |e: Errno| Unanswered::Never(e.to_string());
    loop {
        let left = limit.left();
        let left =
            Timespec { tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            Err(e) => return Err(never(e)),
            Ok(0) => {
                let keeper = shown(same_user(socket).ok().and_then(number));
                return Err(Unanswered::Late(format!(
                    "expected {keeper}, which keeps it, to answer within {:?}, it did not: it is stopped or busy",
                    limit.whole
                )));
            }
            Ok(_) => break,
        }
    }
    let (bytes, descriptors) = match receive(socket) {
        // A reset has left something unread.
        Err(Errno::CONNRESET) => Default::default(),
        received => received.map_err(never)?,
    };
    if bytes.is_empty() {
        return Err(Unanswered::Never("the process that keeps it has ended, or closed the connection".into()));
    }
    Ok((Answer::decode(&bytes).ok_or_else(malformed)?, descriptors))
}

fn malformed() -> Unanswered {
    Unanswered::Never("expected an answer of this version of hamr, got something else".into())
}

fn send(socket: &OwnedFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    // A peer that takes nothing must not stop this side.
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).map(drop)
}

/// The next packet, which is there; no bytes at the end.
pub(crate) fn receive(socket: &OwnedFd) -> Result<(Vec<u8>, Vec<OwnedFd>), Errno> {
    let mut bytes = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)?.bytes;
    bytes.truncate(received);
    let rights = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((bytes, rights.flatten().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_they_were_written() {
        // Paths are bytes, also line ends and what is no text.
        let granted = [&b"/a b"[..], b"", b"/caf\xe9/\xff", b"/two\nlines"].map(|image| Answer::Granted {
            window_len: 1 << 40,
            kind: "shm".into(),
            image: OsStr::from_bytes(image).into(),
        });
        for answer in granted.into_iter().chain([Answer::Renewed, Answer::Stopped, Answer::Refused("no".into())]) {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        for bytes in
            [&b""[..], b"hamrsrv2", b"hamrsrv1F", b"hamrsrv2G\0\0", b"hamrsrv2G\0\0\0\0\0\0\0\0shm", b"hamrsrv2?"]
        {
            assert_eq!(Answer::decode(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn names_are_words() {
        for good in ["a", "my-board_2.x"] {
            assert_eq!(check_name(good), Ok(()));
        }
        for bad in ["", "a/b", "a b", "ü", &"x".repeat(65)] {
            assert!(check_name(bad).is_err_and(|why| why.contains(bad)), "{bad}");
        }
    }
}
