//! What a keeper has to tell, in words.

use crate::at::protocol::shown;
use std::fmt;

/// What a keeper has to tell.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A host has the device.
    Attached {
        /// Which.
        host: Host,
    },
    /// It has it no more.
    Left {
        /// Which.
        host: Host,
        /// Why, where it did not leave by itself.
        why: Option<String>,
    },
    /// A second host was refused.
    Refused {
        /// Which.
        host: Host,
        /// What it was told.
        why: String,
    },
    /// It is kept no more, for a reason of its own.
    Ended {
        /// Which.
        why: String,
    },
    /// The device was started again.
    Restarted {
        /// Why.
        why: String,
    },
}

/// A host of a kept device.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Host {
    /// A process of this machine; `None` where this PID namespace does not have it.
    Process(Option<i32>),
    /// A host that came across a network, with its name and address.
    Far(String),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(pid) => f.write_str(&shown(*pid)),
            Self::Far(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attached { host } => write!(f, "{host} is the host"),
            Self::Left { host, why: None } => write!(f, "{host} has left"),
            Self::Left { host, why: Some(why) } => write!(f, "{host} has left: {why}"),
            Self::Refused { host, why } => write!(f, "refused {host}: {why}"),
            Self::Ended { why } => write!(f, "ended: {why}"),
            Self::Restarted { why } => write!(f, "started again: {why}"),
        }
    }
}
