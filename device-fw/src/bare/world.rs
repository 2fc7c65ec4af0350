//! An image that is a rank of a world (abi §13): feature `world`.

use super::runtime::RUNTIME;
use super::{CANNOT_START, console};
use crate::rank::Rank;
use hamr_comm::abi::ids::RankId;
use hamr_comm::abi::window::DeviceWindow;
use hamr_comm::abi::world::WorldLayout;

/// The window that the image serves, of the memory behind the function: all of it, or where that is
/// a world, a rank's home. `position` is the image's number among those that share the memory.
pub(crate) fn join(memory: DeviceWindow<()>, position: u32) -> DeviceWindow<()> {
    if !WorldLayout::is_there(&memory) {
        return memory;
    }
    // The launcher has number 0.
    match Rank::join(memory, RankId(position.wrapping_sub(1)), exit) {
        Ok((home, rank)) => {
            RUNTIME.rank.call_once(|| rank);
            home
        }
        Err(why) => {
            console::line(format_args!("hamr image: it cannot join its world: {why}"));
            console::exit(CANNOT_START)
        }
    }
}

/// Ends the image when the launcher has asked every rank to end.
pub(super) fn check() {
    if RUNTIME.rank.get().is_some_and(Rank::is_ending) {
        console::exit(0);
    }
}

/// Is this image a rank?
pub(super) fn is_rank() -> bool {
    RUNTIME.rank.get().is_some()
}

/// A handler ends the world.
fn exit(code: u8) -> ! {
    if let Some(rank) = RUNTIME.rank.get() {
        rank.leave(code);
    }
    console::exit(code)
}
