//! A rank that was lost: what the others see of it, and what their waits that end for it say.

#[cfg(all(feature = "tasks", feature = "world"))]
use super::Rank;
use crate::fault::Fault;
use crate::task::Interrupted;
use hamr_shared_abi::status::Status;

impl From<Interrupted> for Fault {
    fn from(why: Interrupted) -> Self {
        let text = match why {
            Interrupted::Cancelled => "cancelled",
            Interrupted::Deadline => "its time is over",
            #[cfg(all(feature = "tasks", feature = "world"))]
            Interrupted::LostRank => return lost_rank(),
            // Without worlds no rank is lost.
            _ => "the epoch is over",
        };
        Self { status: Status::INTERRUPTED, ..Self::msg(text) }
    }
}

/// Has the launcher lost a rank of this one's world?
#[cfg(all(feature = "tasks", feature = "world"))]
pub(crate) fn has_lost_rank() -> bool {
    Rank::here().is_some_and(|here| here.peers.lost().is_some())
}

/// No task runs here: tells a launcher that waits for that, because it has lost a rank.
#[cfg(all(feature = "tasks", feature = "world"))]
pub(crate) fn note_no_task() {
    if let Some(here) = Rank::here().filter(|here| here.peers.lost().is_some()) {
        here.peers.inform();
    }
}

/// The fault of a wait that ended because a rank was lost.
#[cfg(all(feature = "tasks", feature = "world"))]
#[cold]
#[inline(never)]
fn lost_rank() -> Fault {
    let Some((here, lost)) = Rank::here().and_then(|here| Some((here, here.peers.lost()?))) else {
        return Fault::new(Status::INTERRUPTED, [0; 3]);
    };
    let numbers = [u64::from(lost.0) + 1, 0, 0];
    Fault { numbers, ..Fault::with_text(Status::INTERRUPTED, &here.peers.lost_text()) }
}
