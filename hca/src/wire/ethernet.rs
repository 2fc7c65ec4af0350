//! RoCEv2 in Ethernet frames, to stock peers: each datagram between two UNIX sockets is a frame, as QEMU's `-netdev
//! dgram` has them for the card of a guest.
//!
//! [`Station`] is a station of an Ethernet without input and output: it answers who asks for its address (ARP, RFC
//! 826), asks for the addresses that it sends to, and takes IPv4 packets for UDP port 4791. [`Ethernet`] is a station
//! at a socket.
//!
//! Nothing on an Ethernet proves who sends a frame, as nothing in RoCEv2 does: the socket's folder says who may. What a
//! station keeps is bounded, and only for addresses that it sends to.

use crate::packet::{OVERHEAD, PORT, Route};
use etherparse::{
    ArpEthIpv4Packet, ArpOperation, ArpPacket, EtherType, Ethernet2Header, Ethernet2Slice, IpNumber, Ipv4Header,
    UdpSlice,
};
use rustix::fd::{AsFd, BorrowedFd};
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A station's address on the Ethernet.
pub type Mac = [u8; 6];

/// Bytes before a packet: Ethernet, IPv4 without options, UDP.
const HEADERS: usize = 14 + 20 + 8;
/// Bytes of the longest frame: a path MTU of 4096.
pub const LONGEST: usize = HEADERS + 4096 + OVERHEAD;
/// The source port, of those that are nobody's; stock peers take one per connection, for the routers on their way.
const SOURCE: u16 = 0xC000;
const BROADCAST: Mac = [0xFF; 6];

/// Addresses that a station knows or asks for.
const NEIGHBOURS: usize = 1024;
/// Packets that wait for an address, and frames that wait for a place in the socket.
const WAITING: usize = 16;
const READY: usize = 256;
/// The time until an address is asked for again, that is not known, and that is.
const UNKNOWN: Duration = Duration::from_millis(50);
const KNOWN: Duration = Duration::from_secs(30);
/// Frames that are read in search of a packet.
const AT_ONCE: usize = 64;

/// An address that packets go to.
#[derive(Debug)]
struct Neighbour {
    mac: Option<Mac>,
    asked: Duration,
}

/// A station (see the module). Times are those since any one moment.
#[derive(Debug)]
pub struct Station {
    mac: Mac,
    at: Ipv4Addr,
    neighbours: BTreeMap<Ipv4Addr, Neighbour>,
    /// Frames whose destination is not known yet.
    waiting: VecDeque<(Ipv4Addr, Vec<u8>)>,
    ready: VecDeque<Vec<u8>>,
}

impl Station {
    /// A station that knows no other.
    pub const fn new(mac: Mac, at: Ipv4Addr) -> Self {
        Self { mac, at, neighbours: BTreeMap::new(), waiting: VecDeque::new(), ready: VecDeque::new() }
    }

    /// The way that packets to a peer go.
    pub const fn route_to(&self, to: Ipv4Addr) -> Route {
        Route { from: SocketAddrV4::new(self.at, SOURCE), to, id: 0 }
    }

    /// Sends a packet that was made for [`Self::route_to`]. Where the peer is not known, it waits for the answer of
    /// one; as on any wire, it may be lost. One that is longer than a packet can be is.
    pub fn send(&mut self, now: Duration, to: Ipv4Addr, packet: &[u8]) {
        if packet.len() > LONGEST - HEADERS {
            return;
        }
        let ip_udp = self.route_to(to).headers(packet.len());
        let Ok((ip, _)) = Ipv4Header::from_slice(&ip_udp) else { return };
        let mac = self.neighbour(now, to);
        let mut frame = self.begin(mac.unwrap_or(BROADCAST), EtherType::IPV4);
        let at = frame.len();
        frame.extend_from_slice(&ip_udp);
        if let Some(checksum) = frame.get_mut(at + 10..at + 12) {
            checksum.copy_from_slice(&ip.calc_header_checksum().to_be_bytes());
        }
        frame.extend_from_slice(packet);
        match mac {
            Some(_) => self.push(frame),
            None => {
                self.waiting.truncate(WAITING - 1);
                self.waiting.push_front((to, frame));
            }
        }
    }

    /// Takes a frame: the way that a packet came, and where it is in the frame. `None`: there is none for this station.
    ///
    /// A checksum of UDP is not compared: senders may leave it out, and the packet has a better one.
    pub fn receive(&mut self, now: Duration, frame: &[u8]) -> Option<(Route, Range<usize>)> {
        let ethernet = Ethernet2Slice::from_slice_without_fcs(frame).ok()?;
        let mac = ethernet.destination();
        if mac != self.mac && mac != BROADCAST {
            return None;
        }
        match ethernet.ether_type() {
            EtherType::ARP => {
                let arp = ArpPacket::from_slice(ethernet.payload_slice()).ok()?;
                self.resolve(now, &arp.try_eth_ipv4().ok()?);
                None
            }
            EtherType::IPV4 if mac == self.mac => self.packet(ethernet.payload_slice()).map(|(route, packet)| {
                // Behind the headers, whose lengths are as checked; Ethernet pads what is short.
                (route, HEADERS..HEADERS + packet)
            }),
            _ => None,
        }
    }

    /// The next frame to send; [`Self::sent`] takes it away.
    pub fn next(&self) -> Option<&[u8]> {
        self.ready.front().map(Vec::as_slice)
    }

    /// The next frame was sent, or is lost.
    pub fn sent(&mut self) {
        self.ready.pop_front();
    }

    /// The way and the length of an IPv4 packet's packet for this station.
    fn packet(&self, bytes: &[u8]) -> Option<(Route, usize)> {
        let (ip, rest) = Ipv4Header::from_slice(bytes).ok()?;
        let is_whole = !ip.is_fragmenting_payload() && ip.options.is_empty() && ip.protocol == IpNumber::UDP;
        if !is_whole || ip.destination != self.at.octets() || ip.header_checksum != ip.calc_header_checksum() {
            return None;
        }
        let bytes = rest.get(..usize::from(ip.payload_len().ok()?))?;
        let udp = UdpSlice::from_slice(bytes).ok()?;
        if udp.destination_port() != PORT || usize::from(udp.length()) != bytes.len() {
            return None;
        }
        let from = SocketAddrV4::new(ip.source.into(), udp.source_port());
        Some((Route { from, to: self.at, id: ip.identification }, udp.payload().len()))
    }

    /// Answers who asks for this station, and learns where a neighbour is.
    fn resolve(&mut self, now: Duration, arp: &ArpEthIpv4Packet) {
        let (from, is_for_us) = (Ipv4Addr::from(arp.sender_ipv4), arp.target_ipv4 == self.at.octets());
        let is_station = arp.sender_mac != self.mac && arp.sender_mac.first().is_some_and(|first| first & 1 == 0);
        if !is_station || from == self.at {
            return;
        }
        if let Some(neighbour) = self.neighbours.get_mut(&from) {
            *neighbour = Neighbour { mac: Some(arp.sender_mac), asked: now };
            for (to, mut frame) in std::mem::take(&mut self.waiting).into_iter().rev() {
                if to == from {
                    if let Some(mac) = frame.first_chunk_mut() {
                        *mac = arp.sender_mac;
                    }
                    self.push(frame);
                } else {
                    self.waiting.push_front((to, frame));
                }
            }
        }
        if arp.operation == ArpOperation::REQUEST && is_for_us {
            self.say(ArpOperation::REPLY, arp.sender_mac, from);
        }
    }

    /// Where a neighbour is. From time to time it is asked for.
    fn neighbour(&mut self, now: Duration, at: Ipv4Addr) -> Option<Mac> {
        let known = self.neighbours.get(&at).map(|neighbour| (neighbour.mac, neighbour.asked));
        let mac = known.and_then(|(mac, _)| mac);
        let pause = if mac.is_some() { KNOWN } else { UNKNOWN };
        if known.is_some_and(|(_, asked)| now.saturating_sub(asked) < pause) {
            return mac;
        }
        if known.is_none() && self.neighbours.len() >= NEIGHBOURS {
            // Those who never answered first: a program that names many addresses is not to drive out those that work.
            let oldest = self.neighbours.iter().min_by_key(|(_, other)| (other.mac.is_some(), other.asked));
            if let Some(oldest) = oldest.map(|(at, _)| *at) {
                self.neighbours.remove(&oldest);
            }
        }
        self.neighbours.insert(at, Neighbour { mac, asked: now });
        self.say(ArpOperation::REQUEST, mac.unwrap_or(BROADCAST), at);
        mac
    }

    fn say(&mut self, operation: ArpOperation, to: Mac, about: Ipv4Addr) {
        let mut frame = self.begin(to, EtherType::ARP);
        let arp = ArpEthIpv4Packet {
            operation,
            sender_mac: self.mac,
            sender_ipv4: self.at.octets(),
            target_mac: if operation == ArpOperation::REQUEST { [0; 6] } else { to },
            target_ipv4: about.octets(),
        };
        frame.extend_from_slice(&ArpPacket::from(arp).to_bytes());
        self.push(frame);
    }

    fn begin(&self, destination: Mac, ether_type: EtherType) -> Vec<u8> {
        Ethernet2Header { source: self.mac, destination, ether_type }.to_bytes().to_vec()
    }

    fn push(&mut self, frame: Vec<u8>) {
        if self.ready.len() < READY {
            self.ready.push_back(frame);
        }
    }
}

/// A station at a socket (see the module).
#[derive(Debug)]
pub struct Ethernet {
    station: Station,
    socket: UnixDatagram,
    path: PathBuf,
    other: PathBuf,
    is_connected: bool,
    begin: Instant,
}

impl Ethernet {
    /// A station at the socket `path`, which must not exist, and is removed with the station; joined to the one at `other`. That
    /// one may appear later; until then frames are lost. Behind its end, another one there is not heard before this station sends.
    ///
    /// # Errors
    /// The system refuses the socket.
    pub fn bind(path: &Path, other: &Path, mac: Mac, at: Ipv4Addr) -> std::io::Result<Self> {
        let socket = UnixDatagram::bind(path)?;
        socket.set_nonblocking(true)?;
        let station = Station::new(mac, at);
        let (path, other) = (path.to_owned(), other.to_owned());
        Ok(Self { station, socket, path, other, is_connected: false, begin: Instant::now() })
    }

    /// The way that packets to a peer go.
    pub const fn route_to(&self, to: Ipv4Addr) -> Route {
        self.station.route_to(to)
    }

    /// Sends a packet, as [`Station::send`].
    pub fn send(&mut self, to: Ipv4Addr, packet: &[u8]) {
        self.station.send(self.begin.elapsed(), to, packet);
        self.flush();
    }

    /// The next packet: the way that it came, and its bytes, which `buffer` has then. `None`: there is none, or there
    /// are many frames without one.
    pub fn receive<'b>(&mut self, buffer: &'b mut [u8; LONGEST]) -> Option<(Route, &'b [u8])> {
        let mut found = None;
        for _ in 0..AT_ONCE {
            // What is longer than a packet can be is cut, and then too short for its headers.
            let Ok(bytes) = self.socket.recv(&mut buffer[..]) else { break };
            found = self.station.receive(self.begin.elapsed(), buffer.get(..bytes).unwrap_or_default());
            if found.is_some() {
                break;
            }
        }
        self.flush();
        let (route, packet) = found?;
        Some((route, buffer.get(packet)?))
    }

    /// Whether frames wait for a place in the socket: then wait for one in it as well, and call [`Self::receive`].
    pub fn is_full(&self) -> bool {
        self.station.next().is_some()
    }

    fn flush(&mut self) {
        while let Some(frame) = self.station.next() {
            self.is_connected = self.is_connected || self.socket.connect(&self.other).is_ok();
            match self.socket.send(frame) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.is_connected = false,
                Ok(_) => {}
            }
            self.station.sent();
        }
    }
}

impl Drop for Ethernet {
    fn drop(&mut self) {
        // The next adapter of this device has it. An error means that it is gone.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl AsFd for Ethernet {
    /// To wait for a frame.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests;
