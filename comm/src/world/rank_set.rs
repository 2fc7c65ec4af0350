//! Sets of ranks, and lists with an entry per rank.

use super::MOST_RANKS;
use hamr_shared_abi::ids::RankId;

const WORDS: usize = MOST_RANKS.div_ceil(32);
const GROUPS: usize = WORDS.div_ceil(32);

/// A list in the order of the ranks. Images have room for few.
#[cfg(hamr_bare)]
pub type PerRank<T> = heapless::Vec<T, MOST_RANKS>;
/// A list in the order of the ranks.
#[cfg(not(hamr_bare))]
pub type PerRank<T> = alloc::vec::Vec<T>;

/// Adds the entry of the next rank. A world with more than there is room for was refused before.
pub fn push<T>(list: &mut PerRank<T>, value: T) {
    #[cfg(hamr_bare)]
    let _ = list.push(value);
    #[cfg(not(hamr_bare))]
    list.push(value);
}

/// A set of ranks, in which a member is found without a look at the others.
#[derive(Clone, Debug)]
pub struct RankSet {
    /// Bit b of word g: word 32 g + b of the others has a member.
    groups: [u32; GROUPS],
    /// Bit b of word w: rank 32 w + b.
    ranks: [u32; WORDS],
}

impl RankSet {
    /// No rank.
    pub const EMPTY: Self = Self { groups: [0; GROUPS], ranks: [0; WORDS] };

    /// Has it no member?
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.groups.iter().all(|group| *group == 0)
    }

    /// Adds a rank.
    #[inline(always)]
    pub fn insert(&mut self, rank: RankId) {
        self.insert_word(rank.0 / 32, 1 << (rank.0 % 32));
    }

    /// Adds the ranks of the bits of a word: bit b is rank 32 `word` + b.
    #[inline(always)]
    pub fn insert_word(&mut self, word: u32, bits: u32) {
        let (group, ranks) = (self.groups.get_mut(word as usize / 32), self.ranks.get_mut(word as usize));
        if let (Some(group), Some(ranks)) = (group, ranks)
            && bits != 0
        {
            *ranks |= bits;
            *group |= 1 << (word % 32);
        }
    }

    /// Removes a rank.
    pub fn remove(&mut self, rank: RankId) {
        let word = rank.0 as usize / 32;
        if let (Some(group), Some(ranks)) = (self.groups.get_mut(word / 32), self.ranks.get_mut(word)) {
            *ranks &= !(1 << (rank.0 % 32));
            if *ranks == 0 {
                *group &= !(1 << (word % 32));
            }
        }
    }

    /// The first member from `from` on.
    pub fn next(&self, from: u32) -> Option<RankId> {
        let (word, behind) = (from / 32, u32::MAX << (from % 32));
        let here = self.ranks.get(word as usize)? & behind;
        if here != 0 {
            return Some(RankId(word * 32 + here.trailing_zeros()));
        }
        let (group, behind) = ((word + 1) / 32, u32::MAX << ((word + 1) % 32));
        let mut mask = behind;
        for (at, bits) in (group..).zip(self.groups.get(group as usize..)?) {
            let bits = bits & core::mem::replace(&mut mask, u32::MAX);
            if bits != 0 {
                let word = at * 32 + bits.trailing_zeros();
                let bits = self.ranks.get(word as usize)?;
                return Some(RankId(word * 32 + bits.trailing_zeros()));
            }
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn members(set: &RankSet) -> alloc::vec::Vec<u32> {
        let mut all = alloc::vec::Vec::new();
        let mut from = 0;
        while let Some(rank) = set.next(from) {
            all.push(rank.0);
            from = rank.0 + 1;
        }
        all
    }

    #[test]
    fn a_set_has_what_was_put_in_and_not_removed() {
        let mut set = RankSet::EMPTY;
        let ranks = [0, 1, 31, 32, 63, 64, 1023, 1024, 2047, 3333, 4094];
        ranks.iter().for_each(|rank| set.insert(RankId(*rank)));
        assert_eq!(members(&set), ranks);
        for (n, rank) in ranks.iter().enumerate() {
            assert!(!set.is_empty());
            set.remove(RankId(*rank));
            assert_eq!(members(&set), ranks[n + 1..]);
        }
        assert!(set.is_empty());
        set.insert_word(127, 3);
        set.insert_word(128, 1);
        set.insert_word(5, 0);
        assert_eq!(members(&set), [4064, 4065], "no rank that there cannot be");
        set.insert(RankId(u32::MAX));
        set.remove(RankId(u32::MAX));
        assert_eq!((members(&set).len(), set.next(u32::MAX)), (2, None));
    }
}
