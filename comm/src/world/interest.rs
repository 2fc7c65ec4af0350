//! Which ranks have published something for a rank of a large world (abi §13.4). Generic over the
//! words, so that the model checker runs this very code.
//!
//! ```text
//! rank d                                    rank r
//! publish a message in its lane at r        a group word is not zero: take it
//! set bit d of r's rank words               take the rank words of its bits
//! if it was clear or the group's bit is     look at the lanes of their bits
//! clear, set that
//! ```
//!
//! Where rank d finds its bit set, r has not taken that word since, and finds the group's bit, or has
//! taken it and is about to look at the word; or a task of d was ended between the two bits. Then the
//! group's bit is clear, unless another rank of the word has set it.

use super::RankSet;
use hamr_shared_abi::ids::RankId;
use hamr_shared_abi::sync::{AtomicU32, Ordering};
use hamr_shared_abi::window::Word;
use hamr_shared_abi::world::InterestWord;

/// A word of [`InterestWord`].
pub trait SharedBits: Copy {
    /// Relaxed load.
    fn load(self) -> u32;
    /// Sets bits, behind every earlier access. Returns what it was.
    fn set_bits(self, bits: u32) -> u32;
    /// Clears it, before every later access. Returns what it was.
    fn take_bits(self) -> u32;
}

impl SharedBits for Word<'_> {
    #[inline(always)]
    fn load(self) -> u32 {
        Word::load(self)
    }
    #[inline(always)]
    fn set_bits(self, bits: u32) -> u32 {
        Word::set_bits(self, bits)
    }
    #[inline(always)]
    fn take_bits(self) -> u32 {
        Word::take_bits(self)
    }
}

/// For models, whose words are no window's.
impl SharedBits for &AtomicU32 {
    fn load(self) -> u32 {
        AtomicU32::load(self, Ordering::Relaxed)
    }
    fn set_bits(self, bits: u32) -> u32 {
        self.fetch_or(bits, Ordering::AcqRel)
    }
    fn take_bits(self) -> u32 {
        self.swap(0, Ordering::AcqRel)
    }
}

/// Says that rank `me` has published something, in the words of the rank that is to find it.
#[inline(always)]
pub fn announce<W: SharedBits>(me: RankId, word: impl Fn(InterestWord) -> Option<W>) {
    let at = me.0 / 32;
    let bit = 1 << (me.0 % 32);
    let groups_bit = 1 << (at % 32);
    // I1, of which I2 is the other end.
    if let (Some(ranks), Some(group)) = (word(InterestWord::Ranks(at)), word(InterestWord::Group(at / 32)))
        && (ranks.set_bits(bit) & bit == 0 || group.load() & groups_bit == 0)
    {
        // I3, of which I4 is the other end.
        group.set_bits(groups_bit);
    }
}

/// Adds who has announced something in this rank's words since the last time. `groups`: group words in
/// use, all that is looked at where none has.
#[inline(always)]
pub fn collect<W: SharedBits>(groups: u32, word: impl Fn(InterestWord) -> Option<W>, to: &mut RankSet) {
    for at in 0..groups {
        if let Some(group) = word(InterestWord::Group(at))
            && group.load() != 0
        {
            // I4.
            let mut bits = group.take_bits();
            while bits != 0 {
                let ranks = at * 32 + bits.trailing_zeros();
                bits &= bits - 1;
                // I2: behind I4.
                to.insert_word(ranks, word(InterestWord::Ranks(ranks)).map_or(0, SharedBits::take_bits));
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::cell::Cell;

    /// A word, and how many of the next changes are made before the task is ended.
    #[derive(Clone, Copy)]
    struct Bits<'b>(&'b Cell<u32>, &'b Cell<u32>);

    impl SharedBits for Bits<'_> {
        fn load(self) -> u32 {
            self.0.get()
        }
        fn set_bits(self, bits: u32) -> u32 {
            let before = self.0.get();
            if self.1.get() != 0 {
                self.1.set(self.1.get() - 1);
                self.0.set(before | bits);
            }
            before
        }
        fn take_bits(self) -> u32 {
            self.0.replace(0)
        }
    }

    /// On bare metal a task may be ended between the two words in which it announces a message.
    #[test]
    fn an_announcement_after_one_that_was_ended_is_found() {
        for changes in 0..=2 {
            let (group, ranks, left) = (Cell::new(0), Cell::new(0), Cell::new(changes));
            let word = |word| match word {
                InterestWord::Group(0) => Some(Bits(&group, &left)),
                InterestWord::Ranks(0) => Some(Bits(&ranks, &left)),
                _ => None,
            };
            announce(RankId(3), word);
            left.set(u32::MAX);
            announce(RankId(3), word);
            let mut found = RankSet::EMPTY;
            collect(1, word, &mut found);
            assert_eq!(found.next(0), Some(RankId(3)), "ended after {changes} changes");
        }
    }
}
