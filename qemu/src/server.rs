//! The ivshmem server, which is this process. It passes to a machine the memory of its card, the
//! peers that share it, and the doorbells between them (QEMU, `specs/ivshmem-spec`, "the
//! client-server protocol").
//!
//! A server sends all its messages when a client connects, and no peer joins later. So the messages
//! wait in the socket before the machine starts. The host is peer 0, the machine peer 1 or
//! what its launcher says, with one doorbell each; other ranks of a world are peers as well.

use crate::Error;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType};
use std::io::IoSlice;
use std::mem::MaybeUninit;

/// Version of the protocol.
const VERSION: i64 = 0;
const HOST: i64 = 0;
/// This number in a message announces the memory's descriptor.
const MEMORY: i64 = -1;

/// Doorbells of the machine's image: with this process an end of a pair of sockets for each direction,
/// which QEMU reads and writes as it does an eventfd.
#[derive(Clone, Copy, Debug)]
pub struct MachineDoorbells<'a> {
    /// The image notifies this process by it.
    pub host: BorrowedFd<'a>,
    /// This process notifies the image by it.
    pub machine: BorrowedFd<'a>,
    /// The image notifies other peers by these; each with its number.
    pub peers: &'a [(u16, BorrowedFd<'a>)],
}

/// The client's end of a connection with all messages in it, and the server's end, which must stay
/// open while the machine runs.
pub(crate) fn connect(
    memory: impl AsFd,
    machine: u16,
    doorbells: MachineDoorbells<'_>,
) -> Result<(OwnedFd, OwnedFd), Error> {
    let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(Error::os("making a socket pair"))?;
    let (memory, machine) = (memory.as_fd(), i64::from(machine));
    let peers = doorbells.peers.iter().map(|(number, doorbell)| (i64::from(*number), Some(*doorbell)));
    let before = [
        (VERSION, None),
        (machine, None),
        (MEMORY, Some(memory)),
        // With a peer's number comes the doorbell that notifies the peer; with the machine's own
        // number comes the one it receives on, which ends the list.
        (HOST, Some(doorbells.host)),
    ];
    for (number, descriptor) in before.into_iter().chain(peers).chain([(machine, Some(doorbells.machine))]) {
        send(&ours, number, descriptor).map_err(Error::os("sending the machine its memory and doorbells"))?;
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
    // Eight bytes in a socket with room for thousands: they are sent at once.
    rustix::net::sendmsg(socket, &[IoSlice::new(&number.to_le_bytes())], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}
