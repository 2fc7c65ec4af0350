//! What a task waits for, and why a wait ends without it.

use crate::why::NODE;
use hamr_shared_abi::ids::{HandlerKey, NodeId, RankId};
use hamr_shared_abi::slot::RepHdr;

/// Microseconds between two looks at what a task polls.
#[cfg(feature = "tasks")]
const LONGEST_NAP: u64 = 1000;
/// No time.
pub(crate) const NEVER: u64 = u64::MAX;

/// When the serve loop resumes a suspended task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// In the next round: the task has work to do.
    Turn,
    /// In the next round, or after a sleep of at most a millisecond: it looks at a condition.
    Poll,
    /// In the next round: it looks at a word of which a rank notifies this one; at this time at the
    /// latest, in microseconds.
    Peer(u64),
    /// At this time, in microseconds.
    Time(u64),
    /// The serve loop sends the message at the front of scratch memory; then as `Reply`.
    Call { message: Message, until: u64 },
    /// It sends the message; in the next round.
    Post { message: Message },
    /// When the reply to the call with this handle is there, or at the time `until`.
    Reply { call: u32, until: u64 },
}

#[cfg(feature = "tasks")]
impl Wait {
    /// Does the serve loop send a message first?
    pub(crate) const fn is_message(self) -> bool {
        matches!(self, Self::Call { .. } | Self::Post { .. })
    }

    /// The time of a [`Wait::Reply`] that is over, or whose reply is there.
    pub(crate) const OVER: u64 = 0;

    /// When a call ends without its reply.
    pub(crate) const fn limit(self) -> u64 {
        match self {
            Self::Call { until, .. } | Self::Reply { until, .. } => until,
            _ => NEVER,
        }
    }

    /// Until when a device without other work may sleep, at `now`.
    pub(crate) fn until(self, now: u64) -> u64 {
        match self {
            // The serve loop turns the latter two into others when the task suspends.
            Self::Turn | Self::Call { .. } | Self::Post { .. } => now,
            Self::Poll => now + LONGEST_NAP,
            Self::Peer(until) | Self::Time(until) | Self::Reply { until, .. } => until,
        }
    }

    /// Its time is over: the task goes on in the next round.
    pub(crate) fn end(&mut self) {
        match self {
            Self::Reply { until, .. } => *until = Self::OVER,
            wait => *wait = Self::Turn,
        }
    }
}

/// Who is called: the host program, a rank of this device's world, or another device of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target(u32);

/// A handler, and where it is called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Callee {
    pub(crate) target: Target,
    pub(crate) id: u64,
    pub(crate) signature: u64,
    pub(crate) is_task: bool,
}

impl Target {
    /// The host program.
    pub const HOST: Self = Self(0);

    /// The rank, if it is one.
    pub const fn rank(self) -> Option<RankId> {
        // One comparison with zero: nodes have the highest bit.
        if self.0 as i32 > 0 { Some(RankId(self.0 - 1)) } else { None }
    }

    pub(crate) const fn of_node(node: NodeId) -> Self {
        Self(NODE | node.0 as u32)
    }

    /// How faults and messages name it: 0 is the host, a rank is itself and one, another device its
    /// number and 2^31.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    pub(crate) const fn of_number(number: u32) -> Self {
        Self(number)
    }
}

/// A rank of this device's world; itself, too.
impl From<RankId> for Target {
    fn from(rank: RankId) -> Self {
        Self(rank.0.min(NODE - 2) + 1)
    }
}

/// A call that a task has encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    pub(crate) target: Target,
    /// The handler runs as a task.
    pub(crate) is_task: bool,
    pub(crate) key: HandlerKey,
    /// Bytes of arguments.
    pub(crate) len: u16,
}

/// What the serve loop answers a task that asked for something.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "tasks"), expect(dead_code, reason = "no task asks"))]
pub(crate) enum Answer {
    /// The wait ended without it.
    None,
    /// The ring is full.
    Full,
    /// The call has this handle.
    Submitted(u32),
    /// A reply, so many bytes of which are at the front of scratch memory.
    Reply(RepHdr, usize),
    /// A reply that breaks the rules.
    Corrupt,
}

/// What a task and the serve loop tell each other of its calls, beside waits and answers. A bit is
/// that of a handle.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Marks {
    /// From the task: the task does not wait for this call any more.
    pub(crate) dropped: u32,
    /// From the task: this call is to stop.
    pub(crate) cancelled: u32,
    /// To the task: the reply to this call is there.
    pub(crate) done: u32,
}

#[cfg(feature = "tasks")]
impl Marks {
    /// Does the task say something?
    pub(crate) const fn any(self) -> bool {
        self.dropped | self.cancelled != 0
    }
}

/// Why a wait ended without what was waited for. It stays: later waits of the task end at once, but
/// those that [`super::Task::within`] ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupted {
    /// The call was cancelled: its outcome is `Cancelled`, whatever the task returns.
    Cancelled,
    /// The time that the caller gave the call is over, or that of [`super::Task::within`].
    Deadline,
    /// The epoch is over. Only destructors see it, while the task's stack is unwound.
    Ended,
    /// A rank of the world was lost, and the world ends. The fault that this becomes says which and why;
    /// [`crate::world::WorldRef::lost`], which.
    LostRank,
}

impl core::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "a wait ended: the call was cancelled",
            Self::Deadline => "a wait ended: its time is over",
            Self::Ended => "a wait ended: the epoch is over",
            Self::LostRank => "a wait ended: a rank of the world was lost",
        })
    }
}
impl core::error::Error for Interrupted {}
