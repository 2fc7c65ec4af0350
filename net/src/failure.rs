//! Why there is no connection, or none any more, in words for a user.

use crate::frame::Malformed;
use hamr_shared_abi::version::AbiVersion;
use rustix::io::Errno;
use std::time::Duration;

/// Why a connection has ended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// The end of the stream.
    #[error("the other end closed it")]
    Closed,
    /// The other machine does not answer any more, or the other program takes nothing.
    #[error("no answer for {}", seconds(*.0))]
    Silent(Duration),
    /// As the system says.
    #[error("{}", std::io::Error::from(*.0))]
    System(Errno),
    /// Bytes that are no frame, or no frame of now.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// The other end has not the same key.
    #[error("expected the same key at both ends, the other one has another")]
    Key,
    /// What came is no start of this protocol.
    #[error("expected hamr, got other bytes")]
    NotHamr,
    /// The other end's last words.
    #[error("{0}")]
    Said(String),
    /// It belongs to the process that this one is a copy of: two that write would encrypt with one number twice.
    #[error("expected the process that opened it, this one was forked from it")]
    Forked,
}

/// Why a host has no connection to a server.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The address is none, or has no name server that knows it.
    #[error("expected HOST:PORT, got `{text}`: {why}")]
    Address {
        /// As it was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// Nothing listens there.
    #[error(
        "tcp:{0}: expected a server, the connection was refused; start one with `hamr serve NAME --listen {0} --device …`"
    )]
    Refused(String),
    /// There was not even a refusal.
    #[error("tcp:{at}: expected a server, {}", std::io::Error::from(*.why))]
    Unreachable {
        /// The address.
        at: String,
        /// As the system says.
        why: Errno,
    },
    /// The caller's limit has passed.
    #[error("expected an answer of {at} within {}, none came", seconds(*.limit))]
    Late {
        /// The address.
        at: String,
        /// The limit.
        limit: Duration,
    },
    /// Another key.
    #[error("expected the server's key, {0} has another; give both the same file (--key FILE)")]
    Key(String),
    /// Something else.
    #[error("expected hamr at {0}, got other bytes")]
    NotHamr(String),
    /// No common version.
    #[error("expected protocol {} to {}, {at} speaks {}; use the same version on both machines", .mine.0, .mine.1, versions(*.its))]
    Version {
        /// The address.
        at: String,
        /// What this end speaks.
        mine: (AbiVersion, AbiVersion),
        /// What the server speaks.
        its: (AbiVersion, AbiVersion),
    },
    /// Another host has the device.
    #[error("{at} has a host, {host} for {}; a second one is refused; wait for its end, or serve another device", since(*.seconds))]
    Busy {
        /// The address.
        at: String,
        /// The host's name.
        host: String,
        /// For how long it has been there.
        seconds: u64,
    },
    /// Another device.
    #[error("expected device {wanted} at {at}, it serves {has}")]
    Name {
        /// The address.
        at: String,
        /// The name asked for.
        wanted: String,
        /// The server's.
        has: String,
    },
    /// A window that is too small.
    #[error("expected a window of at least {wanted} bytes, {at} has {has}")]
    Window {
        /// The address.
        at: String,
        /// What the host's layout needs.
        wanted: u64,
        /// What the server has.
        has: u64,
    },
    /// The server has no memory of this host: it was started since, or another host has had the device.
    #[error("{0} has another host's memory, or new one; open the device anew")]
    OtherMemory(String),
    /// Any other reason of the server.
    #[error("{at} refuses: {why}")]
    Other {
        /// The address.
        at: String,
        /// The server's words.
        why: String,
    },
    /// The connection ended before the answer or later.
    #[error("the connection to {at} was lost: {why}")]
    Lost {
        /// The address.
        at: String,
        /// Why.
        why: Broken,
    },
}

impl Failure {
    /// May a later attempt do better: nothing listens or answers at this moment, or another host has the device?
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Unreachable { .. } | Self::Late { .. } | Self::Busy { .. } | Self::Lost { .. } => {
                true
            }
            Self::Address { .. } | Self::Key(_) | Self::NotHamr(_) | Self::Version { .. } | Self::Name { .. } => false,
            Self::Window { .. } | Self::OtherMemory(_) | Self::Other { .. } => false,
        }
    }

    /// What the end of an opening connection means for its host.
    pub(crate) fn opening(at: &str, why: Broken) -> Self {
        let at = at.to_owned();
        match why {
            Broken::Key => Self::Key(at),
            Broken::NotHamr | Broken::Malformed(_) => Self::NotHamr(at),
            why => Self::Lost { at, why },
        }
    }
}

fn seconds(limit: Duration) -> String {
    format!("{} s", limit.as_secs_f32())
}

fn since(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

fn versions((min, max): (AbiVersion, AbiVersion)) -> String {
    if min == max { min.to_string() } else { format!("{min} to {max}") }
}
