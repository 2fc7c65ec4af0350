//! `hamr-hca serve`, `hamr-hca ping`: two devices with an adapter each, which send a message there and back over the wire.
//!
//! The programs tell each other of their queue pairs over TCP, in a line each: the text that `ibv_rc_pingpong` exchanges,
//! and behind the client's how many messages come. The end of that connection is the end of the exchange.

use super::{Arguments, CommandError, MOST, say};
use hamr::io::{note, print_or_lose};
use hamr::{Image, Node, Options, Runtime};
use hamr_verbs::host::{Endpoint, Fabric, Path, QpPlan, Region, Wire};
use hamr_verbs::tools::{Load, ping_pong};
use hamr_verbs::wire::Access;
use hamr_verbs::{CqId, QpId};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// How long a peer may take to say a line, or to begin.
const LIMIT: Duration = Duration::from_secs(10);
/// How long a message there and back may take on the average, behind that: programs may have to wait for a processor.
const EACH: Duration = Duration::from_millis(100);
/// Between two looks how far a peer has come.
const LOOK: Duration = Duration::from_millis(500);
/// An acknowledgement is waited for 0.27 s, eight times: a machine that stalls is no end of an exchange.
const PATH: Path = Path { mtu: 1024, timeout: 16, retry: 7 };
/// Bytes of a line.
const LINE: usize = 128;

/// Serves peers, one behind the other.
pub(super) fn serve(arguments: &Arguments) -> Result<(), CommandError> {
    let Arguments { address, port, once, .. } = *arguments;
    let listener =
        TcpListener::bind((address, port)).map_err(|why| format!("cannot listen at {address}:{port}: {why}"))?;
    let side = Side::open(arguments)?;
    say(format_args!("serves at {}", listener.local_addr()?))?;
    loop {
        let (stream, peer) = listener.accept()?;
        match answer(&side, &stream, peer.ip()) {
            // Peers are served whether somebody reads this or not.
            Ok(count) => drop(print_or_lose(&format!("{}: {count} messages there and back\n", peer.ip()))),
            Err(why) if once => return Err(format!("{}: {why}", peer.ip()).into()),
            Err(why) => note(format_args!("hamr-hca: {}: {why}", peer.ip())),
        }
        // Nobody is served without it.
        side.fabric.process()?;
        if once {
            return Ok(());
        }
    }
}

/// Plays with one that serves, and says how long it takes.
pub(super) fn ping(arguments: &Arguments) -> Result<(), CommandError> {
    let Arguments { address, peer, port, count, .. } = *arguments;
    let peer = peer.ok_or("expected a peer")?;
    // First: it may take longer than the peer waits for a line.
    let side = Side::open(arguments)?;
    let mut stream = connected(address, SocketAddrV4::new(peer, port))
        .map_err(|why| format!("cannot reach {peer}:{port}: {why}: expected `hamr-hca serve` there"))?;
    let (qp, cq) = side.queue_pair()?;
    writeln!(stream, "{} {count}", side.fabric.endpoint(qp)?)?;
    let line = line_of(&stream)?;
    let other = of_peer(line.trim(), peer.into())?;
    side.fabric.connect_remote(qp, &other, &PATH)?;
    let begin = Instant::now();
    side.play((qp, cq), count, false, &stream).map_err(|why| format!("{peer}: {why}"))?;
    let each = begin.elapsed().as_nanos() as f64 / count as f64 / 1000.0;
    say(format_args!("{count} messages of 8 bytes to {peer} and back: {each:.2} µs each, {:.2} µs one way", each / 2.0))
}

/// Plays with a peer, which says how long.
fn answer(side: &Side, stream: &TcpStream, peer: IpAddr) -> Result<u64, CommandError> {
    stream.set_write_timeout(Some(LIMIT))?;
    let line = line_of(stream)?;
    let (endpoint, count) = line.trim().split_once(' ').ok_or("expected an endpoint and a number of messages")?;
    let other = of_peer(endpoint, peer)?;
    let count: u64 = super::parsed("the number of messages", count)?;
    if count == 0 || count > MOST {
        return Err(format!("expected 1 to {MOST} messages, got {count}").into());
    }
    let (qp, cq) = side.queue_pair()?;
    let played = (|| -> Result<u64, CommandError> {
        side.fabric.connect_remote(qp, &other, &PATH)?;
        writeln!(&*stream, "{}", side.fabric.endpoint(qp)?)?;
        side.play((qp, cq), count, true, stream)?;
        Ok(count)
    })();
    side.fabric.destroy_queue_pair(qp)?;
    side.fabric.destroy_completion_queue(cq)?;
    played
}

/// A device with its adapter.
struct Side {
    region: Region,
    fabric: Fabric,
    node: Node,
}

impl Side {
    fn open(arguments: &Arguments) -> Result<Self, CommandError> {
        let &Arguments { address, is_exposed, ref device, .. } = arguments;
        let options = Options { verbs: 1 << 20, ..Options::default() };
        let node = Runtime::new()?.open_with(device, Image::find("hamr-verbs-image")?, options)?;
        let fabric = Fabric::open_with(&node, &Wire::Udp { address, is_exposed, faults: None })?;
        let region = fabric.region(64, Access::LOCAL_WRITE)?;
        Ok(Self { region, fabric, node })
    }

    fn queue_pair(&self) -> Result<(QpId, CqId), CommandError> {
        let cq = self.fabric.completion_queue(100)?;
        Ok((self.fabric.queue_pair(&QpPlan::new(cq))?, cq))
    }

    /// Both ends of the exchange. A peer whose connection ends, or that is too slow, sends no more: then the requests are
    /// flushed, and the handler ends.
    fn play(&self, (qp, cq): (QpId, CqId), count: u64, serves: bool, stream: &TcpStream) -> Result<(), CommandError> {
        stream.set_read_timeout(Some(LOOK))?;
        let begin = Instant::now();
        // By what it has done, and not by what it has said that it does.
        let limit = || LIMIT.saturating_add(EACH.saturating_mul(self.fabric.completed(qp).unwrap_or(0)));
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut is_late = false;
                while is_silent(stream) && !is_late {
                    is_late = begin.elapsed() >= limit();
                }
                let _ = self.fabric.set_error(qp);
                is_late
            });
            let load = Load { qp, cq, region: self.region.id(), count, bytes: 8 };
            let came = self.node.sync(ping_pong::with(load, serves, None)).map(|(came, _)| came);
            let _ = stream.shutdown(Shutdown::Both);
            if watch.join().is_ok_and(|is_late| is_late) {
                return Err(format!("expected a message there and back in {EACH:?}, on the average: it is late").into());
            }
            match came.map_err(|why| format!("the exchange has ended: {why}"))? {
                came if came == count => Ok(()),
                came => Err(format!("expected {count} messages as they were sent, {came} came").into()),
            }
        })
    }
}

/// A connection from the wire's address, so that the other end knows whose it is.
fn connected(from: Ipv4Addr, to: SocketAddrV4) -> Result<TcpStream, CommandError> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    for timeout in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, timeout, Some(LIMIT))?;
    }
    bind(&socket, &SocketAddrV4::new(from, 0))?;
    connect(&socket, &to)?;
    Ok(socket.into())
}

/// What a peer says of its own queue pair; of others' it says nothing.
fn of_peer(text: &str, peer: IpAddr) -> Result<Endpoint, CommandError> {
    let endpoint: Endpoint = text.parse()?;
    if IpAddr::V4(endpoint.address) == peer {
        return Ok(endpoint);
    }
    Err(format!("expected a queue pair at {peer}, got one at {}", endpoint.address).into())
}

/// Has a peer said nothing, and not ended its connection, for [`LOOK`]?
fn is_silent(mut stream: &TcpStream) -> bool {
    let read = stream.read(&mut [0]);
    read.is_err_and(|why| [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted].contains(&why.kind()))
}

/// A line, within [`LIMIT`].
fn line_of(mut stream: &TcpStream) -> Result<String, CommandError> {
    let (begin, mut line, mut byte) = (Instant::now(), Vec::new(), [0]);
    while line.len() < LINE && byte != *b"\n" {
        let left = LIMIT.saturating_sub(begin.elapsed()).max(Duration::from_micros(1));
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut byte) {
            Ok(0) => return Err("expected a line, and the connection has ended".into()),
            Ok(_) => line.extend(byte),
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(_) if begin.elapsed() >= LIMIT => {
                return Err(format!("expected a line within {LIMIT:?}: one that serves another is late").into());
            }
            Err(why) => return Err(format!("expected a line: {why}").into()),
        }
    }
    match String::from_utf8(line) {
        Ok(line) if line.ends_with('\n') => Ok(line),
        _ => Err(format!("expected a line of text of at most {LINE} bytes, got another one").into()),
    }
}
