//! A rank that was lost: what the others see of it, and what their waits that end for it say.

use crate::fault::Fault;
use crate::task::Interrupted;
use hamr_shared_abi::status::Status;

impl From<Interrupted> for Fault {
    fn from(why: Interrupted) -> Self {
        let text = match why {
            Interrupted::Cancelled => "cancelled",
            Interrupted::Deadline => "its time is over",
            Interrupted::LostRank if cfg!(feature = "world") => return super::ranks::lost_rank(),
            // Without worlds no rank is lost.
            _ => "the epoch is over",
        };
        Self { status: Status::INTERRUPTED, ..Self::msg(text) }
    }
}
