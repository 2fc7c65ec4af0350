//! Where hosts come in: a listener, and the connections that have not proved yet who they are. These cost little, wait
//! for each other in nothing, and have five seconds until their HELLO, however slowly they talk.

#[cfg(test)]
mod tests;

use crate::channel::Channel;
use crate::failure::Broken;
use crate::frame::{Bounds, End, Frame, Grant, Hello, Phase, Purpose, Reason, Refuse};
use crate::io::Line;
use crate::key::Key;
use crate::socket;
use hamr_shared_abi::version::AbiVersion;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with, getsockname};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Connections that have not said HELLO yet. When another one comes, the oldest ends,
pub const MOST_WAITING: usize = 64;
/// or the oldest of its address, of which there are no more than this.
const MOST_OF_ONE: usize = 32;
/// From the connection's beginning to its HELLO.
const SAY_TIMEOUT: Duration = Duration::from_secs(5);
/// Behind a connection that cannot be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Between two lines about one address.
const PAUSE: Duration = Duration::from_secs(1);
/// Addresses with lines of their own.
const MOST_NAMED: usize = 64;

/// A listener for hosts.
pub struct Door {
    listener: OwnedFd,
    at: SocketAddr,
    key: Key,
    silence: Duration,
    /// The oldest first.
    waiting: VecDeque<Visitor>,
    complaints: Complaints,
    closed: Arc<OwnedFd>,
    /// No connection is accepted before.
    accept_from: Instant,
}

struct Visitor {
    channel: Channel,
    from: SocketAddr,
    since: Instant,
}

/// Ends a [`Door`] from another thread.
#[derive(Clone, Debug)]
pub struct Closer(Arc<OwnedFd>);

impl Closer {
    /// [`Door::next`] returns, now and from now on.
    pub fn close(&self) {
        // An error means that it has been closed so often that the count is full.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// A host that has proved the key, and waits for its answer.
pub struct Arrival {
    channel: Channel,
    /// Where it is.
    pub from: String,
    /// What both speak.
    pub abi: AbiVersion,
    /// As [`Hello::link`].
    pub link: [u8; 16],
    /// Counts the connections of its link.
    pub attempt: u64,
    /// What this one is for.
    pub purpose: Purpose,
    /// Bytes of window that it wants.
    pub window: u64,
    /// The device that it wants; empty: any.
    pub name: String,
    /// Its name.
    pub host: String,
}

impl Arrival {
    /// Has the host ended the connection, whatever is still to be read?
    pub fn has_gone(&self) -> bool {
        self.channel.line().has_gone()
    }

    /// The host at the other end of a channel that has come by another way than a [`Door`]; or the channel again, while
    /// that has said nothing.
    ///
    /// # Errors
    /// The connection has ended, or it speaks no version of this server and was told so.
    pub fn of(mut channel: Channel, from: &str) -> Result<Result<Self, Channel>, Broken> {
        channel.flush()?;
        match said(&mut channel)? {
            None => Ok(Err(channel)),
            Some(said) => said.admit(channel, from.into()).map(Ok),
        }
    }

    /// Gives it the device; later ranges of the host are to be in `bounds`.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn grant(mut self, doorbell: bool, kind: &str, bounds: Bounds) -> Result<Channel, Broken> {
        self.channel.push(&Frame::Grant(Grant { abi: self.abi, doorbell, window: bounds.window, kind }))?;
        self.channel.begin(Phase::from(self.purpose), bounds);
        self.channel.flush()?;
        Ok(self.channel)
    }

    /// Says why not.
    pub fn refuse(mut self, reason: Reason, number: u64, text: &str) {
        refuse(&mut self.channel, reason, number, text);
    }
}

fn refuse(channel: &mut Channel, reason: Reason, number: u64, text: &str) {
    let abi = (AbiVersion::MIN, AbiVersion::CURRENT);
    // An error means that the host sees the end of the connection alone.
    let _ = channel.push(&Frame::Refuse(Refuse { reason, abi, number, text })).map(|()| channel.flush());
}

impl Door {
    /// Listens at `at`; port 0: at any. `key` is asked for with the address that this is, once nobody else has it.
    ///
    /// # Errors
    /// As the system says; and no key.
    pub fn open<E: From<Errno>>(
        at: SocketAddr,
        key: impl FnOnce(SocketAddr) -> Result<Key, E>,
        silence: Duration,
    ) -> Result<Self, E> {
        let listener = socket::listener(at)?;
        let at = getsockname(&listener)?.try_into().unwrap_or(at);
        let key = key(at)?;
        let closed = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (waiting, complaints) = (VecDeque::new(), Complaints::default());
        Ok(Self { listener, at, key, silence, waiting, complaints, closed, accept_from: Instant::now() })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.at
    }

    /// Ends it, from any thread.
    pub fn closer(&self) -> Closer {
        Closer(Arc::clone(&self.closed))
    }

    /// Waits for the next host. `None`: the door is closed. `log` gets a line about connections that ended before they
    /// were one, at most one a second for each address.
    pub fn next(&mut self, mut log: impl FnMut(&str)) -> Option<Arrival> {
        loop {
            let now = Instant::now();
            self.complaints.tell_rest(now, &mut log);
            let ready = self.wait(now);
            if ready.is_closed {
                return None;
            }
            let mut arrival = None;
            // From behind, so that places stay.
            for index in ready.visitors.into_iter().rev() {
                // One at a time; the others are ready again at once, since nothing of theirs was read.
                if arrival.is_some() {
                    break;
                }
                let Some(visitor) = self.waiting.get_mut(index) else { continue };
                match visitor.look() {
                    Ok(None) => {}
                    Ok(Some(said)) => {
                        let visitor = self.waiting.remove(index);
                        arrival = visitor.and_then(|visitor| self.admit(visitor, said, &mut log));
                    }
                    Err(why) => self.dismiss(index, &why.to_string(), &mut log),
                }
            }
            let now = Instant::now();
            while self.waiting.front().is_some_and(|first| now.duration_since(first.since) >= SAY_TIMEOUT) {
                self.dismiss(0, "it said no HELLO within 5 s", &mut log);
            }
            if ready.is_calling {
                self.accept(&mut log);
            }
            if arrival.is_some() {
                return arrival;
            }
        }
    }

    fn wait(&self, now: Instant) -> Ready {
        let mut limit = self.complaints.rest().then_some(PAUSE);
        let mut at_most = |time: Instant| {
            let left = time.saturating_duration_since(now);
            limit = Some(limit.map_or(left, |limit| limit.min(left)));
        };
        if let Some(first) = self.waiting.front() {
            at_most(first.since + SAY_TIMEOUT);
        }
        let is_paused = self.accept_from > now;
        if is_paused {
            at_most(self.accept_from);
        }
        let lines: Vec<_> = self.waiting.iter().map(|visitor| visitor.channel.line()).collect();
        let calling = if is_paused { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![PollFd::new(&self.closed, PollFlags::IN), PollFd::new(&self.listener, calling)];
        // Each has a socket.
        let visitors = lines.iter().filter_map(Line::descriptor).zip(&self.waiting);
        fds.extend(visitors.map(|(socket, visitor)| PollFd::new(&**socket, visitor.channel.interest())));
        // An error means that nothing is known to be ready.
        let _ = poll(&mut fds, limit.map(socket::timespec).as_ref());
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let is = |index: usize| ready.get(index).copied().unwrap_or(false);
        let visitors = (0..self.waiting.len()).filter(|index| is(index + 2)).collect();
        Ready { is_closed: is(0), is_calling: is(1) && !is_paused, visitors }
    }

    fn accept(&mut self, log: &mut impl FnMut(&str)) {
        // So many at most before the others are looked at again.
        for _ in 0..MOST_OF_ONE {
            let (socket, from) = match acceptfrom_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok((socket, from)) => (socket, from.and_then(|from| SocketAddr::try_from(from).ok())),
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.accept_from = Instant::now() + ACCEPT_PAUSE;
                    return;
                }
            };
            // Without an address it has ended already.
            let Some(from) = from else { continue };
            let of_one: Vec<_> = (0..).zip(&self.waiting).filter(|(_, v)| network(v.from) == network(from)).collect();
            let oldest = of_one.first().filter(|_| of_one.len() >= MOST_OF_ONE).map(|(index, _)| *index);
            if let Some(oldest) = oldest.or_else(|| (self.waiting.len() >= MOST_WAITING).then_some(0)) {
                self.dismiss(oldest, "too many connections that have not proved the key", log);
            }
            let channel = socket::tune(&socket, self.silence)
                .map_err(Broken::System)
                .and_then(|()| Channel::new(socket, End::Server, Some(&self.key), self.silence));
            match channel {
                Ok(channel) => self.waiting.push_back(Visitor { channel, from, since: Instant::now() }),
                Err(why) => self.complaints.complain(from, &why.to_string(), Instant::now(), log),
            }
        }
    }

    fn dismiss(&mut self, index: usize, why: &str, log: &mut impl FnMut(&str)) {
        if let Some(mut visitor) = self.waiting.remove(index) {
            visitor.channel.end();
            self.complaints.complain(visitor.from, why, Instant::now(), log);
        }
    }

    /// `None`: it speaks no version of this server.
    fn admit(&mut self, visitor: Visitor, said: Said, log: &mut impl FnMut(&str)) -> Option<Arrival> {
        let Visitor { channel, from, .. } = visitor;
        let arrival = said.admit(channel, from.ip().to_string());
        arrival.map_err(|why| self.complaints.complain(from, &why.to_string(), Instant::now(), log)).ok()
    }
}

struct Ready {
    is_closed: bool,
    is_calling: bool,
    visitors: Vec<usize>,
}

/// A [`Hello`] of its own.
struct Said {
    abi: (AbiVersion, AbiVersion),
    link: [u8; 16],
    attempt: u64,
    purpose: Purpose,
    window: u64,
    name: String,
    host: String,
}

impl Visitor {
    fn look(&mut self) -> Result<Option<Said>, Broken> {
        self.channel.flush()?;
        said(&mut self.channel)
    }
}

fn said(channel: &mut Channel) -> Result<Option<Said>, Broken> {
    Ok(match channel.receive()? {
        Some(Frame::Hello(Hello { abi, link, attempt, purpose, window, name, host })) => {
            let (name, host) = (name.into(), host.into());
            Some(Said { abi, link, attempt, purpose, window, name, host })
        }
        // No other frame comes from a host now.
        Some(_) | None => None,
    })
}

impl Said {
    fn admit(self, mut channel: Channel, from: String) -> Result<Arrival, Broken> {
        let Self { abi: (min, max), link, attempt, purpose, window, name, host } = self;
        let Some(abi) = AbiVersion::negotiate(min, max) else {
            refuse(&mut channel, Reason::Version, 0, "");
            return Err(Broken::Said(format!("it speaks protocol {min} to {max}")));
        };
        Ok(Arrival { channel, from, abi, link, attempt, purpose, window, name, host })
    }
}

/// Who is counted as one: an address, of IPv6 the network that one user may have.
fn network(from: SocketAddr) -> IpAddr {
    match from.ip().to_canonical() {
        IpAddr::V6(ip) if !ip.is_loopback() => {
            let [a, b, c, d, ..] = ip.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        ip => ip,
    }
}

/// What there is to say of addresses, at most a line a second for each.
#[derive(Default)]
struct Complaints {
    rows: Vec<Row>,
}

struct Row {
    /// `None`: all that have no row.
    of: Option<IpAddr>,
    /// When its last line was.
    told: Instant,
    held: u32,
}

impl Complaints {
    fn complain(&mut self, from: SocketAddr, why: &str, now: Instant, log: &mut impl FnMut(&str)) {
        let ip = network(from);
        let is_full = self.rows.len() >= MOST_NAMED;
        let of = Some(ip).filter(|_| !is_full || self.rows.iter().any(|row| row.of == Some(ip)));
        if let Some(row) = self.rows.iter_mut().find(|row| row.of == of) {
            row.held += 1;
            return;
        }
        self.rows.push(Row { of, told: now, held: 0 });
        log(&format!("{from}: refused: {why}"));
    }

    /// Is there something that is told later?
    fn rest(&self) -> bool {
        !self.rows.is_empty()
    }

    fn tell_rest(&mut self, now: Instant, log: &mut impl FnMut(&str)) {
        self.rows.retain_mut(|row| {
            if now.duration_since(row.told) < PAUSE {
                return true;
            }
            if row.held == 0 {
                return false;
            }
            match row.of {
                Some(ip) => log(&format!("{ip}: refused: {} more connections", row.held)),
                None => log(&format!("refused: {} connections of other addresses", row.held)),
            }
            (row.told, row.held) = (now, 0);
            true
        });
    }
}
