//! Why a call that a task made failed, as the numbers of the fault REMOTE say it (abi §6): the node
//! called, the status, a detail.

use hamr_shared_abi::ids::RankId;
use hamr_shared_abi::status::Status;

/// The first number of a REMOTE fault, of a call to another device: this and the node's number.
pub(crate) const NODE: u32 = 1 << 31;

/// The last number of a REMOTE fault.
pub(crate) mod detail {
    /// The caller's own device found it.
    pub(crate) const HERE: u64 = 1;
    /// The host serves no calls.
    pub(crate) const NO_HOST: u64 = 2;
    /// The handler has other types there.
    pub(crate) const OTHER_TYPES: u64 = 3;
    /// The host relays no call there: no such device is open.
    pub(crate) const NO_NODE: u64 = 4;
    /// The device that the call was relayed to was lost, or begins anew.
    pub(crate) const LOST: u64 = 5;
}

/// Why a call was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotSent {
    Full,
    TooLong { wanted: usize, max: usize },
    NotThere,
    OtherTypes,
    NoHost,
}

/// Why a call of a task failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Why {
    /// The handler ended by a fault of this status.
    Fault(Status),
    /// Too many calls of this task, or messages without a result, have no reply yet. Nothing was
    /// sent.
    Full,
    /// Arguments or result are longer than the staging chunk; bytes.
    TooLong {
        /// Their length.
        wanted: u32,
        /// What there is room for.
        max: u32,
    },
    /// The target had no place for the call. It did not run.
    QueueFull,
    /// The target has no such handler.
    NotThere,
    /// The target's handler of this name has other types.
    OtherTypes,
    /// The host serves no calls of devices.
    NoHost,
    /// No device of this number is open in the host program.
    NoNode,
    /// The device that was called was lost or restarted. The call may have run.
    LostNode,
    /// This task's wait ended before the reply came. The call may have run.
    Interrupted,
    /// The same because this rank was lost, which ends the world.
    LostRank(RankId),
    /// The target refused the call with this status.
    Refused(Status),
    /// The target's reply is malformed.
    Corrupt,
}

impl Why {
    /// What REMOTE or INTERRUPTED with these numbers says; `None` of another status.
    pub fn of(status: Status, numbers: [u64; 3]) -> Option<Self> {
        let [whom, why, detail] = numbers;
        match status {
            Status::INTERRUPTED => {
                let lost = whom.checked_sub(1).map(|rank| Self::LostRank(RankId(rank as u32)));
                return Some(lost.unwrap_or(Self::Interrupted));
            }
            Status::REMOTE => {}
            _ => return None,
        }
        Some(match (Status(why as u16), detail) {
            (Status::QUEUE_FULL, detail::HERE) => Self::Full,
            (Status::QUEUE_FULL, _) => Self::QueueFull,
            (Status::RESULT_TOO_LONG, both) => Self::TooLong { wanted: (both >> 32) as u32, max: both as u32 },
            (Status::NO_HANDLER, detail::NO_HOST) => Self::NoHost,
            (Status::NO_HANDLER, detail::OTHER_TYPES) => Self::OtherTypes,
            (Status::NO_HANDLER, detail::NO_NODE) => Self::NoNode,
            (Status::NO_HANDLER, detail::LOST) => Self::LostNode,
            (Status::NO_HANDLER, _) => Self::NotThere,
            (Status::BAD_REQUEST, detail::HERE) => Self::Corrupt,
            (status, _) if status.0 >= Status::FIRST_FAULT => Self::Fault(status),
            (status, _) => Self::Refused(status),
        })
    }
}

impl core::fmt::Display for Why {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::LostRank(rank) => return write!(f, "rank {rank} was lost"),
            Self::TooLong { wanted, max } => return write!(f, "{wanted} bytes, the staging chunk has {max}"),
            Self::Fault(status) | Self::Refused(status) => status.text(),
            Self::Full => "too many calls without a reply",
            Self::QueueFull => Status::QUEUE_FULL.text(),
            Self::NotThere => "no such handler there",
            Self::OtherTypes => "the handler has other types there",
            Self::NoHost => "the host serves no calls",
            Self::NoNode => "no such device is open",
            Self::LostNode => "the device was lost",
            Self::Interrupted => Status::INTERRUPTED.text(),
            Self::Corrupt => "a malformed reply",
        })
    }
}
