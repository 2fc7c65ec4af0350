//! Messages between host and adapter, on a socket that keeps their bounds. The host asks, the adapter replies, one at a
//! time.

use super::Object;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First bytes of the greeting.
pub const GREETING: [u8; 8] = *b"hamrhca1";

/// Bytes of the longest text that an adapter sends in place of a greeting: why it does not serve.
pub const NO_GREETING: usize = 256;

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
    /// Make the object, a queue pair, in place of the one there of the generation before (`ibv_modify_qp` to RESET and
    /// INIT).
    pub const RESET: Self = Self(3);
    /// Put the queue pair `object.index` in error (`ibv_modify_qp` to ERR).
    pub const FAIL: Self = Self(4);
    /// Destroy the object `object.index` of its kind, which no other one names.
    pub const DESTROY: Self = Self(5);
    /// Connect the queue pair `object.index` with the one of another adapter that `remote` says.
    pub const CONNECT_REMOTE: Self = Self(6);
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
    /// The other end of a connection between adapters.
    pub remote: RemoteEnd,
}

/// The other end of a connection between adapters, and the way to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
pub struct RemoteEnd {
    /// The IPv4 address of the adapter.
    pub address: [u8; 4],
    /// The number of the queue pair there.
    pub qp_number: u32,
    /// The number of the first packet that it sends.
    pub psn: u32,
    /// The number of the first packet that goes there.
    pub own_psn: u32,
    /// Bytes of payload of a packet: 256, 512, 1024, 2048 or 4096.
    pub mtu: u16,
    /// How long an acknowledgement is waited for: a code, 4.096 µs * 2^code; 0 for ever.
    pub timeout: u8,
    /// How often it is sent again without an answer: at most 7.
    pub retry: u8,
    /// Zero.
    pub reserved: u32,
}
const _: () = assert!(size_of::<RemoteEnd>() == 24 && size_of::<Command>() == 96);

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
