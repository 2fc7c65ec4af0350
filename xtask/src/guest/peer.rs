//! A program of this machine as the other end of a guest's tools. It is on the guest's Ethernet: each datagram between
//! two UNIX sockets is a frame. What the tools tell each other over TCP before they use their adapters goes over a
//! second card, which QEMU connects to this machine's loopback.
//!
//! The program gets, behind its own arguments:
//! - `--frames PATH` the socket that it binds, and `--guest PATH` the guest's, which appears when the guest starts
//! - `--mac`, `--address` what it is on the Ethernet
//! - `--listen 127.0.0.1:PORT` where it waits for tools that are clients
//! - `--connect 127.0.0.1:PORT` where a tool that is a server will answer; until then a connection ends without a byte
//! - `--tools NAME:ITERATIONS:BYTES:MTU,…` and `--roles server,client`: it is the server of each of these tools, in this
//!   order, and then the client of each; no packet has more than MTU bytes of a message
//!
//! It prints a line when it listens, may print `NAME MTU ROLE: … N us each …` for each, and ends with exit code 0 when
//! all of that was done and the guest has ended: `--connect` is refused then.

use crate::Error;
use crate::child::Background;
use hamr_qemu::Version;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The first QEMU with `-netdev dgram`.
pub(super) const QEMU: Version = Version { major: 7, minor: 2 };

/// The time for the peer to listen, which may build an image before, and to end behind the guest.
const START: Duration = Duration::from_secs(300);
const END: Duration = Duration::from_secs(10);

/// Addresses on the Ethernet; and of this machine and of the guest, on QEMU's network for the tools' TCP.
const GUEST: (&str, &str) = ("52:54:00:00:00:01", "10.0.0.1");
const OURS: (&str, &str) = ("52:54:00:00:00:02", "10.0.0.2");
/// Bytes of a frame of the Ethernet, without its header: 4096 of a message, and all headers of RoCEv2.
const FRAME: u16 = 4200;
const HOST: &str = "10.0.2.2";
const GUEST_INFO: &str = "10.0.2.15";
/// The port of every tool that is told none.
const PORT: u16 = 18515;

/// A running peer.
pub(super) struct Peer {
    process: Background,
    folder: PathBuf,
    listens: u16,
    connects: u16,
    said: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    /// Starts it, and waits until it listens. Sockets and capture are in `folder`.
    pub(super) fn start(
        program: &Path,
        arguments: &[String],
        folder: &Path,
        tools: &str,
        roles: &str,
    ) -> Result<Self, Error> {
        let [listens, connects] = free_ports().map_err(|e| Error::Failed(format!("a port for the tools: {e}")))?;
        let mut command = Command::new(program);
        command.args(arguments);
        command.arg("--frames").arg(folder.join("peer.sock")).arg("--guest").arg(folder.join("guest.sock"));
        command.args(["--mac", OURS.0, "--address", OURS.1, "--tools", tools, "--roles", roles]);
        command.args(["--listen", &format!("127.0.0.1:{listens}"), "--connect", &format!("127.0.0.1:{connects}")]);
        let mut process = Background::start(command.stdout(Stdio::piped()))?;
        let (sender, first) = channel();
        let said_so_far = Arc::<Mutex<Vec<String>>>::default();
        if let Some(said) = process.stdout() {
            let all = said_so_far.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(said).lines().map_while(Result::ok) {
                    println!("  peer | {line}");
                    all.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                    let _ = sender.send(());
                }
            });
        }
        let said = first.recv_timeout(START);
        said.map_err(|_| Error::Failed(format!("{}: expected a line when it listens, got none", program.display())))?;
        Ok(Self { process, folder: folder.to_owned(), listens, connects, said: said_so_far })
    }

    /// QEMU's arguments for the guest's two cards. The first one's packets are also written to a file.
    pub(super) fn nics(&self) -> Vec<String> {
        let socket = |name| self.folder.join(name).display().to_string();
        let frames = format!(
            "dgram,id=frames,local.type=unix,local.path={},remote.type=unix,remote.path={}",
            socket("guest.sock"),
            socket("peer.sock")
        );
        let dump = format!("filter-dump,id=dump,netdev=frames,file={}", self.capture().display());
        let info = format!("user,id=info,hostfwd=tcp:127.0.0.1:{}-{GUEST_INFO}:{PORT}", self.connects);
        let card = |netdev: &str| format!("virtio-net-pci,netdev={netdev},romfile=");
        let (first, second) = (format!("{},mac={}", card("frames"), GUEST.0), card("info"));
        ["-netdev", &frames, "-device", &first, "-object", &dump, "-netdev", &info, "-device", &second]
            .map(String::from)
            .into()
    }

    /// The guest's commands for both cards' addresses.
    pub(super) fn network(&self) -> String {
        let up = |card, address| format!("ip addr add {address}/24 dev {card}\nip link set {card} up");
        format!("ip link set eth0 mtu {FRAME}\n{}\n{}", up("eth0", GUEST.1), up("eth1", GUEST_INFO))
    }

    /// Address and port at which a tool in the guest finds it.
    pub(super) fn info(&self) -> (&'static str, u16) {
        (HOST, self.listens)
    }

    /// How long it says that a message has taken, of a tool in a role of the peer's.
    pub(super) fn figure(&self, title: &str) -> Option<String> {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let line = said.iter().find_map(|line| line.strip_prefix(&format!("{title}: ")))?;
        let number: f64 = line.split_once(" us each")?.0.rsplit(' ').next()?.parse().ok()?;
        Some(format!("{number:>10.2} us each at the peer"))
    }

    /// Waits for its end behind the guest's.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        let status = self.process.wait(Instant::now() + END)?;
        if status.success() { Ok(()) } else { Err(Error::Failed(format!("the peer: {status}"))) }
    }

    /// Keeps the capture, if there is one, and returns its path.
    pub(super) fn keep(&self, folder: &Path) -> Option<PathBuf> {
        let kept = folder.join("rdma-failed.pcap");
        std::fs::rename(self.capture(), &kept).ok().map(|()| kept)
    }

    /// Bytes of a message in the longest packets, of the guest's and of the peer's messages that have more than one.
    pub(super) fn longest_sends(&self) -> Result<[usize; 2], Error> {
        let path = self.capture();
        let longest = std::fs::File::open(&path).and_then(|file| longest_sends(BufReader::new(file), GUEST.0));
        longest.map_err(|e| Error::Failed(format!("{}: {e}", path.display())))
    }

    fn capture(&self) -> PathBuf {
        self.folder.join("guest.pcap")
    }
}

/// [`Peer::longest_sends`] of a capture in libpcap's format, of frames from a station and others.
fn longest_sends(mut capture: impl Read, station: &str) -> std::io::Result<[usize; 2]> {
    /// Bytes of the file's header; and around a message's part those of Ethernet, IPv4, UDP, RoCEv2, and its checksum.
    const FILE: usize = 24;
    const AROUND: usize = 14 + 20 + 8 + 12 + 4;
    /// The port, before RoCEv2's header.
    const ROCE: [u8; 2] = 4791_u16.to_be_bytes();
    let mut longest = [0; 2];
    capture.read_exact(&mut [0; FILE])?;
    let mut record = [0; 16];
    // Seconds, microseconds, bytes that are there, bytes that there were.
    while capture.read_exact(&mut record).is_ok() {
        let [_, _, _, _, _, _, _, _, a, b, c, d, ..] = record;
        let mut frame = vec![0; u32::from_ne_bytes([a, b, c, d]) as usize];
        capture.read_exact(&mut frame)?;
        // The first or a middle packet of a SEND of a connection.
        if frame.get(36..38) == Some(&ROCE[..]) && frame.get(42).is_some_and(|opcode| *opcode < 2) {
            let from: Vec<String> = frame[6..12].iter().map(|byte| format!("{byte:02x}")).collect();
            let longest = &mut longest[usize::from(from.join(":") != station)];
            *longest = frame.len().saturating_sub(AROUND).max(*longest);
        }
    }
    Ok(longest)
}

/// Two ports that nothing listens at now. QEMU and the peer have no means to choose one and tell it.
fn free_ports() -> std::io::Result<[u16; 2]> {
    let (first, second) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    Ok([first.local_addr()?.port(), second.local_addr()?.port()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str) -> Result<Peer, Error> {
        let arguments = ["-c", script, "peer"].map(String::from);
        Peer::start(Path::new("sh"), &arguments, Path::new("/nowhere"), "ib_write_lat:200:2:1024", "server")
    }

    #[test]
    fn a_peer_is_told_where_it_is_and_judged_by_its_end() {
        let told = r#"test "$1 $3 $9 ${10}" = "--frames --guest --tools ib_write_lat:200:2:1024" && echo "$@""#;
        start(told).expect("it was told").end().expect("and ends well");
        let why = start("echo listening; exit 3").and_then(|mut peer| peer.end()).expect_err("exit code 3").to_string();
        assert_eq!(why, "the peer: exit status: 3");
        let why = start("exit 0").err().expect("it says nothing").to_string();
        assert_eq!(why, "sh: expected a line when it listens, got none");
    }

    #[test]
    fn a_peer_s_figures_are_found() {
        let said = "echo 'ib_read_lat 1024 client: 200 of 2 bytes, 350 us each; all'";
        let mut peer = start(said).expect("it says something");
        peer.end().expect("and ends well");
        assert_eq!(peer.figure("ib_read_lat 1024 client").as_deref(), Some("    350.00 us each at the peer"));
        assert_eq!((peer.figure("ib_read_lat 1024 server"), peer.figure("ib_read_lat 4096 client")), (None, None));
    }

    #[test]
    fn the_longest_packets_are_found_in_a_capture() {
        let frame = |from: u8, port: u16, opcode: u8, bytes: usize| {
            let mut frame = vec![0; 14 + 20 + 8 + 12 + bytes + 4];
            frame[6..12].copy_from_slice(&[0x52, 0x54, 0, 0, 0, from]);
            frame[36..38].copy_from_slice(&port.to_be_bytes());
            frame[42] = opcode;
            let length = u32::try_from(frame.len()).expect("short").to_ne_bytes();
            [&[0; 8][..], &length, &length, &frame].concat()
        };
        let mut file = vec![0; 24];
        // Of other ports and kinds (the last one, a WRITE, a datagram) longer ones come, too.
        for (from, port, opcode, bytes) in
            [(1, 4791, 0, 256), (1, 4791, 1, 1024), (2, 4791, 0, 512), (1, 4790, 0, 4096), (2, 4791, 2, 4096)]
        {
            file.extend(frame(from, port, opcode, bytes));
        }
        file.extend([frame(1, 4791, 6, 2048), frame(2, 4791, 0x64, 2048)].concat());
        assert_eq!(longest_sends(&*file, GUEST.0).expect("whole"), [1024, 512]);
        file.truncate(file.len() - 1);
        assert!(longest_sends(&*file, GUEST.0).is_err(), "a frame is cut");
        assert!(longest_sends(&[0; 23][..], GUEST.0).is_err(), "no header");
    }

    #[test]
    fn a_capture_is_kept_where_there_is_one() {
        let folder = std::env::temp_dir().join(format!("hamr-peer-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let mut peer = start("echo listening").expect("it says so");
        assert_eq!(peer.keep(&folder), None);
        peer.folder.clone_from(&folder);
        std::fs::write(peer.capture(), b"packets").expect("a file");
        let kept = peer.keep(&folder).expect("there is one");
        assert_eq!(std::fs::read(kept).expect("a file"), b"packets");
        let _ = std::fs::remove_dir_all(&folder);
    }
}
