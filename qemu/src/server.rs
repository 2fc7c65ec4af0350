//! The ivshmem server, which is this process: it tells a machine what memory its card has, who else shares it, and how the two
//! ring each other (QEMU, `specs/ivshmem-spec`, "the client-server protocol").
//!
//! All that a server says is said when a client connects, and nobody joins later: the messages wait in the socket before
//! the machine starts. The host is peer 0 and the machine peer 1, with one doorbell each.

use crate::Error;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType};
use std::io::IoSlice;
use std::mem::MaybeUninit;

/// Version of the protocol.
const VERSION: i64 = 0;
const HOST: i64 = 0;
const MACHINE: i64 = 1;
/// In place of a number: the memory comes with it.
const MEMORY: i64 = -1;

/// Doorbells between the machine's image and this process: an eventfd for each direction.
#[derive(Clone, Copy, Debug)]
pub struct MachineDoorbells<'a> {
    /// Rung by the image.
    pub host: BorrowedFd<'a>,
    /// Rung by this process.
    pub machine: BorrowedFd<'a>,
}

/// The client's end of a connection with everything in it, and the server's, whose end would be noticed.
pub(crate) fn connect(memory: impl AsFd, doorbells: MachineDoorbells<'_>) -> Result<(OwnedFd, OwnedFd), Error> {
    let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(Error::os("making a socket pair"))?;
    let memory = memory.as_fd();
    let messages = [
        (VERSION, None),
        (MACHINE, None),
        (MEMORY, Some(memory)),
        // A peer comes with the bell that rings it; what comes with its own number is to be listened to.
        (HOST, Some(doorbells.host)),
        (MACHINE, Some(doorbells.machine)),
    ];
    for (number, descriptor) in messages {
        send(&ours, number, descriptor).map_err(Error::os("telling the machine what it shares"))?;
    }
    Ok((theirs, ours))
}

fn send(socket: &OwnedFd, number: i64, descriptor: Option<BorrowedFd<'_>>) -> Result<(), rustix::io::Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.as_slice();
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    // Eight bytes in a socket that holds thousands: they go in one piece.
    rustix::net::sendmsg(socket, &[IoSlice::new(&number.to_le_bytes())], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}
