//! `hamr-hca serve`, `hamr-hca ping`: two devices with an adapter each, which send a message there and back over the wire.
//!
//! The programs tell each other of their queue pairs over TCP, in one step: the text that `ibv_rc_pingpong` exchanges, and
//! behind it how many messages come. The end of that connection is the end of the exchange.

use super::{Arguments, CommandError, MOST, say};
use crate::exchange::{Role, Talk};
use hamr::io::{note, print_or_lose};
use hamr::{Image, Node, Options, Runtime};
use hamr_verbs::host::{Endpoint, Fabric, Path, QpPlan, Region, Wire};
use hamr_verbs::tools::{Load, ping_pong};
use hamr_verbs::wire::Access;
use hamr_verbs::{CqId, QpId};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use std::io::{ErrorKind, Read};
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

/// Serves peers, one behind the other.
pub(super) fn serve(arguments: &Arguments) -> Result<(), CommandError> {
    let Arguments { address, port, once, .. } = *arguments;
    let listener =
        TcpListener::bind((address, port)).map_err(|why| format!("cannot listen at {address}:{port}: {why}"))?;
    let side = Side::open(arguments)?;
    say(format_args!("serves at {}", listener.local_addr()?))?;
    loop {
        let (stream, peer) = listener.accept()?;
        match answer(&side, stream, peer.ip()) {
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
    let stream = connected(address, SocketAddrV4::new(peer, port))
        .map_err(|why| format!("cannot reach {peer}:{port}: {why}: expected `hamr-hca serve` there"))?;
    let (qp, cq) = side.queue_pair()?;
    let mut talk = Talk::over(stream, Role::Client, LIMIT)?;
    let theirs = talk.trade(step(&side.fabric.endpoint(qp)?, count).as_bytes())?;
    let (other, _) = of_peer(&theirs, peer.into())?;
    side.fabric.connect_remote(qp, &other, &PATH)?;
    let begin = Instant::now();
    side.play((qp, cq), count, false, talk.stream()).map_err(|why| format!("{peer}: {why}"))?;
    let each = begin.elapsed().as_nanos() as f64 / count as f64 / 1000.0;
    say(format_args!("{count} messages of 8 bytes to {peer} and back: {each:.2} µs each, {:.2} µs one way", each / 2.0))
}

/// Plays with a peer, which says how long.
fn answer(side: &Side, stream: TcpStream, peer: IpAddr) -> Result<u64, CommandError> {
    let mut talk = Talk::over(stream, Role::Server, LIMIT)?;
    let (qp, cq) = side.queue_pair()?;
    let played = exchange(side, (qp, cq), &mut talk, peer);
    side.fabric.destroy_queue_pair(qp)?;
    side.fabric.destroy_completion_queue(cq)?;
    played
}

fn exchange(side: &Side, (qp, cq): (QpId, CqId), talk: &mut Talk, peer: IpAddr) -> Result<u64, CommandError> {
    let own = side.fabric.endpoint(qp)?;
    let (other, count) = of_peer(&talk.ask(step(&own, 0).as_bytes())?, peer)?;
    if count == 0 || count > MOST {
        return Err(format!("expected 1 to {MOST} messages, got {count}").into());
    }
    side.fabric.connect_remote(qp, &other, &PATH)?;
    talk.answer(step(&own, count).as_bytes())?;
    side.play((qp, cq), count, true, talk.stream())?;
    Ok(count)
}

/// What both ends say: as many bytes of each.
fn step(own: &Endpoint, count: u64) -> String {
    format!("{own}\0{count:08}\0")
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

/// What a peer says of its own queue pair, and how many messages; of others' queue pairs it says nothing.
fn of_peer(said: &[u8], peer: IpAddr) -> Result<(Endpoint, u64), CommandError> {
    let text = std::str::from_utf8(said)?.trim_end_matches('\0');
    let (endpoint, count) = text.split_once('\0').ok_or("expected an endpoint and a number of messages")?;
    let endpoint: Endpoint = endpoint.parse()?;
    if IpAddr::V4(endpoint.address) == peer {
        return Ok((endpoint, super::parsed("the number of messages", count)?));
    }
    Err(format!("expected a queue pair at {peer}, got one at {}", endpoint.address).into())
}

/// Has a peer said nothing, and not ended its connection, for [`LOOK`]?
fn is_silent(mut stream: &TcpStream) -> bool {
    let read = stream.read(&mut [0]);
    read.is_err_and(|why| [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted].contains(&why.kind()))
}
