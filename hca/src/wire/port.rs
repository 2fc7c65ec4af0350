//! The wire of an adapter's process: its socket, and faults before it for tests.

use super::faults::{Faults, Plan};
use super::udp::{LONGEST, Udp};
use crate::engine::Engine;
use crate::packet;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::error::Error;
use std::net::Ipv4Addr;

/// Packets each way at once, so that the rest of the adapter has its turn.
const MOST_PACKETS: u32 = 64;
/// How it is called.
const USAGE: &str = "expected [--udp ADDRESS [--expose] [--faults SEED,LOSS,REPEAT,DAMAGE,REORDER]]";

/// A wire to other adapters (see the module).
pub struct Port {
    socket: Udp,
    faults: Option<Faults<Ipv4Addr>>,
    packet: Vec<u8>,
    buffer: Box<[u8; LONGEST]>,
}

impl Port {
    /// The wire that a program's arguments name. `None`: none but `self`.
    ///
    /// # Errors
    /// They are wrong, or the address cannot be used.
    pub fn from_arguments(arguments: impl IntoIterator<Item = String>) -> Result<Option<Self>, Box<dyn Error>> {
        let (mut address, mut is_exposed, mut faults) = (None, false, None);
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument}: {USAGE}"));
            match argument.as_str() {
                "--udp" => address = Some(value()?.parse::<Ipv4Addr>()?),
                "--faults" => faults = Some(value()?.parse::<Plan>()?),
                "--expose" => is_exposed = true,
                _ => return Err(format!("{argument}: {USAGE}").into()),
            }
        }
        let Some(address) = address else {
            return if is_exposed || faults.is_some() { Err(USAGE.into()) } else { Ok(None) };
        };
        let socket = Udp::bind(address, is_exposed)?;
        let (packet, buffer) = (Vec::with_capacity(LONGEST), Box::new([0; LONGEST]));
        Ok(Some(Self { socket, faults: faults.map(Faults::new), packet, buffer }))
    }

    /// Gives an engine packets that have come, and sends what it has to send. How many there were; a timer that was due
    /// counts.
    ///
    /// # Errors
    /// The socket has ended.
    pub fn serve<K>(&mut self, engine: &mut Engine<K>, now: u64) -> Result<u32, Errno> {
        let Self { socket, faults, packet, buffer } = self;
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

impl AsFd for Port {
    /// To wait for a packet.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(arguments: &[&str]) -> String {
        let port = Port::from_arguments(arguments.iter().map(|argument| (*argument).into()));
        port.err().map(|why| why.to_string()).unwrap_or_default()
    }

    #[test]
    fn wrong_arguments_are_refused() {
        assert!(matches!(Port::from_arguments([]), Ok(None)));
        for arguments in
            [&["--expose"][..], &["--udp"], &["--faults", "1,2,3,4,5"], &["x"], &["--udp", "127.0.0.1", "--x"]]
        {
            assert!(refused(arguments).contains(USAGE), "{arguments:?}");
        }
        assert!(refused(&["--udp", "192.0.2.1"]).contains("--expose"));
        assert!(!refused(&["--udp", "localhost"]).is_empty());
        assert_eq!(refused(&["--udp", "127.91.0.10", "--faults", "1,2,3,4,5"]), "");
    }
}
