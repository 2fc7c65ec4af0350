//! The PEERS part of a rank (abi §13.3): what the other ranks write for it. The parts are in front of
//! the homes, so no heap, whose views are references, can cover one.
//!
//! ```text
//! part of rank r    barrier   a line per round; line k is written by rank (r - 2^k) mod N
//!                   signals   lines of 16 words per rank; those at d are written by rank d
//!                   lanes     a queue pair per rank: requests from rank d, replies from r
//! ```

use super::Range;
use crate::ids::RankId;
use crate::queue::QueueDescriptor;
use crate::slot::SLOT_BYTES;

const LINE: u64 = SLOT_BYTES as u64;
/// Rounds of a barrier of 64 ranks, and of more.
const ROUNDS: [u32; 2] = [6, 12];
/// Lines of signal words per pair of ranks, as launchers lay them out.
pub const SIGNAL_LINES: u32 = 2;
/// Such lines at most.
pub const MAX_SIGNAL_LINES: u32 = 16;
/// Words in a line.
const WORDS: u32 = 16;
/// Ring slots of a lane.
pub const LANE_RING: u32 = 16;
/// Ticket slots of a lane: a rank runs so many tasks, if it is not told otherwise.
pub const LANE_TICKETS: u32 = 16;
/// Bytes of each of its chunks.
pub const LANE_CHUNK: u32 = 256;
/// A hot slot, the ring and the tickets.
const LANE_SLOTS: u64 = 1 + LANE_RING as u64 + LANE_TICKETS as u64;
const LANE_BYTES: u64 = LANE_SLOTS * (LINE + 2 * LANE_CHUNK as u64);

/// Where the parts of all ranks are, planned or checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeersLayout {
    pub(super) at: u64,
    pub(super) ranks: u32,
    pub(super) signal_lines: u32,
}

impl PeersLayout {
    /// Bytes of all parts.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.ranks) * self.part_bytes()
    }

    fn part_bytes(&self) -> u64 {
        self.words_bytes() + u64::from(self.ranks) * LANE_BYTES
    }

    fn barrier_rounds(&self) -> u32 {
        barrier_rounds(self.ranks)
    }

    /// Of barrier and signals.
    fn words_bytes(&self) -> u64 {
        (u64::from(self.barrier_rounds()) + u64::from(self.ranks) * u64::from(self.signal_lines)) * LINE
    }

    fn part(&self, of: RankId) -> Option<u64> {
        (of.0 < self.ranks).then(|| self.at + u64::from(of.0) * self.part_bytes())
    }

    /// Words from one rank to another.
    pub fn signal_words(&self) -> u32 {
        self.signal_lines * WORDS
    }

    /// The word of a round in which rank `of` waits.
    pub fn barrier_word(&self, of: RankId, round: u32) -> Option<u64> {
        let part = self.part(of).filter(|_| round < self.barrier_rounds())?;
        Some(part + u64::from(round) * LINE)
    }

    /// A signal word of rank `of`, written by rank `from`.
    pub fn signal_word(&self, of: RankId, from: RankId, word: u32) -> Option<u64> {
        let part = self.part(of).filter(|_| from.0 < self.ranks && word < self.signal_words())?;
        let lines = self.barrier_rounds() + from.0 * self.signal_lines;
        Some(part + u64::from(lines) * LINE + u64::from(word) * 4)
    }

    /// Barrier and signal words of rank `of`.
    pub fn words(&self, of: RankId) -> Option<Range> {
        self.part(of).map(|off| Range { off, len: self.words_bytes() })
    }

    /// The queue pair in which rank `from` calls rank `of`.
    pub fn lane(&self, of: RankId, from: RankId) -> Option<QueueDescriptor> {
        let part = self.part(of).filter(|_| from.0 < self.ranks)?;
        let base = part + self.words_bytes() + u64::from(from.0) * LANE_BYTES;
        Some(QueueDescriptor {
            req_base: base,
            rep_base: base,
            chunks: base + LANE_SLOTS * LINE,
            hot: 0,
            ring: SLOT_BYTES as u32,
            ring_len: LANE_RING,
            tickets: (1 + LANE_RING) * SLOT_BYTES as u32,
            ticket_slots: LANE_TICKETS,
            req_chunk: LANE_CHUNK,
            rep_chunk: LANE_CHUNK,
            depth: 0,
            poller: 0,
            reserved: 0,
        })
    }
}

/// Rounds of a barrier that there are lines for.
pub(super) const fn barrier_rounds(ranks: u32) -> u32 {
    ROUNDS[(ranks > 64) as usize]
}
