//! INTEREST (abi §13.4): in a large world a rank does not look at the lanes of all others. Who has
//! published something in a lane for it says so here.
//!
//! ```text
//! part of rank r    of calls      a line of group words, then a word for 32 ranks each
//!                   of messages   the same
//! ```

use super::{MAX_RANKS, Range};
use crate::ids::RankId;
use crate::slot::SLOT_BYTES;

const LINE: u64 = SLOT_BYTES as u64;
/// Words of a bit per rank that a world of [`MAX_RANKS`] has: a whole number of lines.
pub const RANK_WORDS: u32 = MAX_RANKS.div_ceil(32) as u32;
/// A line of group words, and the lines behind it.
const HALF: u64 = LINE + RANK_WORDS as u64 * 4;

/// What is announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Announced {
    /// A call between ranks, in PEERS.
    Call,
    /// A message or reply of GASNet's interface, in GAS.
    Message,
}

/// A word of a rank's part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InterestWord {
    /// Bit b of word g: there is something in the word 32 g + b of the other kind.
    Group(u32),
    /// Bit b of word w: rank 32 w + b has published something.
    Ranks(u32),
}

/// Where the parts of all ranks are, planned or checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterestLayout {
    pub(super) at: u64,
    pub(super) ranks: u32,
}

impl InterestLayout {
    /// Bytes of all parts.
    pub(super) const fn bytes(&self) -> u64 {
        self.ranks as u64 * 2 * HALF
    }

    /// Where the parts are.
    pub fn range(&self) -> Range {
        Range { off: self.at, len: self.bytes() }
    }

    /// Group words in use.
    pub const fn groups(&self) -> u32 {
        self.ranks.div_ceil(32 * 32)
    }

    /// A word of rank `of`.
    pub fn word(&self, of: RankId, what: Announced, word: InterestWord) -> Option<u64> {
        let (line, word, words) = match word {
            InterestWord::Group(group) => (0, group, RANK_WORDS.div_ceil(32)),
            InterestWord::Ranks(ranks) => (LINE, ranks, RANK_WORDS),
        };
        let half = u64::from(of.0) * 2 + u64::from(what == Announced::Message);
        (of.0 < self.ranks && word < words).then(|| self.at + half * HALF + line + u64::from(word) * 4)
    }
}
