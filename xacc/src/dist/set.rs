//! Sets of ranks.

use crate::int::Int;

/// Ranks of a world: an executing set, or a part of it. The members of a set are numbered from 0 in
/// the order of their ranks; a program sees the numbers, a world the ranks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct NodeSet(u64);

/// Ranks of a world that programs run on: a set is one word.
pub(crate) const MOST_RANKS: usize = u64::BITS as usize;

impl NodeSet {
    /// No rank.
    pub const EMPTY: Self = Self(0);

    /// The ranks from 0 to `n` - 1, 64 at most.
    pub const fn of_world(n: u32) -> Self {
        Self(if n < u64::BITS { (1 << n) - 1 } else { u64::MAX })
    }

    /// One rank, or none where there is no such rank.
    pub fn one(rank: impl Int) -> Self {
        let rank = rank.number();
        Self(if (0..i64::from(u64::BITS)).contains(&rank) { 1 << rank } else { 0 })
    }

    /// Bit r: rank r is a member.
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Members.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// No member.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// This rank is a member.
    pub fn contains(self, rank: impl Int) -> bool {
        self.0 & Self::one(rank).0 != 0
    }

    /// All members are members of the other set, too.
    pub const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Members of one or the other.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Members of both.
    #[must_use]
    pub const fn shared(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The rank of a member.
    pub fn rank(self, number: impl Int) -> Option<u32> {
        let number = u32::try_from(number.number()).ok()?;
        // Most sets are a world, or its first ranks.
        if self.0 & self.0.wrapping_add(1) == 0 {
            return (number < self.len()).then_some(number);
        }
        self.ranks().nth(number as usize)
    }

    /// The number of a rank among the members.
    pub fn number(self, rank: u32) -> Option<u32> {
        if !self.contains(rank) {
            return None;
        }
        Some((self.0 & ((1 << rank) - 1)).count_ones())
    }

    /// The ranks of the members, ascending.
    pub fn ranks(self) -> impl Iterator<Item = u32> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let rank = left.trailing_zeros();
            left &= left.checked_sub(1)?;
            Some(rank)
        })
    }
}

impl<R: Int> FromIterator<R> for NodeSet {
    fn from_iter<I: IntoIterator<Item = R>>(ranks: I) -> Self {
        ranks.into_iter().fold(Self::EMPTY, |set, rank| set.with(Self::one(rank)))
    }
}
