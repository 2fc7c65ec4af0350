//! Features of the protocol that a device and this host agreed on.

use hamr_comm::abi::preamble::feature;
use std::fmt;
use std::ops::BitOr;

/// What a device's image does beyond the plain protocol, of what this host offered (abi §3.6). What
/// the link between the two can do is another matter:
/// [`Node::link_capabilities`](crate::Node::link_capabilities).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Features(u32);

impl Features {
    /// Tasks, whose results come in ticket slots.
    pub const TICKETS: Self = Self(feature::TICKETS);
    /// Handlers learn the deadlines of their calls.
    pub const DEADLINES: Self = Self(feature::DEADLINES);
    /// The device sleeps, and the two sides notify each other.
    pub const DOORBELL: Self = Self(feature::DOORBELL);
    /// The device logs into the window.
    pub const LOGS: Self = Self(feature::LOGS);
    /// A fault of a handler ends its call only.
    pub const CONTAIN: Self = Self(feature::CONTAIN);
    /// Messages of up to two cache lines.
    pub const TWO_LINES: Self = Self(feature::TWO_LINES);
    /// Arguments and results may be longer than 16 KiB ([`Limits::message`](crate::Limits::message)).
    pub const LONG_VALUES: Self = Self(feature::LONG_VALUES);
    /// Host and device poll memory of their own each ([`Protocol::Split`](crate::link::Protocol::Split)).
    pub const SPLIT: Self = Self(feature::SPLIT);
    /// The device drives its host's memory ([`Protocol::DeviceDriven`](crate::link::Protocol::DeviceDriven)).
    pub const DRIVEN: Self = Self(feature::DRIVEN);
    /// The device is a rank of a world.
    pub const WORLD: Self = Self(feature::WORLD);
    /// Tasks run on stacks of their own.
    pub const TASKS: Self = Self(feature::TASKS);

    pub(super) fn from_wire(bits: u32) -> Self {
        Self(bits)
    }

    /// Are all of `others` among them?
    pub fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Their names, in the order of the bits.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        feature::NAMES.iter().filter(move |(bit, _)| self.0 & bit != 0).map(|(_, name)| *name)
    }
}

impl BitOr for Features {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.names().enumerate() {
            write!(f, "{}{name}", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Features({self})")
    }
}
