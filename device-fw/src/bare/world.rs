//! An image that is a rank of a world (abi §13): feature `world`.

use super::runtime::RUNTIME;
use super::{CANNOT_START, console};
use crate::rank::{RANK, Rank};
use hamr_comm::abi::ids::RankId;
use hamr_comm::registry::Table;

/// Joins the world that was found, if there is one; an image that cannot ends.
pub(super) fn join() {
    let joined = match RANK.get() {
        None => return,
        Some(Ok(rank)) => rank.join(Table::of_this_image(), leave, notify),
        Some(Err(why)) => Err(*why),
    };
    if let Err(why) = joined {
        console::line(format_args!("hamr image: it cannot join its world: {why}"));
        console::exit(CANNOT_START)
    }
}

/// Ends the image when the launcher has asked every rank to end.
pub(super) fn check() {
    if rank().is_some_and(Rank::is_ending) {
        console::exit(0);
    }
}

/// Is this image a rank?
pub(super) fn is_rank() -> bool {
    rank().is_some()
}

/// Was a world found, also one that it cannot join?
#[cfg(feature = "driven")]
pub(super) fn is_found() -> bool {
    RANK.get().is_some()
}

fn rank() -> Option<&'static Rank> {
    RANK.get()?.as_ref().ok()
}

/// Notifies another rank.
fn notify(rank: RankId) {
    if let Some(doorbell) = RUNTIME.found().and_then(|found| found.doorbell.as_ref()) {
        // Rank r is peer r + 1; vector 0.
        doorbell.notify_peer((rank.0 + 1) << 16);
    }
}

/// A handler ends the world.
fn leave(code: u8) -> ! {
    if let Some(rank) = rank() {
        rank.leave(code);
    }
    console::exit(code)
}
