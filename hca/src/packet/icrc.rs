//! The invariant check value of a packet (annex A17.3.3), over all that no router changes.

use crc32fast::Hasher;
use std::net::{Ipv4Addr, SocketAddrV4};

/// The UDP port of RoCEv2.
pub const PORT: u16 = 4791;
/// The headers before a packet: IPv4 without options, UDP.
pub type Ipv4Udp = [u8; 28];

/// Where packets come from and go to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The sender's address and port.
    pub from: SocketAddrV4,
    /// The receiver's address. Its port is [`PORT`].
    pub to: Ipv4Addr,
    /// The number of the IPv4 packet. Zero for a UDP socket that is not connected and may not fragment.
    pub id: u16,
}

impl Route {
    /// The headers before a packet of so many bytes. What the check value leaves out is zero.
    pub fn headers(&self, packet: usize) -> Ipv4Udp {
        const UDP: usize = 8;
        // A UDP datagram has less than 2^16 bytes.
        let length = |more: usize| ((packet + more) as u16).to_be_bytes();
        let mut headers = [0; 28];
        let (ip, udp) = headers.split_at_mut(20);
        let [l0, l1] = length(ip.len() + UDP);
        let [i0, i1] = self.id.to_be_bytes();
        let ([a, b, c, d], [e, f, g, h]) = (self.from.ip().octets(), self.to.octets());
        // Version and length, flag "do not fragment", protocol UDP.
        ip.copy_from_slice(&[0x45, 0, l0, l1, i0, i1, 0x40, 0, 64, 17, 0, 0, a, b, c, d, e, f, g, h]);
        let ([s0, s1], [d0, d1], [l0, l1]) = (self.from.port().to_be_bytes(), PORT.to_be_bytes(), length(UDP));
        udp.copy_from_slice(&[s0, s1, d0, d1, l0, l1, 0, 0]);
        headers
    }
}

/// The check value of a packet without it, behind these headers.
///
/// Eight bytes of ones stand for the local routing header; type of service, time to live, both checksums and the fifth
/// byte of the packet count as ones. The bytes of the result are little-endian on the wire.
pub fn icrc(headers: &Ipv4Udp, packet: &[u8]) -> u32 {
    /// The value of a hasher that has seen the eight bytes.
    const SEED: u32 = 0x2144_DF1C;
    let mut masked = *headers;
    for at in [1, 8, 10, 11, 26, 27] {
        if let Some(byte) = masked.get_mut(at) {
            *byte = 0xFF;
        }
    }
    let mut hasher = Hasher::new_with_initial(SEED);
    hasher.update(&masked);
    match packet.split_first_chunk::<5>() {
        Some((&[a, b, c, d, _], rest)) => {
            hasher.update(&[a, b, c, d, 0xFF]);
            hasher.update(rest);
        }
        None => hasher.update(packet),
    }
    hasher.finalize()
}
