//! What ranks tell each other beside messages: the last bytes of each rank's segment, which programs
//! do not see.
//!
//! ```text
//! the end of a segment
//! ┌──────────────────┬───────────────┬───
//! │ facts: 4 KiB     │ scratch       │ scratch …      of teams (`hamr_gas::Team`)
//! └──────────────────┴───────────────┴───
//! ```
//!
//! Facts are reached by their address, which is mapped as long as the process, and never through the task: a
//! handler of a signal uses them whatever it has interrupted. Other ranks can write there what they like, so a
//! fact is a claim of its rank about itself.

#![expect(unsafe_code)]
// UNSAFETY: words in memory that other processes map, and advice about it.

use crate::die::die;
use hamr_comm::abi::sync::{AtomicU64, Ordering};
use hamr_comm::world::{RankId, WorldRef};
use hamr_gas::Team;
use std::sync::OnceLock;

/// Where segments of programs begin and end.
pub(crate) const PAGE: u64 = 4096;
/// Bytes of the board.
pub(crate) const BYTES: u64 = 1 << 20;
/// Scratches of a rank.
pub(crate) const SCRATCHES: u64 = (BYTES - PAGE) / Team::BYTES;

/// What a rank states of itself.
#[derive(Clone, Copy)]
pub(crate) enum Fact {
    /// The address of its segment there, and the segment's length.
    Base = 8,
    Len = 16,
    /// 1: it wants to exit, or does not mind.
    Exit = 24,
    /// Where the segment is in that of the world.
    Off = 32,
    /// Of rank 0, for the job: 1 + the first exit code that a rank has stated.
    Code = 40,
    /// 1: this rank exits, or another asks it to. The upper half of a word is 0.
    Ask = 48,
}

/// Of each rank.
struct Boards(Vec<*mut u8>);

// SAFETY: the pointers lead to words that are used by atomics alone (`word`).
unsafe impl Send for Boards {}
// SAFETY: as above.
unsafe impl Sync for Boards {}

static BOARDS: OnceLock<Boards> = OnceLock::new();
static ME: OnceLock<u32> = OnceLock::new();

/// Finds the boards, before `main`, and leaves segments out of cores: they may be most of the machine's memory.
pub(crate) fn find(world: &WorldRef<'_>) {
    let board = |rank| {
        let (segment, board) = address(world, rank);
        // SAFETY: pages that stay mapped (`word`), of which the advice changes nothing.
        unsafe { libc::madvise(segment.cast(), segment_len(world, rank) as usize, libc::MADV_DONTDUMP) };
        board
    };
    let _ = BOARDS.set(Boards((0..world.size()).map(board).collect()));
    let _ = ME.set(world.me().0);
}

/// A word of a rank's board; `None`: there is no such rank, or no board yet.
pub(crate) fn word(rank: u32, fact: Fact) -> Option<&'static AtomicU64> {
    let at = BOARDS.get()?.0.get(rank as usize)?.wrapping_add(fact as usize);
    // SAFETY: a board is at the end of a segment, which is at pages and stays mapped; it has so many bytes, and nothing
    // but these atomics uses its facts.
    Some(unsafe { AtomicU64::from_ptr(at.cast()) })
}

/// How many boards there are.
pub(crate) fn ranks() -> u32 {
    BOARDS.get().map_or(0, |boards| boards.0.len() as u32)
}

pub(crate) fn fact(rank: u32, fact: Fact) -> u64 {
    word(rank, fact).map_or(0, |word| word.load(Ordering::SeqCst)) // X2, partner X1
}

/// A word of this rank's board.
pub(crate) fn my_word(fact: Fact) -> Option<&'static AtomicU64> {
    ME.get().and_then(|me| word(*me, fact))
}

/// A fact of this rank.
pub(crate) fn mine(of: Fact) -> u64 {
    ME.get().map_or(0, |me| fact(*me, of))
}

/// States a fact of this rank.
pub(crate) fn state(fact: Fact, value: u64) {
    if let Some(word) = my_word(fact) {
        word.store(value, Ordering::SeqCst); // X1, partner X2
    }
}

/// Where a scratch of this rank is in its segment.
pub(crate) fn scratch(world: &WorldRef<'_>, number: u64) -> u64 {
    match segment_len(world, world.me().0).checked_sub(BYTES) {
        Some(begin) => begin + PAGE + number * Team::BYTES,
        None => too_short(),
    }
}

/// Bytes of a rank's segment, with its board.
pub(crate) fn segment_len(world: &WorldRef<'_>, rank: u32) -> u64 {
    world.segment_address(RankId(rank)).map_or(0, |(_, len)| len)
}

/// Where a rank's segment, and its board, are in this process.
pub(crate) fn address(world: &WorldRef<'_>, rank: u32) -> (*mut u8, *mut u8) {
    match world.segment_address(RankId(rank)) {
        Ok((base, len)) if len > BYTES => (base.as_ptr(), base.as_ptr().wrapping_add((len - BYTES) as usize)),
        _ => too_short(),
    }
}

fn too_short() -> ! {
    die(&format!("expected segments of more than {BYTES} bytes; --segment of hamr run sets them"))
}
