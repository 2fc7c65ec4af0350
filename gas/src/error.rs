//! Why a call of this interface failed.

use crate::collective::CollectiveCall;
use crate::kinds::Kinds;
use core::fmt::{self, Write};
use hamr_comm::abi::status::Status;
use hamr_comm::abi::world::Category;
use hamr_comm::world::OutOfReach;
use hamr_comm::{Fault, Interrupted};

/// The end of a handler's name.
pub type Name = heapless::String<40>;

/// Why a call failed. After [`Self::Refused`], [`Self::Reply`] and [`Self::Corrupt`] messages are
/// lost, and each later call of the rank has the same error.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GasError {
    /// This device is in no world, or in one without GAS.
    NoWorld,
    /// The world has more ranks than this image knows.
    TooManyRanks {
        /// Ranks of the world.
        size: u32,
        /// What the image has room for.
        max: u32,
    },
    /// [`Rank::attach`](crate::Rank::attach) comes before.
    NotAttached,
    /// It comes once.
    AlreadyAttached,
    /// A handler index is not the same at two ranks.
    Names {
        /// The index.
        at: u8,
        /// One of them, and its handler there; an empty name is none.
        one: (u32, Name),
        /// The other.
        other: (u32, Name),
    },
    /// There is no such rank.
    NoRank(u32),
    /// There is no handler with this index.
    NoHandler {
        /// The rank that the message is for.
        rank: u32,
        /// The index.
        at: u8,
    },
    /// The handler takes no such message.
    WrongKind {
        /// The rank that the message is for.
        rank: u32,
        /// The index.
        at: u8,
        /// The handler's name.
        name: &'static str,
        /// What was sent.
        sent: Category,
        /// What it takes.
        takes: Kinds,
    },
    /// A request for a handler of replies, or a reply for one of requests.
    WrongSide {
        /// The rank that the message is for.
        rank: u32,
        /// The index.
        at: u8,
        /// The handler's name.
        name: &'static str,
    },
    /// A message has more than 16 arguments.
    Arguments(usize),
    /// A payload is too long.
    TooLong {
        /// Its bytes.
        len: usize,
        /// Bytes at most.
        max: usize,
    },
    /// Lists of pieces with different numbers of bytes.
    Lists {
        /// In private memory.
        here: u64,
        /// In the segment.
        there: u64,
    },
    /// An access that leaves a segment.
    Reach {
        /// Whose segment.
        rank: u32,
        /// How.
        why: OutOfReach,
    },
    /// A rank did not run the handler of a request.
    Refused {
        /// The rank.
        rank: u32,
        /// The index.
        at: u8,
        /// Its reply.
        status: Status,
    },
    /// The reply of a handler of this rank was not sent.
    Reply {
        /// The rank that asked.
        to: u32,
        /// The reply's handler.
        at: u8,
        /// Why.
        why: &'static str,
    },
    /// A rank sent what breaks the rules.
    Corrupt(u32),
    /// Ranks that came to a barrier do not agree on its name; two of them, each with its name, or `None`
    /// if it asked for a mismatch.
    BarrierNames {
        /// One.
        one: (u32, Option<u32>),
        /// The other.
        other: (u32, Option<u32>),
    },
    /// Members of a team are in different collectives, or with different lengths, elements or roots; two ranks, each with
    /// its own.
    Unequal {
        /// The first member.
        one: (u32, CollectiveCall),
        /// The other.
        other: (u32, CollectiveCall),
    },
    /// An operation that a domain of atomics is not for, or that its type has not.
    Operation,
    /// A barrier was notified twice, or waited for without that.
    BarrierOrder {
        /// Was it notified?
        notified: bool,
    },
    /// A section without interrupts began in another one, or ended outside.
    Interrupts {
        /// Was it inside of one?
        held: bool,
    },
    /// An access region began in another one.
    Region,
    /// A call that does not wait found no room. Nothing was sent.
    Busy,
    /// A wait ended early.
    Interrupted(Interrupted),
}

impl fmt::Display for GasError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |name: &Name| if name.is_empty() { "none" } else { "" };
        match self {
            Self::NoWorld => f.write_str("this device is in no world with GAS"),
            Self::TooManyRanks { size, max } => write!(f, "expected at most {max} ranks, got {size}"),
            Self::NotAttached => f.write_str("the rank has not attached"),
            Self::AlreadyAttached => f.write_str("the rank has attached already"),
            Self::Names { at, one: (a, x), other: (b, y) } => {
                write!(f, "handler {at} is {x}{} at rank {a} and {y}{} at rank {b}", named(x), named(y))
            }
            Self::NoRank(rank) => write!(f, "there is no rank {rank}"),
            Self::NoHandler { rank, at } => write!(f, "rank {rank} has no handler {at}"),
            Self::WrongKind { rank, at, name, sent, takes } => {
                let (sent, takes) = (Kinds::of(*sent).text(), takes.text());
                write!(f, "handler {at} ({name}) of rank {rank} takes {takes} messages, got a {sent} one")
            }
            Self::WrongSide { rank, at, name } => {
                write!(f, "handler {at} ({name}) of rank {rank} is for the other side of a request")
            }
            Self::Arguments(got) => write!(f, "expected at most 16 arguments, got {got}"),
            Self::TooLong { len, max } => write!(f, "expected a payload of at most {max} bytes, got {len}"),
            Self::Lists { here, there } => {
                write!(f, "lists of {here} bytes of private memory and {there} of a segment")
            }
            Self::Reach { rank, why } => write!(f, "the segment of rank {rank}: {why}"),
            Self::Refused { rank, at, status } => write!(f, "rank {rank} did not run handler {at}: {}", status.text()),
            Self::Reply { to, at, why } => write!(f, "a reply to handler {at} of rank {to} was not sent: {why}"),
            Self::Corrupt(rank) => write!(f, "rank {rank} broke the rules of messages"),
            Self::BarrierNames { one, other } => {
                let side = |f: &mut fmt::Formatter<'_>, (rank, name): &(u32, Option<u32>)| match name {
                    Some(name) => write!(f, "{name} at rank {rank}"),
                    None => write!(f, "a mismatch that rank {rank} asked for"),
                };
                f.write_str("the barrier is ")?;
                side(f, one)?;
                if one != other {
                    f.write_str(" and ")?;
                    side(f, other)?;
                }
                Ok(())
            }
            Self::Unequal { one: (a, call), other: (b, other) } => {
                write!(f, "rank {a} is in {call}, and rank {b} in {other}")
            }
            Self::Operation => f.write_str("the domain is not for this operation"),
            Self::BarrierOrder { notified: true } => f.write_str("a barrier was notified twice"),
            Self::BarrierOrder { notified: false } => f.write_str("a barrier was waited for, and not notified"),
            Self::Interrupts { held: true } => f.write_str("interrupts are held already"),
            Self::Interrupts { held: false } => f.write_str("interrupts are not held"),
            Self::Region => f.write_str("an access region began in another one"),
            Self::Busy => f.write_str("there is no room now"),
            Self::Interrupted(why) => why.fmt(f),
        }
    }
}
impl core::error::Error for GasError {}

impl From<Interrupted> for GasError {
    fn from(why: Interrupted) -> Self {
        Self::Interrupted(why)
    }
}

impl From<GasError> for Fault {
    #[cold]
    fn from(e: GasError) -> Self {
        if let GasError::Interrupted(why) = e {
            return why.into();
        }
        let mut text = heapless::String::<200>::new();
        // What does not fit is left out.
        let _ = write!(text, "{e}");
        Self::msg(&text)
    }
}
