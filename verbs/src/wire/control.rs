//! Messages between host and adapter, on a socket that keeps their bounds. The host asks, the adapter replies, one at a time.

use super::Object;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First bytes of the greeting.
pub const GREETING: [u8; 8] = *b"hamrhca1";

/// The host's first message, with three descriptors: the window's memory, the doorbell that the adapter sleeps on, and the device's;
/// the adapter's first reply has the same form.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Greeting {
    /// [`GREETING`].
    pub magic: [u8; 8],
    /// [`super::FINGERPRINT`] of its sender.
    pub fingerprint: u64,
    /// Where the section is in the window.
    pub off: u64,
    /// Its bytes.
    pub len: u64,
    /// The epoch.
    pub epoch: u32,
    /// Microseconds without work before a sleep, as the offer has for the device; all ones: none. From the host, because a device can
    /// write the offer.
    pub spin_us: u32,
}

/// What the host asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(transparent)]
pub struct Verb(pub u32);

impl Verb {
    /// Make the object.
    pub const CREATE: Self = Self(1);
    /// Connect the queue pair `object.index` with the one `peer`, both ways.
    pub const CONNECT: Self = Self(2);
}

/// What the host wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Command {
    /// What to do.
    pub verb: Verb,
    /// The other queue pair of a connection.
    pub peer: u32,
    /// With what.
    pub object: Object,
}

/// A message of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Question {
    /// Comes back in the answer.
    pub number: u32,
    /// Zero.
    pub reserved: u32,
    /// What to do.
    pub command: Command,
}

/// The adapter's message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct Answer {
    /// That of the question.
    pub number: u32,
    /// What it came to.
    pub reply: Reply,
}

/// What a command came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(transparent)]
pub struct Reply(pub u32);

impl Reply {
    /// Done.
    pub const DONE: Self = Self(0);
    /// The message is not one of these, or an object does not fit.
    pub const MALFORMED: Self = Self(1);
    /// Something is there already, or something that it names is not.
    pub const STATE: Self = Self(2);
}
