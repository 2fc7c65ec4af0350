//! RoCEv2 over a UDP socket, between adapters of this kind.
//!
//! A check value covers the number of the IPv4 packet, which a program neither gives nor learns. Linux gives zero to a
//! socket that is not connected and may not fragment: so this wire sends, and so it expects. Stock peers count the
//! number, and need a wire of whole frames.

use crate::packet::{OVERHEAD, PORT, Route};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt::{Ipv4PathMtuDiscovery, set_ip_mtu_discover, set_socket_recv_buffer_size};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recvfrom, sendto, socket_with};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// Bytes of the longest packet: a path MTU of 4096.
pub const LONGEST: usize = 4096 + OVERHEAD;
/// Packets of other ports that are dropped at once.
const MOST_DROPPED: u32 = 64;
/// Bytes that wait in the socket, if the system allows it.
const BUFFER: usize = 4 << 20;

/// A socket of an adapter (see the module).
pub struct Udp {
    socket: OwnedFd,
    from: SocketAddrV4,
}

/// Why there is no socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BindError {
    /// An address of this machine is needed, not all of them.
    Unspecified,
    /// Others than programs of this machine could reach it. Nothing says who sends a packet.
    Exposed(Ipv4Addr),
    /// The system refuses it.
    System(Ipv4Addr, Errno),
}

/// Is it an address that one machine has?
pub const fn is_of_one(at: Ipv4Addr) -> bool {
    !at.is_unspecified() && !at.is_broadcast() && !at.is_multicast()
}

impl std::error::Error for BindError {}

impl std::fmt::Display for BindError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unspecified => write!(f, "expected one address of this machine"),
            Self::Exposed(at) => {
                write!(
                    f,
                    "{at} can be reached from other machines, and RoCEv2 has no authentication: `--expose` allows it"
                )
            }
            Self::System(at, why) => write!(f, "cannot use {at}:{PORT}: {why}"),
        }
    }
}

impl Udp {
    /// Port 4791 of an address: a loopback address, unless it may be exposed.
    ///
    /// # Errors
    /// It may not; the system refuses it, as when another adapter has the address.
    pub fn bind(at: Ipv4Addr, may_be_exposed: bool) -> Result<Self, BindError> {
        if !is_of_one(at) {
            return Err(BindError::Unspecified);
        }
        if !at.is_loopback() && !may_be_exposed {
            return Err(BindError::Exposed(at));
        }
        let from = SocketAddrV4::new(at, PORT);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let open = || {
            let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
            set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO)?;
            // What has no place is lost, as on any wire.
            let _ = set_socket_recv_buffer_size(&socket, BUFFER);
            bind(&socket, &from)?;
            Ok(socket)
        };
        open().map(|socket| Self { socket, from }).map_err(|why| BindError::System(at, why))
    }

    /// The way that packets to a peer go.
    pub fn route_to(&self, to: Ipv4Addr) -> Route {
        Route { from: self.from, to, id: 0 }
    }

    /// Sends a packet. One that has no place in the socket is lost.
    ///
    /// # Errors
    /// The socket has ended.
    pub fn send(&self, to: Ipv4Addr, packet: &[u8]) -> Result<(), Errno> {
        match sendto(&self.socket, packet, SendFlags::DONTWAIT, &SocketAddrV4::new(to, PORT)) {
            Err(Errno::BADF | Errno::NOTSOCK) => Err(Errno::BADF),
            // Others are about a packet, or a peer.
            _ => Ok(()),
        }
    }

    /// The next packet: the way that it came, and its bytes, which `buffer` has then. `None`: there is none.
    ///
    /// Adapters of this kind send from the port as well, which one process of a machine has: others that can send from
    /// its address are not heard.
    ///
    /// # Errors
    /// The socket has ended.
    pub fn receive<'b>(&self, buffer: &'b mut [u8; LONGEST]) -> Result<Option<(Route, &'b [u8])>, Errno> {
        for _ in 0..MOST_DROPPED {
            match recvfrom(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                // A longer one is cut, and its check value wrong.
                Ok((_, bytes, from)) => match from.and_then(|from| SocketAddr::try_from(from).ok()) {
                    Some(SocketAddr::V4(from)) if from.port() == PORT => {
                        let packet = buffer.get(..bytes).unwrap_or_default();
                        return Ok(Some((Route { from, to: *self.from.ip(), id: 0 }, packet)));
                    }
                    _ => {}
                },
                Err(Errno::BADF | Errno::NOTSOCK) => return Err(Errno::BADF),
                Err(_) => break,
            }
        }
        Ok(None)
    }
}

impl AsFd for Udp {
    /// To wait for a packet.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Header, MASK, Opcode, Operation, Refused, begin, parse, seal};

    /// The system must number packets as the module says, for all lengths.
    #[test]
    fn a_packet_comes_with_its_check_value() {
        let [a, b] = [7, 8].map(|last| Ipv4Addr::new(127, 91, 0, last));
        let [a_socket, b_socket] = [a, b].map(|at| Udp::bind(at, false).expect("nobody has it"));
        let mut buffer = [0; LONGEST];
        assert!(matches!(b_socket.receive(&mut buffer), Ok(None)));
        for length in [0, 1, 256, 1024, 4096] {
            let header = Header::new(Opcode::new(Operation::Send, true, true), 1, MASK);
            let (mut packet, payload) = (Vec::new(), vec![7; length]);
            begin(&header, length, &mut packet);
            packet.extend_from_slice(&payload);
            seal(&mut packet, &a_socket.route_to(b));
            // Twice: a socket that counts would show it.
            for _ in 0..2 {
                a_socket.send(b, &packet).expect("it is open");
                let (route, came) = b_socket.receive(&mut buffer).expect("it is open").expect("it has come");
                assert_eq!(
                    (route, parse(&route.headers(came.len()), came)),
                    (a_socket.route_to(b), Ok((header, &payload[..])))
                );
            }
        }
        a_socket.send(b, &[0; LONGEST + 1]).expect("it is open");
        let (route, came) = b_socket.receive(&mut buffer).expect("it is open").expect("it has come");
        assert_eq!((came.len(), parse(&route.headers(came.len()), came)), (LONGEST, Err(Refused::Length)));
    }

    #[test]
    fn a_packet_of_another_port_is_dropped() {
        let [a, b] = [11, 12].map(|last| Ipv4Addr::new(127, 91, 0, last));
        let (socket, peer) = (Udp::bind(b, false).expect("nobody has it"), Udp::bind(a, false).expect("nobody has it"));
        let other = std::net::UdpSocket::bind((a, 0)).expect("a port");
        other.send_to(&[1; 16], (b, PORT)).expect("it is open");
        peer.send(b, &[2; 16]).expect("it is open");
        let mut buffer = [0; LONGEST];
        let (_, came) = socket.receive(&mut buffer).expect("it is open").expect("it has come");
        assert_eq!(came, [2; 16]);
        assert!(matches!(socket.receive(&mut buffer), Ok(None)));
    }

    #[test]
    fn addresses_of_other_machines_are_refused_unless_exposed() {
        let refused = |at: [u8; 4], exposed| Udp::bind(at.into(), exposed).err();
        assert_eq!(refused([192, 0, 2, 1], false), Some(BindError::Exposed([192, 0, 2, 1].into())));
        assert!(matches!(refused([192, 0, 2, 1], true), Some(BindError::System(_, Errno::ADDRNOTAVAIL))));
        assert_eq!(refused([0; 4], true), Some(BindError::Unspecified));
        let first = Udp::bind([127, 91, 0, 9].into(), false);
        assert!(matches!(refused([127, 91, 0, 9], false), Some(BindError::System(_, Errno::ADDRINUSE))));
        drop(first);
    }
}
