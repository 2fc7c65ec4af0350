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
//! ```

use crate::Error;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, UCred, recvmsg, sendmsg, socket_with,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::time::Duration;

/// First bytes of a connection, and of its answer; the digit is the version of this protocol.
const GREETING: [u8; 8] = *b"hamrsrv1";
/// How long a keeper may take to answer: it may have to end a device that does not leave, and start
/// it again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of the longest packet: a path and some words.
const LONGEST: usize = 8 << 10;
/// Descriptors of one packet.
pub(crate) const DESCRIPTORS: usize = 4;
/// Bytes of the longest name.
const LONGEST_NAME: usize = 64;

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
        /// Path of the image's file; empty when it is not known.
        image: String,
    },
    /// The device has a new process. Descriptor: that process.
    Renewed,
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
                bytes.extend(format!("{kind}\n{image}").into_bytes());
            }
            Self::Renewed => bytes.push(b'F'),
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
                let names = text(names);
                let (kind, image) = names.split_once('\n')?;
                let window_len = u64::from_le_bytes(*window_len);
                Some(Self::Granted { window_len, kind: kind.into(), image: image.into() })
            }
            b'F' => Some(Self::Renewed),
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
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
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

/// Another process of this user at the other end? Names of sockets have no owner.
pub(crate) fn same_user(socket: impl AsFd) -> Result<UCred, String> {
    let peer = rustix::net::sockopt::socket_peercred(socket).map_err(|e| e.to_string())?;
    let me = rustix::process::geteuid();
    if peer.uid == me {
        return Ok(peer);
    }
    Err(format!("expected a process of user {}, got one of user {}", me.as_raw(), peer.uid.as_raw()))
}

/// Connects to a keeper and asks. The answer to [`Ask::Stop`] is the end of the connection.
pub(crate) fn connect(name: &str, ask: Ask) -> Result<OwnedFd, String> {
    check_name(name)?;
    let connected = || {
        let socket = socket()?;
        rustix::net::connect(&socket, &address(name)?)?;
        Ok(socket)
    };
    let socket = match connected() {
        Err(Errno::CONNREFUSED) => {
            let none = || format!("expected a device that `hamr serve {name}` keeps running, found none of that name");
            return Err(super::elsewhere::reason(name).unwrap_or_else(none));
        }
        socket => socket.map_err(|e: Errno| format!("connecting to {name}: {e}"))?,
    };
    same_user(&socket)?;
    let word = match ask {
        Ask::Attach => b'A',
        Ask::Stop => b'S',
    };
    send(&socket, &[&GREETING[..], &[word]].concat(), &[]).map_err(|e| format!("asking {name}: {e}"))?;
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

/// Asks the keeper for another process of the device.
pub(crate) fn renew(socket: &OwnedFd) -> Result<OwnedFd, String> {
    send(socket, &RENEW, &[]).map_err(|e| e.to_string())?;
    match answered(socket)? {
        (Answer::Renewed, descriptors) => descriptors.into_iter().next().ok_or_else(malformed),
        (Answer::Refused(why), _) => Err(why),
        _ => Err(malformed()),
    }
}

/// Waits for the keeper's answer.
pub(crate) fn answered(socket: &OwnedFd) -> Result<(Answer, Vec<OwnedFd>), String> {
    let limit = Timespec { tv_sec: ANSWER_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
    let is_ready = loop {
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&limit)) {
            Err(Errno::INTR) => {}
            ready => break ready.map_err(|e| e.to_string())? > 0,
        }
    };
    if !is_ready {
        return Err(format!("expected an answer within {ANSWER_TIMEOUT:?}, got none"));
    }
    let (bytes, descriptors) = receive(socket).map_err(|e| e.to_string())?;
    if bytes.is_empty() {
        return Err("the process that keeps it has ended".into());
    }
    Ok((Answer::decode(&bytes).ok_or_else(malformed)?, descriptors))
}

fn malformed() -> String {
    "expected an answer of this version of hamr, got something else".into()
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
        let granted = Answer::Granted { window_len: 1 << 40, kind: "shm".into(), image: "/a b".into() };
        for answer in [granted, Answer::Renewed, Answer::Refused("no".into())] {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        for bytes in
            [&b""[..], b"hamrsrv1", b"hamrsrv2F", b"hamrsrv1G\0\0", b"hamrsrv1G\0\0\0\0\0\0\0\0shm", b"hamrsrv1?"]
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
