//! What a task waits for, and why a wait ends without it.

use crate::fault::Fault;
use hamr_shared_abi::status::Status;

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
}

impl core::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Cancelled => "a wait ended: the call was cancelled",
            Self::Deadline => "a wait ended: its time is over",
            Self::Ended => "a wait ended: the epoch is over",
        })
    }
}
impl core::error::Error for Interrupted {}

impl From<Interrupted> for Fault {
    fn from(why: Interrupted) -> Self {
        let text = match why {
            Interrupted::Cancelled => "cancelled",
            Interrupted::Deadline => "its time is over",
            Interrupted::Ended => "the epoch is over",
        };
        Self { status: Status::INTERRUPTED, ..Self::msg(text) }
    }
}
