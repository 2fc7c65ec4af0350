//! RoCEv2 packets: what a UDP datagram to port 4791 holds. Checked when it comes, made in a buffer that is used again.
//!
//! ```text
//! IPv4, UDP | BTH 12 | extension headers, as the opcode says | payload | 0 to 3 bytes of padding | ICRC 4
//! ```
//! All numbers are big-endian but the ICRC. Sources: InfiniBand Architecture Specification 1.4, chapter 9 and annex
//! A17. Scapy (`contrib.roce`) makes the same packets: `tests/golden`.

mod headers;
mod icrc;
mod opcode;

pub use headers::{Acknowledge, AtomicEth, Deth, Header, Reth, Syndrome};
pub use icrc::{Ipv4Udp, PORT, Route, icrc};
pub use opcode::{Opcode, Operation};

use headers::Bth;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of the check value.
const ICRC: usize = 4;
/// The most bytes that a packet has besides its payload: BTH, RETH and immediate value, padding, ICRC.
pub const OVERHEAD: usize = 12 + 16 + 4 + 3 + ICRC;
/// Packet sequence numbers and numbers of queue pairs have so many bits.
pub const MASK: u32 = 0xFF_FFFF;

/// Why a packet is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It ends within its headers, or its length is not a multiple of four bytes.
    Length,
    /// The check value is another one.
    Icrc,
    /// The transport header is of another version.
    Version,
    /// The opcode is none of [`Opcode`].
    Opcode,
    /// It is of another partition.
    Partition,
    /// It has more padding than payload, or a payload that its opcode has not.
    Padding,
}

/// Checks a packet that came behind these headers; what it says, and its payload.
///
/// # Errors
/// It is to be dropped.
pub fn parse<'p>(headers: &Ipv4Udp, packet: &'p [u8]) -> Result<(Header, &'p [u8]), Refused> {
    let (body, check) = packet.split_last_chunk::<ICRC>().ok_or(Refused::Length)?;
    let (bth, mut rest) = Bth::ref_from_prefix(body).map_err(|_| Refused::Length)?;
    if !packet.len().is_multiple_of(4) {
        return Err(Refused::Length);
    }
    if icrc(headers, body) != u32::from_le_bytes(*check) {
        return Err(Refused::Icrc);
    }
    let (mut header, padding) = bth.parse()?;
    header.read_extensions(&mut rest).ok_or(Refused::Length)?;
    let payload = rest.len().checked_sub(padding).and_then(|len| rest.get(..len)).ok_or(Refused::Padding)?;
    if !payload.is_empty() && !header.opcode.has_payload() { Err(Refused::Padding) } else { Ok((header, payload)) }
}

/// Begins a packet in an empty buffer. So many bytes of payload are to be appended, then [`seal`] ends it.
pub fn begin(header: &Header, payload: usize, to: &mut Vec<u8>) {
    to.clear();
    to.extend_from_slice(Bth::of(header, payload.wrapping_neg() & 3).as_bytes());
    header.write_extensions(to);
}

/// Ends a packet that goes this way: padding and check value.
pub fn seal(packet: &mut Vec<u8>, route: &Route) {
    packet.resize(packet.len().next_multiple_of(4), 0);
    let check = icrc(&route.headers(packet.len() + ICRC), packet);
    packet.extend_from_slice(&check.to_le_bytes());
}
