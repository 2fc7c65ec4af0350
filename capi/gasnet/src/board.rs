//! What ranks tell each other beside messages: the last bytes of each rank's segment, which programs
//! do not see.
//!
//! ```text
//! the end of a segment
//! ┌──────────────────┬───────────────┬───────────────┬───
//! │ facts: 4 KiB     │ table of team │ table of team │ …      each table has two sides
//! └──────────────────┴───────────────┴───────────────┴───
//!   side: step u64 · 56 bytes · data
//! ```
//!
//! A team's members exchange in steps. In step s each member puts its data on side s mod 2 of its own table and
//! then stores s there (E1); a member reads the others' when all have s (E2). Only then it begins s + 1. So who
//! writes step s + 2 over a side knows that all have begun s + 1, and have read what was there. Steps of a table only
//! grow, from team to team: who looks late, at a table that another team has by now, finds a greater number, which
//! counts, too. (The last step of a team has no data.)

use crate::die::die;
use hamr_comm::world::{AtomicOp, OutOfReach, RankId, SegAddr, WorldRef};

/// Where segments of programs begin and end.
pub(crate) const PAGE: u64 = 4096;
/// Bytes of the board.
pub(crate) const BYTES: u64 = 1 << 20;
/// Of each table.
const TABLE: u64 = 16 << 10;
/// Tables of a rank.
pub(crate) const TABLES: u32 = ((BYTES - PAGE) / TABLE) as u32;
/// Bytes that a rank can say in a step.
pub(crate) const STEP_BYTES: usize = TABLE as usize / 2 - 64;

/// What a rank states of itself.
#[derive(Clone, Copy)]
pub(crate) enum Fact {
    /// Its process.
    Pid = 0,
    /// The address of its segment there, and then the segment's length.
    Base = 8,
    Len = 16,
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

fn side(table: u32, step: u64) -> u64 {
    PAGE + u64::from(table) * TABLE + (step % 2) * (TABLE / 2)
}

/// This rank's part of a step: at most [`STEP_BYTES`].
pub(crate) fn say(world: &WorldRef<'_>, table: u32, step: u64, data: &[u8]) {
    let to = side(table, step);
    let at = at(world, world.me().0, to + 64);
    world.put(at.rank, at.off, data).unwrap_or_else(|why| outside(why));
    store(world, to, step); // E1, partner E2
}

/// Has a rank said its part?
pub(crate) fn has_said(world: &WorldRef<'_>, rank: u32, table: u32, step: u64) -> bool {
    load(world, rank, side(table, step)) >= step // E2, partner E1
}

/// What a rank said, behind [`has_said`].
pub(crate) fn hear(world: &WorldRef<'_>, rank: u32, table: u32, step: u64, to: &mut [u8]) {
    let at = at(world, rank, side(table, step) + 64);
    world.get(at.rank, at.off, to).unwrap_or_else(|why| outside(why));
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
