//! Why a verb was refused.

use hamr_comm::abi::status::Status;
use hamr_comm::abi::window::OutOfWindow;
use hamr_comm::{Fault, Interrupted};

/// Why a verb was refused. Nothing was posted, or taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VerbsError {
    /// The device has no adapter in this epoch.
    NoFabric,
    /// The adapter is gone. What was posted may have happened or not.
    HcaLost,
    /// The object is of another device or epoch, there is none, or the host has reset or destroyed it.
    Stale,
    /// The ring is full: poll completions first.
    Full,
    /// More scatter entries than a request has; how many it has.
    TooManySges(u32),
    /// More bytes than a request has room for; how many it has.
    InlineTooLong(u32),
    /// The message is longer than any, or a range leaves its region.
    Length,
    /// The queue pair is not in a state for it; the state.
    State(u32),
    /// The completion queue has overrun: completions are missing.
    Overrun,
    /// There is no such request: an immediate value of a read, a receive request of a queue pair that takes from a
    /// shared queue.
    Unsupported,
    /// The host, or the adapter, wrote what it may not write.
    Corrupt,
    /// A request that was posted may still write there: take its completion first.
    Busy,
    /// The region is not one for views ([`crate::wire::Access::VIEW`]).
    NoViews,
    /// The wait ended without a completion.
    Interrupted(Interrupted),
}

impl From<Interrupted> for VerbsError {
    fn from(why: Interrupted) -> Self {
        Self::Interrupted(why)
    }
}

impl From<OutOfWindow> for VerbsError {
    fn from(_: OutOfWindow) -> Self {
        Self::Corrupt
    }
}

impl From<VerbsError> for Fault {
    #[cold]
    fn from(e: VerbsError) -> Self {
        let (kind, number) = match e {
            VerbsError::NoFabric => return Self::new(Status::NO_FABRIC, [0; 3]),
            VerbsError::Interrupted(why) => return why.into(),
            VerbsError::HcaLost => (1, 0),
            VerbsError::Stale => (2, 0),
            VerbsError::Full => (3, 0),
            VerbsError::TooManySges(most) => (4, most),
            VerbsError::InlineTooLong(most) => (5, most),
            VerbsError::Length => (6, 0),
            VerbsError::State(state) => (7, state),
            VerbsError::Overrun => (8, 0),
            VerbsError::Corrupt => (9, 0),
            VerbsError::Unsupported => (10, 0),
            VerbsError::Busy => (11, 0),
            VerbsError::NoViews => (12, 0),
        };
        Self::new(Status::VERBS, [kind, number.into(), 0])
    }
}
