//! The wire of an adapter's process: its socket, and faults before it for tests.

use super::ethernet::{Ethernet, LONGEST, Mac};
use super::faults::{Faults, Plan};
use super::udp::Udp;
use crate::connection::is_mtu;
use crate::engine::Engine;
use crate::packet::{self, Route};
use rustix::event::PollFlags;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::error::Error;
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// Packets each way at once, so that the rest of the adapter has its turn.
const MOST_PACKETS: u32 = 64;
/// How it is called.
const USAGE: &str = "expected [--udp ADDRESS [--expose] \
                     | --ethernet SOCKET --other SOCKET --mac MAC --address ADDRESS] [--mtu BYTES] \
                     [--faults SEED,LOSS,REPEAT,DAMAGE,REORDER]";
/// What is wrong with `--mtu`.
const USAGE_MTU: &str = "--mtu: expected 256, 512, 1024, 2048 or 4096";
/// What fits into all Ethernet frames.
const LEAST_MTU: u32 = 1024;

/// A wire to other adapters (see the module).
pub struct Port {
    socket: Socket,
    mtu: u32,
    faults: Option<Faults<Ipv4Addr>>,
    packet: Vec<u8>,
    buffer: Box<[u8; LONGEST]>,
}

enum Socket {
    Udp(Udp),
    Ethernet(Box<Ethernet>),
}

impl Port {
    /// The wire that a program's arguments name. `None`: none but `self`.
    ///
    /// # Errors
    /// They are wrong, or the address cannot be used.
    pub fn from_arguments(arguments: impl IntoIterator<Item = OsString>) -> Result<Option<Self>, Box<dyn Error>> {
        let (mut udp, mut is_exposed, mut faults, mut mtu) = (None, false, None, LEAST_MTU);
        let [mut ethernet, mut other] = [const { None::<PathBuf> }; 2];
        let [mut mac, mut address] = [const { None::<String> }; 2];
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let wrong = || format!("{}: {USAGE}", argument.display());
            let mut value = || arguments.next().ok_or_else(wrong);
            let text = |value: OsString| value.into_string().map_err(|_| wrong());
            match argument.to_str().unwrap_or_default() {
                "--udp" => udp = Some(text(value()?)?.parse::<Ipv4Addr>()?),
                "--ethernet" => ethernet = Some(value()?.into()),
                "--other" => other = Some(value()?.into()),
                "--mac" => mac = Some(text(value()?)?),
                "--address" => address = Some(text(value()?)?),
                "--mtu" => mtu = text(value()?)?.parse::<u32>().ok().filter(|mtu| is_mtu(*mtu)).ok_or(USAGE_MTU)?,
                "--faults" => faults = Some(text(value()?)?.parse::<Plan>()?),
                "--expose" => is_exposed = true,
                _ => return Err(wrong().into()),
            }
        }
        let socket = match (udp, ethernet, other, mac, address) {
            (Some(address), None, None, None, None) => Socket::Udp(Udp::bind(address, is_exposed)?),
            (None, Some(socket), Some(other), Some(mac), Some(address)) if !is_exposed => {
                let mac = parse_mac(&mac).ok_or_else(|| format!("{mac}: {USAGE}"))?;
                let ethernet = Ethernet::bind(&socket, &other, mac, address.parse()?);
                Socket::Ethernet(Box::new(ethernet.map_err(|why| format!("{}: {why}", socket.display()))?))
            }
            (None, None, None, None, None) if !is_exposed && faults.is_none() => return Ok(None),
            _ => return Err(USAGE.into()),
        };
        let (packet, buffer) = (Vec::with_capacity(LONGEST), Box::new([0; LONGEST]));
        Ok(Some(Self { socket, mtu, faults: faults.map(Faults::new), packet, buffer }))
    }

    /// Bytes of payload of the longest packet.
    pub const fn mtu(&self) -> u32 {
        self.mtu
    }

    /// What to wait for: a packet, and where something waits for a place in the socket, a place.
    pub fn events(&self) -> PollFlags {
        if self.socket.is_full() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
    }

    /// Gives an engine packets that have come, and sends what it has to send. How many there were; a timer that was due
    /// counts.
    ///
    /// # Errors
    /// The socket has ended.
    pub fn serve<K>(&mut self, engine: &mut Engine<K>, now: u64) -> Result<u32, Errno> {
        let Self { socket, faults, packet, buffer, .. } = self;
        let mut count = u32::from(engine.next_timer().is_some_and(|timer| timer <= now));
        for _ in 0..MOST_PACKETS {
            let Some((route, bytes)) = socket.receive(buffer)? else { break };
            count += 1;
            let headers = route.headers(bytes.len());
            if let Ok((header, payload)) = packet::parse(&headers, bytes) {
                engine.receive(now, &headers, &header, payload);
            }
        }
        for _ in 0..MOST_PACKETS {
            let Some(to) = engine.transmit(now, packet) else { break };
            count += 1;
            packet::seal(packet, &socket.route_to(to));
            match faults {
                None => socket.send(to, packet)?,
                Some(faults) => faults.push(to, packet),
            }
        }
        while let Some((to, packet)) = faults.as_mut().and_then(Faults::pop) {
            socket.send(to, &packet)?;
        }
        Ok(count)
    }
}

impl Socket {
    /// Whether frames wait for a place in it.
    fn is_full(&self) -> bool {
        matches!(self, Self::Ethernet(ethernet) if ethernet.is_full())
    }

    fn route_to(&self, to: Ipv4Addr) -> Route {
        match self {
            Self::Udp(udp) => udp.route_to(to),
            Self::Ethernet(ethernet) => ethernet.route_to(to),
        }
    }

    fn send(&mut self, to: Ipv4Addr, packet: &[u8]) -> Result<(), Errno> {
        match self {
            Self::Udp(udp) => udp.send(to, packet),
            Self::Ethernet(ethernet) => {
                ethernet.send(to, packet);
                Ok(())
            }
        }
    }

    fn receive<'b>(&mut self, buffer: &'b mut [u8; LONGEST]) -> Result<Option<(Route, &'b [u8])>, Errno> {
        match self {
            // A frame is longer than its packet.
            Self::Udp(udp) => buffer.first_chunk_mut().map_or(Ok(None), |buffer| udp.receive(buffer)),
            Self::Ethernet(ethernet) => Ok(ethernet.receive(buffer)),
        }
    }
}

/// `52:54:00:00:00:02`
fn parse_mac(text: &str) -> Option<Mac> {
    let bytes: Vec<u8> = text.split(':').map_while(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    Mac::try_from(bytes).ok().filter(|_| text.split(':').count() == size_of::<Mac>())
}

impl AsFd for Port {
    /// To wait for a packet.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Udp(udp) => udp.as_fd(),
            Socket::Ethernet(ethernet) => ethernet.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    fn refused(arguments: &[&str]) -> String {
        let port = Port::from_arguments(arguments.iter().map(|argument| (*argument).into()));
        port.err().map(|why| why.to_string()).unwrap_or_default()
    }

    #[test]
    fn wrong_arguments_are_refused() {
        assert!(matches!(Port::from_arguments([]), Ok(None)));
        for arguments in [
            &["--expose"][..],
            &["--udp"],
            &["--faults", "1,2,3,4,5"],
            &["x"],
            &["--udp", "127.0.0.1", "--x"],
            &["--udp", "127.91.0.11", "--mac", "52:54:0:0:0:2"],
            &["--ethernet", "a", "--other", "b", "--mac", "52:54:0:0:0:2"],
            &["--ethernet", "a", "--other", "b", "--mac", "52:54:0:0:0:2", "--address", "10.0.0.2", "--expose"],
            &["--ethernet", "a", "--other", "b", "--mac", "52:54:0:0:0:2:3", "--address", "10.0.0.2"],
            &["--ethernet", "a", "--other", "b", "--mac", "52:54:0:0:x:0:2", "--address", "10.0.0.2"],
        ] {
            assert!(refused(arguments).contains(USAGE), "{arguments:?}");
        }
        assert!(refused(&["--udp", "192.0.2.1"]).contains("--expose"));
        let nowhere = ["--ethernet", "/nowhere/a", "--other", "b", "--mac", "52:54:0:0:0:2", "--address", "10.0.0.2"];
        assert!(refused(&nowhere).starts_with("/nowhere/a: "));
        assert!(!refused(&["--udp", "localhost"]).is_empty());
        assert_eq!(refused(&["--udp", "127.91.0.10", "--faults", "1,2,3,4,5"]), "");
        let no_text =
            |first: &[u8]| Port::from_arguments([OsStr::from_bytes(first).into(), OsStr::from_bytes(b"\xFF").into()]);
        assert!(["--udp", "--faults", "--mac", "\u{1}"].iter().all(|first| no_text(first.as_bytes()).is_err()));
    }

    /// An adapter that sleeps is to send what waits as soon as there is a place.
    #[test]
    fn a_place_is_waited_for_where_frames_wait() {
        use rustix::event::{PollFd, poll};
        let folder = std::env::temp_dir().join(format!("hamr-port-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let [a, b] = ["a", "b"].map(|name| folder.join(name).display().to_string());
        let other = std::os::unix::net::UnixDatagram::bind(&b).expect("a socket");
        other.set_nonblocking(true).expect("a socket");
        let arguments = ["--ethernet", &a, "--other", &b, "--mac", "52:54:0:0:0:2", "--address", "10.0.0.2"];
        let port = Port::from_arguments(arguments.map(OsString::from)).expect("a wire");
        let mut port = port.expect("named");
        let has_place = |port: &Port| {
            let mut fds = [PollFd::new(port, port.events())];
            poll(&mut fds, Some(&rustix::event::Timespec::default())).expect("a socket") != 0
        };
        assert_eq!(port.events(), PollFlags::IN);
        // Questions, to which nobody answers: more than the system keeps.
        for number in 0..200 {
            port.socket.send(Ipv4Addr::from_bits(0x0A00_0100 + number), &[]).expect("open");
        }
        assert_eq!((port.events(), has_place(&port)), (PollFlags::IN | PollFlags::OUT, false));
        let mut came = 0;
        while came < 200 {
            while other.recv(&mut [0; 100]).is_ok() {
                came += 1;
            }
            assert!(came == 200 || has_place(&port), "{came}");
            let Port { socket, buffer, .. } = &mut port;
            assert_eq!(socket.receive(buffer), Ok(None));
        }
        assert_eq!((port.events(), has_place(&port)), (PollFlags::IN, false));
        let _ = std::fs::remove_dir_all(&folder);
    }
}
