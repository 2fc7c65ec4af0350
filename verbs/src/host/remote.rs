//! Connections between adapters: the wire of one, and what the programs of both tell each other of a queue pair.

use super::{Ends, Fabric, FabricError, LIMIT};
use crate::ids::{AhId, QpId};
use crate::wire::{Command, Kind, Object, RemoteEnd, Verb};
use core::fmt;
use std::ffi::OsString;
use std::format;
use std::hash::{BuildHasher, Hash};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;
use std::string::{String, ToString};
use std::vec::Vec;

/// What connects an adapter with others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Wire {
    /// Nothing: both ends of each connection are queue pairs of its own.
    #[default]
    Own,
    /// RoCEv2 over port 4791 of an address. RoCEv2 has no authentication: who can send from a peer's address can write
    /// what that peer may.
    Udp {
        /// An IPv4 address of this machine: one adapter each.
        address: Ipv4Addr,
        /// It may be another one than a loopback address.
        is_exposed: bool,
        /// Faults of what is sent, for tests: `seed,loss,repeat,damage,reorder`, in thousandths and places.
        faults: Option<String>,
    },
    /// RoCEv2 in frames of an Ethernet, with stock peers: each datagram between two UNIX sockets is a frame, as QEMU's
    /// `-netdev dgram` has them. Who can send to the socket is believed.
    Ethernet {
        /// The socket that the adapter binds: it does not exist, and is removed with the adapter.
        socket: PathBuf,
        /// The one at the other end, which may appear later.
        other: PathBuf,
        /// The adapter's address on the Ethernet.
        mac: [u8; 6],
        /// Its IPv4 address there.
        address: Ipv4Addr,
        /// Bytes of payload of the longest packet that both ends of the Ethernet take: 1024 for frames of 1500 bytes, 4096 for
        /// those of 4200.
        mtu: u16,
        /// As [`Self::Udp`] has them.
        faults: Option<String>,
    },
}

impl Wire {
    /// RoCEv2 over a loopback address.
    pub fn udp(address: Ipv4Addr) -> Self {
        Self::Udp { address, is_exposed: false, faults: None }
    }

    /// The program's arguments.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let (mut arguments, faults): (Vec<OsString>, _) = match self {
            Self::Own => return Vec::new(),
            Self::Udp { address, is_exposed, faults } => {
                let exposed = is_exposed.then(|| "--expose".into());
                (["--udp".into(), address.to_string().into()].into_iter().chain(exposed).collect(), faults)
            }
            Self::Ethernet { socket, other, mac: [a, b, c, d, e, f], address, faults, .. } => {
                let mac = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
                let sockets = ["--ethernet".into(), socket.into(), "--other".into(), other.into()];
                let addresses = ["--mac".into(), mac.into(), "--address".into(), address.to_string().into()];
                ([sockets, addresses].concat(), faults)
            }
        };
        arguments.extend(["--mtu".into(), self.mtu().to_string().into()]);
        arguments.extend(faults.iter().flat_map(|faults| ["--faults".into(), faults.into()]));
        arguments
    }

    /// Bytes of payload of the longest packet, and so of the longest datagram (`active_mtu` of `ibv_query_port`): over UDP
    /// 4096 between programs of this machine, else what fits into all Ethernet frames.
    pub fn mtu(&self) -> u16 {
        match self {
            Self::Own => 4096,
            Self::Udp { address, .. } => {
                if address.is_loopback() {
                    4096
                } else {
                    1024
                }
            }
            Self::Ethernet { mtu, .. } => *mtu,
        }
    }

    /// A path that the adapter makes.
    pub(super) fn socket(&self) -> Option<&std::path::Path> {
        match self {
            Self::Own | Self::Udp { .. } => None,
            Self::Ethernet { socket, .. } => Some(socket),
        }
    }

    pub(super) fn address(&self) -> Option<Ipv4Addr> {
        match self {
            Self::Own => None,
            Self::Udp { address, .. } | Self::Ethernet { address, .. } => Some(*address),
        }
    }
}

/// A queue pair, for the program of another one: as text it is what `ibv_rc_pingpong` exchanges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// The address of its adapter.
    pub address: Ipv4Addr,
    /// Its number: 24 bits.
    pub qp_number: u32,
    /// The number of the first packet that it sends: 24 bits.
    pub psn: u32,
}

impl fmt::Display for Endpoint {
    /// `LID:QPN:PSN:GID`, hexadecimal; the LID is 0, the GID an IPv4 address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gid = u128::from_be_bytes(self.address.to_ipv6_mapped().octets());
        write!(f, "0000:{:06x}:{:06x}:{gid:032x}", self.qp_number, self.psn)
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected LID:QPN:PSN:GID with an IPv4 address, got {text:?}");
        let fields: Vec<&str> = text.split(':').collect();
        let [_, qp_number, psn, gid] = fields[..] else { return Err(wrong()) };
        let number = |text| u32::from_str_radix(text, 16).ok().filter(|number| *number < 1 << 24).ok_or_else(wrong);
        let gid = u128::from_str_radix(gid, 16).map_err(|_| wrong())?;
        let address = std::net::Ipv6Addr::from(gid).to_ipv4_mapped().ok_or_else(wrong)?;
        Ok(Self { address, qp_number: number(qp_number)?, psn: number(psn)? })
    }
}

/// The way to a queue pair of another adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Bytes of payload of a packet: 256, 512, 1024, 2048 or 4096. Both ends have the same.
    pub mtu: u16,
    /// How long an acknowledgement is waited for: a code, 4.096 µs * 2^code (`timeout`). 0: for ever.
    pub timeout: u8,
    /// How often a request is sent again without an answer: at most 7 (`retry_cnt`).
    pub retry: u8,
}

impl Default for Path {
    /// 1024 bytes, which fit into all Ethernet frames; 67 ms, seven times.
    fn default() -> Self {
        Self { mtu: 1024, timeout: 14, retry: 7 }
    }
}

/// Numbers of 24 bits begin random, so that who does not see packets cannot forge one.
fn random(ends: &Ends, of: impl Hash) -> u32 {
    ends.keys.hash_one(of) as u32 & 0xFF_FFFF
}

impl Ends {
    /// The number of a queue pair: its low byte is the index. 0 and 1 are of the network's own queue pairs.
    pub(super) fn qp_number(&self, index: u16) -> u32 {
        random(self, index) & 0xFF_FF00 | 0x10_0000 | u32::from(index)
    }

    /// Another one in each generation, so that packets of an earlier one come to nothing.
    fn psn(&self, qp: QpId) -> u32 {
        random(self, (qp.index, qp.generation))
    }
}

impl Fabric {
    /// Makes a handle of another adapter's address, for datagrams.
    ///
    /// # Errors
    /// No room; this adapter has no wire; it is lost.
    pub fn address_handle(&self, of: Ipv4Addr) -> Result<AhId, FabricError> {
        let made = self.0.create((Kind::ADDRESS_HANDLE, 0), LIMIT, |ends, base| {
            ends.address.ok_or(FabricError::NoWire)?;
            Ok(Object { iova: u32::from(of).into(), ..base })
        });
        made.map(|(id, _)| id.into())
    }

    /// Destroys an address handle. Requests that name it fail.
    ///
    /// # Errors
    /// It is of another adapter, or was destroyed; this one is lost.
    pub fn destroy_address_handle(&self, handle: AhId) -> Result<(), FabricError> {
        self.0.destroy(Kind::ADDRESS_HANDLE, handle.name())
    }

    /// What the program of another adapter needs to connect a queue pair of its own with this one.
    ///
    /// # Errors
    /// It is of another adapter; this one has no wire ([`FabricError::NoWire`]).
    pub fn endpoint(&self, qp: QpId) -> Result<Endpoint, FabricError> {
        let ends = self.0.lock(LIMIT)?;
        let ends = ends.as_ref().ok_or(FabricError::Lost)?;
        ends.live(Kind::QUEUE_PAIR, qp.name())?;
        let address = ends.address.ok_or(FabricError::NoWire)?;
        Ok(Endpoint { address, qp_number: ends.qp_number(qp.index()), psn: ends.psn(qp) })
    }

    /// Connects a queue pair with one of another adapter. That one is to be connected with this one as well; what is
    /// sent before comes late.
    ///
    /// # Errors
    /// It is connected, or of another adapter; this one has no wire; the path cannot be, or has longer packets than the wire; the
    /// adapter is lost.
    pub fn connect_remote(&self, qp: QpId, with: &Endpoint, path: &Path) -> Result<(), FabricError> {
        self.0.with(LIMIT, |ends, adapter| {
            ends.live(Kind::QUEUE_PAIR, qp.name())?;
            ends.address.ok_or(FabricError::NoWire)?;
            let (address, own_psn) = (with.address.octets(), ends.psn(qp));
            let &Path { mtu, timeout, retry } = path;
            if mtu > ends.mtu {
                let (what, most, wanted) = ("bytes of a packet (Wire::mtu)", ends.mtu.into(), mtu.into());
                return Err(FabricError::Limit { what, most, wanted });
            }
            let &Endpoint { qp_number, psn, .. } = with;
            let remote = RemoteEnd { address, qp_number, psn, own_psn, mtu, timeout, retry, reserved: 0 };
            let object = Object { index: qp.index(), ..Object::default() };
            adapter(Command { verb: Verb::CONNECT_REMOTE, peer: 0, object, remote })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_text_of_pingpong() {
        let text = "0000:001234:5e5383:00000000000000000000ffff0a000002";
        let endpoint = Endpoint { address: Ipv4Addr::new(10, 0, 0, 2), qp_number: 0x1234, psn: 0x5E_5383 };
        assert_eq!((endpoint.to_string().as_str(), text.parse()), (text, Ok(endpoint)));
        let wrongs = ["", "0:1:2", "0:1:2:3", "0:1000000:2:ffff0a000002", "0:1:x:ffff0a000002", "0:1:2:ffff0a000002:"];
        assert!(wrongs.iter().all(|text| text.parse::<Endpoint>().is_err()));
    }
}
