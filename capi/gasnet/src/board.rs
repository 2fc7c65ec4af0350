//! What ranks tell each other beside messages: the last bytes of each rank's segment, which programs
//! do not see.
//!
//! ```text
//! the end of a segment
//! ┌──────────────────┬───────────────┬───
//! │ facts: 4 KiB     │ scratch       │ scratch …      of teams (`hamr_gas::Team`)
//! └──────────────────┴───────────────┴───
//! ```

use crate::die::die;
use hamr_comm::world::{AtomicOp, OutOfReach, RankId, SegAddr, WorldRef};
use hamr_gas::Team;

/// Where segments of programs begin and end.
pub(crate) const PAGE: u64 = 4096;
/// Bytes of the board.
pub(crate) const BYTES: u64 = 1 << 20;
/// Scratches of a rank.
pub(crate) const SCRATCHES: u64 = (BYTES - PAGE) / Team::BYTES;

/// What a rank states of itself.
#[derive(Clone, Copy)]
pub(crate) enum Fact {
    /// Its process.
    Pid = 0,
    /// The address of its segment there, and the segment's length.
    Base = 8,
    Len = 16,
    /// Where the segment is in that of the world.
    Off = 32,
    /// 1 + its exit code, when it wants to exit.
    Exit = 24,
}

fn outside(why: OutOfReach) -> ! {
    die(&format!("the board of a rank: {why}"))
}

fn at(world: &WorldRef<'_>, rank: u32, off: u64) -> SegAddr {
    let len = segment_len(world, rank);
    match len.checked_sub(BYTES) {
        Some(begin) => SegAddr { rank: RankId(rank), off: begin + off },
        None => die(&format!("expected segments of more than {BYTES} bytes, got {len}")),
    }
}

fn load(world: &WorldRef<'_>, rank: u32, off: u64) -> u64 {
    world.atomic(at(world, rank, off), AtomicOp::<u64>::Load).unwrap_or_else(|why| outside(why))
}

fn store(world: &WorldRef<'_>, off: u64, value: u64) {
    let at = at(world, world.me().0, off);
    world.atomic(at, AtomicOp::Store(value)).unwrap_or_else(|why| outside(why));
}

pub(crate) fn fact(world: &WorldRef<'_>, rank: u32, fact: Fact) -> u64 {
    load(world, rank, fact as u64)
}

pub(crate) fn state(world: &WorldRef<'_>, fact: Fact, value: u64) {
    store(world, fact as u64, value);
}

/// Where a scratch of this rank is in its segment.
pub(crate) fn scratch(world: &WorldRef<'_>, number: u64) -> u64 {
    at(world, world.me().0, PAGE + number * Team::BYTES).off
}

/// Bytes of a rank's segment, with its board.
pub(crate) fn segment_len(world: &WorldRef<'_>, rank: u32) -> u64 {
    world.segment_address(RankId(rank)).map_or(0, |(_, len)| len)
}

/// Where a rank's segment, and its board, are in this process.
pub(crate) fn address(world: &WorldRef<'_>, rank: u32) -> (*mut u8, *mut u8) {
    match world.segment_address(RankId(rank)) {
        Ok((base, len)) if len > BYTES => (base.as_ptr(), base.as_ptr().wrapping_add((len - BYTES) as usize)),
        _ => die(&format!("expected segments of more than {} bytes", BYTES)),
    }
}
