//! Who sends to whom.

use std::fmt;

/// A traffic pattern. Ranks below the number of active ones send; the others are there, and only receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Neighbours send to each other.
    Pairs,
    /// Each to the next.
    Chain,
    /// Even ranks send to the next, odd ones only poll.
    OddPoll,
    /// In turn to the 6 neighbours in a box.
    Neighbours,
    /// To one partner, and after 4,096 messages to another.
    Rotating,
    /// So many ranks to rank 0.
    Incast(u32),
    /// To any rank, at random.
    Uniform,
}

/// Messages to one partner of [`Pattern::Rotating`].
const TURN: u32 = 4096;

impl Pattern {
    /// All that `cargo xtask credits` runs.
    pub const ALL: [Self; 8] = [
        Self::Pairs,
        Self::Chain,
        Self::OddPoll,
        Self::Neighbours,
        Self::Rotating,
        Self::Incast(64),
        Self::Incast(1000),
        Self::Uniform,
    ];

    /// How many of `ranks` ranks take part, and how many messages each of them sends, so that a run has about `budget`
    /// messages, and at least what the pattern needs to show itself.
    pub fn size(self, ranks: u32, budget: u64) -> (u32, u32) {
        let messages = match self {
            Self::Incast(senders) => {
                return ((senders + 1).min(ranks), (budget / u64::from(senders)).clamp(64, 4096) as u32);
            }
            Self::Rotating => 3 * TURN,
            Self::Uniform => 32,
            _ => (budget / u64::from(ranks)).clamp(256, 1024) as u32,
        };
        let active = u64::from(ranks).min((budget / u64::from(messages)).max(16));
        (active as u32 & !1, messages)
    }

    /// Where the message `number` of `rank` goes; `None` for a rank that sends nothing.
    pub(crate) fn to(self, rank: u32, number: u32, ranks: u32, active: u32, seed: u64) -> Option<u32> {
        let ahead = |by: u32| (rank + by % active) % active;
        if rank >= active {
            return None;
        }
        match self {
            Self::Pairs => Some(rank ^ 1),
            Self::Chain => Some(ahead(1)),
            Self::OddPoll => rank.is_multiple_of(2).then(|| rank + 1),
            Self::Neighbours => {
                let row = 1 << (active.ilog2() / 3);
                let by = [1, row, row * row][number as usize % 3];
                Some(ahead(if (number / 3).is_multiple_of(2) { by } else { active - by % active }))
            }
            Self::Rotating => Some(ahead(1 + number / TURN)),
            Self::Incast(_) => (rank > 0).then_some(0),
            Self::Uniform => {
                let random = splitmix64(seed ^ u64::from(rank) << 32 ^ u64::from(number));
                let to = (random % u64::from(ranks - 1)) as u32;
                Some(if to >= rank { to + 1 } else { to })
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pairs => f.pad("pairs"),
            Self::Chain => f.pad("chain"),
            Self::OddPoll => f.pad("odd ranks poll"),
            Self::Neighbours => f.pad("6 neighbours"),
            Self::Rotating => f.pad("rotating partner"),
            Self::Incast(senders) => f.pad(&format!("{senders} to 1")),
            Self::Uniform => f.pad("uniform random"),
        }
    }
}

/// The number that SplitMix64 makes of a state.
pub(crate) fn splitmix64(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_goes_to_another_rank() {
        for pattern in Pattern::ALL {
            let ranks = 2000;
            let (active, _) = pattern.size(ranks, 1_000_000);
            for (rank, number) in [(0, 0), (1, 5), (17, 4096), (active - 1, 11), (active, 0)] {
                let to = pattern.to(rank, number, ranks, active, 1);
                assert!(to.is_none_or(|to| to < ranks && to != rank), "{pattern}: {rank} to {to:?}");
            }
        }
    }
}
