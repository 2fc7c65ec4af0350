//! Connections that break, and epochs (rules 26 to 30): which frames may still reach the device, and which replies the
//! host. A host connects, begins an epoch, calls; the connection breaks at any moment, seen by both ends or by the host
//! alone, whose frames then still arrive. It connects again and begins the next epoch.
//!
//! The server reads one connection. A later attempt of the same host replaces it, an earlier one, which the network
//! delivers late, is dropped. Before a connection is granted, the thread of the one before has ended, and the device has
//! left its epoch. An offer wipes D, because tags come back after 255 epochs.

use crate::states::{Model, STUCK, holds, search};

const BREAKS: u8 = 2;

#[derive(Clone, Copy, Default)]
struct Without {
    /// One connection is read.
    one: bool,
    /// Attempts have numbers.
    attempts: bool,
    /// The thread of the connection before has ended.
    joined: bool,
    /// The device has left its epoch.
    left: bool,
    /// Each connection begins another epoch.
    next_epoch: bool,
    /// An offer wipes the slots.
    wipes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Host {
    Connects,
    WaitsForGrant,
    Offered,
    Calls,
    WaitsForReply,
    Idle,
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    // To the server.
    Hello,
    Offer,
    Call,
    // To the host.
    Grant,
    Serving,
    Reply,
}

impl Kind {
    fn is_to_server(self) -> bool {
        matches!(self, Self::Hello | Self::Offer | Self::Call)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Frame {
    kind: Kind,
    connection: u8,
    epoch: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    host: Host,
    epoch: u8,
    connection: u8,
    /// Connections that the server reads, and the newest attempt that it has granted.
    served: Vec<u8>,
    newest: u8,
    /// A call that a thread of the server is about to write into D.
    inside: Option<Frame>,
    /// The device serves this epoch, or has left it.
    device_epoch: u8,
    serves: bool,
    /// The epoch of the request in its slot.
    request: Option<u8>,
    wire: Vec<Frame>,
    breaks: u8,
    fault: Option<&'static str>,
}

const STALE: &str = "a call of an earlier epoch ran in a later one";
const LATE: &str = "a copy of an earlier epoch landed in a later one";
const TWO: &str = "two connections are read";
const EARLY: &str = "a reply came before its call was sent";

fn first() -> State {
    State {
        host: Host::Connects,
        epoch: 0,
        connection: 0,
        served: Vec::new(),
        newest: 0,
        inside: None,
        device_epoch: 0,
        serves: false,
        request: None,
        wire: Vec::new(),
        breaks: 0,
        fault: None,
    }
}

impl State {
    fn sent(mut self, kind: Kind, connection: u8, epoch: u8) -> Self {
        self.wire.push(Frame { kind, connection, epoch });
        self
    }

    fn host(&self, out: &mut Vec<Self>) {
        let go = |host| Self { host, ..self.clone() };
        match self.host {
            Host::Connects => {
                let connection = self.connection + 1;
                out.push(Self { connection, ..go(Host::WaitsForGrant) }.sent(Kind::Hello, connection, 0));
            }
            Host::Calls => out.push(go(Host::WaitsForReply).sent(Kind::Call, self.connection, self.epoch)),
            Host::Idle if self.breaks == BREAKS => out.push(go(Host::Done)),
            _ => {}
        }
        if self.breaks < BREAKS && !matches!(self.host, Host::Connects | Host::Done) {
            let alone = Self { breaks: self.breaks + 1, ..go(Host::Connects) };
            let mut both = alone.clone();
            both.wire.retain(|frame| frame.connection != self.connection);
            both.served.retain(|connection| *connection != self.connection);
            out.extend([alone, both]);
        }
    }

    /// Frames arrive in the order of their connection and direction.
    fn arrives(&self, without: Without, out: &mut Vec<Self>) {
        let mut seen = Vec::new();
        for (at, frame) in self.wire.iter().enumerate() {
            let lane = (frame.connection, frame.kind.is_to_server());
            if seen.contains(&lane) {
                continue;
            }
            seen.push(lane);
            let mut rest = self.clone();
            rest.wire.remove(at);
            match frame.kind.is_to_server() {
                true => out.extend(self.at_server(*frame, rest, without)),
                false => out.push(self.at_host(*frame, rest, without)),
            }
        }
    }

    fn at_server(&self, frame: Frame, mut rest: Self, without: Without) -> Option<Self> {
        let Frame { kind, connection, epoch } = frame;
        match kind {
            Kind::Hello if connection < self.newest && !without.attempts => {}
            Kind::Hello if !self.served.is_empty() && !without.one => {
                return Some(Self { served: Vec::new(), ..self.clone() });
            }
            Kind::Hello if self.inside.is_some() && !without.joined => return None,
            Kind::Hello if self.serves && !without.left => {
                let request = self.request.filter(|_| without.wipes);
                return Some(Self { serves: false, request, ..self.clone() });
            }
            Kind::Hello => {
                rest.served.push(connection);
                rest.newest = self.newest.max(connection);
                rest = rest.sent(Kind::Grant, connection, self.device_epoch);
            }
            _ if !self.served.contains(&connection) => {}
            Kind::Offer => {
                (rest.device_epoch, rest.serves) = (epoch, true);
                rest.request = self.request.filter(|_| without.wipes);
                rest = rest.sent(Kind::Serving, connection, epoch);
            }
            _ if self.inside.is_some() => return None,
            _ => rest.inside = Some(frame),
        }
        Some(rest)
    }

    fn at_host(&self, Frame { kind, connection, epoch }: Frame, mut rest: Self, without: Without) -> Self {
        match (kind, self.host) {
            _ if connection != self.connection => {}
            (Kind::Grant, Host::WaitsForGrant) => {
                let next = if without.next_epoch && epoch != 0 { epoch } else { epoch + 1 };
                (rest.host, rest.epoch) = (Host::Offered, next);
                rest = rest.sent(Kind::Offer, connection, next);
            }
            (Kind::Serving, Host::Offered) => rest.host = Host::Calls,
            (Kind::Reply, Host::WaitsForReply) if epoch == self.epoch => rest.host = Host::Idle,
            _ => {}
        }
        rest
    }

    /// A thread of the server writes a call; the device runs one.
    fn device(&self, out: &mut Vec<Self>) {
        if let Some(Frame { epoch, .. }) = self.inside {
            let is_late = self.serves && self.device_epoch != epoch;
            let fault = self.fault.or(is_late.then_some(LATE));
            out.push(Self { inside: None, request: Some(epoch), fault, ..self.clone() });
        }
        if let Some(epoch) = self.request.filter(|_| self.serves) {
            let fault = self.fault.or((epoch != self.device_epoch).then_some(STALE));
            let mut next = Self { request: None, fault, ..self.clone() };
            for connection in &self.served {
                next = next.sent(Kind::Reply, *connection, epoch);
            }
            out.push(next);
        }
    }
}

impl Model for State {
    type Without = Without;

    fn next(&self, without: Without) -> Vec<Self> {
        let mut out = Vec::new();
        self.host(&mut out);
        self.arrives(without, &mut out);
        self.device(&mut out);
        out
    }

    fn fault(&self) -> Option<&'static str> {
        let is_early = |frame: &Frame| {
            let is_ours = frame.kind == Kind::Reply && frame.connection == self.connection;
            is_ours && frame.epoch == self.epoch && matches!(self.host, Host::Calls | Host::Offered)
        };
        let two = (self.served.len() > 1).then_some(TWO);
        self.fault.or(two).or(self.wire.iter().any(is_early).then_some(EARLY))
    }

    fn is_done(&self) -> bool {
        self.host == Host::Done
    }
}

#[test]
fn no_frame_of_an_earlier_connection_reaches_a_later_epoch() {
    holds(first(), 1000);
}

#[test]
fn two_connections_that_are_read_are_two_hosts() {
    assert_eq!(search(first(), Without { one: true, ..Without::default() }), Err(TWO));
}

#[test]
fn without_numbers_an_earlier_attempt_replaces_a_later_one() {
    assert_eq!(search(first(), Without { attempts: true, ..Without::default() }), Err(STUCK));
}

#[test]
fn a_thread_that_has_not_ended_writes_into_the_next_epoch() {
    assert_eq!(search(first(), Without { joined: true, ..Without::default() }), Err(LATE));
}

#[test]
fn in_the_same_epoch_a_call_that_was_left_is_answered_again() {
    let without = Without { left: true, next_epoch: true, ..Without::default() };
    assert_eq!(search(first(), without), Err(EARLY));
}

#[test]
fn slots_that_are_not_wiped_have_the_calls_of_an_epoch_of_the_same_tag() {
    assert_eq!(search(first(), Without { wipes: true, ..Without::default() }), Err(STALE));
}
