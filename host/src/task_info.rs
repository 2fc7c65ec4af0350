//! What tasks of devices wait for, in words.

use crate::text::Clean;
use hamr_comm::abi::ids::RankId;
use serde::{Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// A task of a device that waits, as the device last showed it: every 64 rounds, and before it
/// sleeps. A task that has gone on since may be shown in its last wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TaskInfo {
    /// Its place among the device's tasks.
    pub place: u32,
    /// Path of its handler.
    pub handler: String,
    /// Queue pair of its call.
    pub queue: u16,
    /// Number of the slot in it that the reply goes to.
    pub slot: u16,
    /// What it waits for.
    pub wait: TaskWait,
    /// How long it had waited when the device looked last.
    #[serde(rename = "waited_us", serialize_with = "micros_to_json")]
    pub waited: Duration,
    /// The source file of the wait, of a long path the end; empty where it is unknown.
    pub file: String,
    /// The line in that file; 0: unknown.
    pub line: u32,
}

/// What a task waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "for", rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskWait {
    /// `yield_now`: others have a turn.
    Turn,
    /// `wait_until`.
    Condition,
    /// `sleep`.
    Time,
    /// The reply of a handler of the host.
    Host {
        /// Path of the handler.
        handler: String,
    },
    /// `wait_signal`.
    Signal {
        /// Who is to send it.
        #[serde(serialize_with = "rank_to_json")]
        rank: RankId,
        /// Number of the word.
        word: u16,
    },
    /// `barrier`.
    Barrier {
        /// A rank that has not come.
        #[serde(serialize_with = "rank_to_json")]
        rank: RankId,
    },
    /// The reply of a handler of a rank.
    Rank {
        /// Who is called.
        #[serde(serialize_with = "rank_to_json")]
        rank: RankId,
        /// Path of the handler.
        handler: String,
    },
    /// `wait_until_ranks`: any of these is to do something.
    Ranks {
        /// The first of them.
        #[serde(serialize_with = "rank_to_json")]
        first: RankId,
        /// The last.
        #[serde(serialize_with = "rank_to_json")]
        last: RankId,
    },
    /// Something that this program does not know.
    Unknown {
        /// The device's number for it.
        kind: u8,
    },
}

impl fmt::Display for TaskWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn => f.write_str("its turn"),
            Self::Condition => f.write_str("a condition"),
            Self::Time => f.write_str("a time"),
            Self::Host { handler } => write!(f, "the host's {}", Clean(handler)),
            Self::Rank { rank, handler } => write!(f, "rank {rank}'s {}", Clean(handler)),
            Self::Signal { rank, word } => write!(f, "signal {word} of rank {rank}"),
            Self::Ranks { first, last } if first == last => write!(f, "rank {first}"),
            Self::Ranks { first, last } => write!(f, "any of ranks {first} to {last}"),
            Self::Barrier { rank } => write!(f, "rank {rank} at a barrier"),
            Self::Unknown { kind } => write!(f, "what has the number {kind}"),
        }
    }
}

impl fmt::Display for TaskInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {} {} waits {}", self.place, Clean(&self.handler), Waited(self))
    }
}

/// `3.104 s for a condition at src/lib.rs:24`.
pub(crate) struct Waited<'t>(pub(crate) &'t TaskInfo);

impl fmt::Display for Waited<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TaskInfo { wait, waited, file, line, .. } = self.0;
        write!(f, "{:.3} s for {wait}", waited.as_secs_f64())?;
        if file.is_empty() { Ok(()) } else { write!(f, " at {}:{line}", Clean(file)) }
    }
}

fn micros_to_json<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

fn rank_to_json<S: Serializer>(rank: &RankId, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u32(rank.0)
}
