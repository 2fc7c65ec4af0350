//! The host's way to a connection: connect, prove, say HELLO, be granted.

use crate::channel::Channel;
use crate::failure::{Broken, Failure};
use crate::frame::{Bounds, End, Frame, Grant, Hello, Reason, Refuse};
use crate::key::{Key, KeyError};
use crate::seat::OTHER_MEMORY;
use crate::socket::{self, Limit};
use hamr_shared_abi::version::AbiVersion;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::net::SocketAddr;
use std::time::Duration;

/// A connection that is about to be. It makes progress when it is looked at, and never waits.
pub struct Opening {
    at: String,
    stage: Stage,
    hello: Wanted,
    bounds: Bounds,
    limit: Limit,
}

enum Stage {
    /// With the key for then.
    Connecting(OwnedFd, Key),
    Open(Box<Channel>),
    Over,
}

/// What the answer is compared with.
struct Wanted {
    first: Vec<u8>,
    abi: (AbiVersion, AbiVersion),
    name: String,
    window: u64,
    phase: crate::frame::Phase,
}

impl Wanted {
    fn of(hello: &Hello<'_>, at: &str) -> Result<Self, Failure> {
        let mut first = Vec::new();
        let odd = |e: crate::frame::Malformed| Failure::Lost { at: at.into(), why: e.into() };
        Frame::Hello(*hello).encode(&mut first).map_err(odd)?;
        let (name, phase) = (hello.name.into(), hello.purpose.into());
        Ok(Self { first, abi: hello.abi, name, window: hello.window, phase })
    }
}

/// A connection that is granted.
pub struct Opened {
    /// At the server's other end.
    pub channel: Channel,
    /// What both speak.
    pub abi: AbiVersion,
    /// The device can sleep, and the server notifies it.
    pub doorbell: bool,
    /// Kind of the device's link.
    pub kind: String,
}

/// Bytes for [`Hello::link`] that nobody guesses.
///
/// # Errors
/// The system has none.
pub fn link_id() -> Result<[u8; 16], KeyError> {
    crate::key::random_bytes()
}

impl Opening {
    /// Begins to connect. Later ranges of the server are to be in `bounds`; it has to answer within `silence`.
    ///
    /// # Errors
    /// A refusal, or a text in `hello` that does not travel.
    pub fn begin(
        at: SocketAddr,
        key: &Key,
        hello: &Hello<'_>,
        bounds: Bounds,
        silence: Duration,
    ) -> Result<Self, Failure> {
        let (hello, at) = (Wanted::of(hello, &at.to_string())?, (at, at.to_string()));
        let socket = socket::connecting(at.0, silence).map_err(|e| refused(&at.1, e))?;
        let stage = Stage::Connecting(socket, key.clone());
        Ok(Self { at: at.1, stage, hello, bounds, limit: Limit::of(silence) })
    }

    /// The same over a channel that leads to the server `at`, which has to answer within `limit`.
    ///
    /// # Errors
    /// A text in `hello` that does not travel.
    pub fn over(
        channel: Channel,
        at: &str,
        hello: &Hello<'_>,
        bounds: Bounds,
        limit: Duration,
    ) -> Result<Self, Failure> {
        let hello = Wanted::of(hello, at)?;
        let stage = Stage::Open(channel.with_first(&hello.first).into());
        Ok(Self { at: at.into(), stage, hello, bounds, limit: Limit::of(limit) })
    }

    /// Goes on. `None`: not yet.
    ///
    /// # Errors
    /// There will be no connection, for the reason in the text.
    pub fn look(&mut self) -> Result<Option<Opened>, Failure> {
        let at = &self.at;
        if let Stage::Connecting(socket, _) = &self.stage {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let is_there = poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&now)).is_ok_and(|n| n > 0);
            if is_there {
                sockopt::socket_error(socket).and_then(|e| e).map_err(|e| refused(at, e))?;
                let Stage::Connecting(socket, key) = std::mem::replace(&mut self.stage, Stage::Over) else {
                    return Ok(None);
                };
                let fail = |why| Failure::opening(at, why);
                let channel = Channel::new(socket, End::Host, Some(&key), self.limit.whole).map_err(fail)?;
                self.stage = Stage::Open(channel.with_first(&self.hello.first).into());
            }
        }
        let answer = match &mut self.stage {
            Stage::Open(channel) => channel.answer(),
            Stage::Connecting(..) => Ok(None),
            Stage::Over => Err(Broken::Closed),
        };
        match answer.map_err(|why| Failure::opening(at, why))? {
            None if self.limit.left().is_zero() => Err(Failure::Late { at: at.clone(), limit: self.limit.whole }),
            None => Ok(None),
            Some(Answer::Refuse(refuse)) => Err(self.explained(refuse)),
            Some(Answer::Grant { abi, doorbell, window, kind }) => {
                let at = at.clone();
                if window < self.hello.window {
                    return Err(Failure::Window { at, wanted: self.hello.window, has: window });
                }
                if !(self.hello.abi.0..=self.hello.abi.1).contains(&abi) {
                    return Err(Failure::Version { at, mine: self.hello.abi, its: (abi, abi) });
                }
                let Stage::Open(mut channel) = std::mem::replace(&mut self.stage, Stage::Over) else {
                    return Ok(None);
                };
                channel.begin(self.hello.phase, self.bounds.clone());
                Ok(Some(Opened { channel: *channel, abi, doorbell, kind }))
            }
        }
    }

    /// Looks until there is a connection, at most so long.
    ///
    /// # Errors
    /// As [`Self::look`]; and the limit has passed.
    pub fn finish(mut self, limit: Duration) -> Result<Opened, Failure> {
        let limit = Limit::of(limit);
        loop {
            if let Some(opened) = self.look()? {
                return Ok(opened);
            }
            let left = limit.left().min(self.limit.left());
            if limit.left().is_zero() {
                return Err(Failure::Late { at: self.at, limit: limit.whole });
            }
            match &self.stage {
                Stage::Connecting(socket, _) => socket::wait(socket, PollFlags::OUT, left),
                Stage::Open(channel) => channel.wait(left),
                Stage::Over => {}
            }
        }
    }

    fn explained(&self, Refusal { reason, abi, number, text }: Refusal) -> Failure {
        let at = self.at.clone();
        match reason {
            Reason::Version => Failure::Version { at, mine: self.hello.abi, its: abi },
            Reason::Busy => Failure::Busy { at, host: text, seconds: number },
            Reason::Name => Failure::Name { at, wanted: self.hello.name.clone(), has: text },
            Reason::Window => Failure::Window { at, wanted: self.hello.window, has: number },
            // The next attempt has one.
            Reason::Stale if self.hello.phase == crate::frame::Phase::Transfers => {
                Failure::Lost { at, why: Broken::Said(text) }
            }
            Reason::Stale if number == OTHER_MEMORY => Failure::OtherMemory(at),
            Reason::Stale if text.is_empty() => Failure::Other { at, why: "there was a later connection".into() },
            Reason::Stale | Reason::Other => Failure::Other { at, why: text },
        }
    }
}

/// What connecting failed by.
fn refused(at: &str, e: Errno) -> Failure {
    let at = at.to_owned();
    match e {
        Errno::CONNREFUSED => Failure::Refused(at),
        why => Failure::Unreachable { at, why },
    }
}

enum Answer {
    Grant { abi: AbiVersion, doorbell: bool, window: u64, kind: String },
    Refuse(Refusal),
}

struct Refusal {
    reason: Reason,
    abi: (AbiVersion, AbiVersion),
    number: u64,
    text: String,
}

impl Channel {
    fn answer(&mut self) -> Result<Option<Answer>, Broken> {
        self.flush()?;
        Ok(match self.receive()? {
            Some(Frame::Grant(Grant { abi, doorbell, window, kind })) => {
                Some(Answer::Grant { abi, doorbell, window, kind: kind.into() })
            }
            Some(Frame::Refuse(Refuse { reason, abi, number, text })) => {
                Some(Answer::Refuse(Refusal { reason, abi, number, text: text.into() }))
            }
            // No other frame comes from a server now.
            Some(_) | None => None,
        })
    }
}
