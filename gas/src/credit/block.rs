//! What lender and borrower say to each other.

/// Slots of a block.
pub const SLOTS: u32 = 32;
/// Blocks of one lease, at most.
pub const RUN_MAX: u8 = 8;
/// Blocks of one bank, at most.
pub const BANK_MAX: u8 = 64;

/// Neighbouring blocks of a bank, lent together and returned together. The tag is the epoch of their slots: two
/// leases of one block, one after the other, differ in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    first: u8,
    blocks: u8,
    tag: u8,
}

impl Lease {
    /// The lease of `blocks` blocks from `first` on; `None` where no bank has these, and for tag 0.
    pub const fn new(first: u8, blocks: u8, tag: u8) -> Option<Self> {
        let fits = first < BANK_MAX && blocks <= BANK_MAX - first;
        if blocks == 0 || blocks > RUN_MAX || !fits || tag == 0 {
            return None;
        }
        Some(Self { first, blocks, tag })
    }

    /// The first block.
    pub const fn first(self) -> u8 {
        self.first
    }

    /// Its blocks, ascending.
    pub fn blocks(self) -> core::ops::Range<u8> {
        self.first..self.first + self.blocks
    }

    /// The epoch of its slots, 1 to 255.
    pub const fn tag(self) -> u8 {
        self.tag
    }

    /// How many messages fit at a time.
    pub const fn credits(self) -> u32 {
        self.blocks as u32 * SLOTS
    }
}

/// How many credits a sender would like to have beyond what it has: a code of 3 bits that travels with a message.
/// 0 asks for nothing, k for 2^(k + 1) credits, so at most 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Need(u8);

impl Need {
    /// Nothing is asked for.
    pub const NONE: Self = Self(0);

    /// The smallest code for at least `credits`, or the greatest code.
    pub const fn of(credits: u32) -> Self {
        let mut code = 0;
        while code < 7 && (code == 0 && credits > 0 || code > 0 && 2 << code < credits) {
            code += 1;
        }
        Self(code)
    }

    /// The need with this code; bits above the third do not count.
    pub const fn from_code(code: u8) -> Self {
        Self(code & 7)
    }

    /// The code, below 8.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Whether nothing is asked for.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The blocks that have so many credits, 0 to 8.
    pub const fn blocks(self) -> u8 {
        if self.0 == 0 { 0 } else { (2u32 << self.0).div_ceil(SLOTS) as u8 }
    }
}

/// A message of the library that a side wants to send. It goes in the pair's own lane, as an active message that is
/// answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notice {
    /// Lender: these blocks are lent to you. Answered with [`Borrower::offered`](super::Borrower::offered).
    Grant(Lease),
    /// Lender: drain and return this. Answered with [`Borrower::recalled`](super::Borrower::recalled).
    Recall(Lease),
    /// Borrower: the lease is drained.
    Return(Lease),
    /// Borrower: credits before the first message. Answered as a message with that need.
    Ask(Need),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_is_the_next_power_of_two() {
        let codes = [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3), (64, 5), (65, 6), (129, 7), (256, 7), (9999, 7)];
        for (credits, code) in codes {
            assert_eq!(Need::of(credits), Need(code), "{credits}");
        }
        let blocks: [u8; 8] = core::array::from_fn(|code| Need::from_code(code as u8).blocks());
        assert_eq!(blocks, [0, 1, 1, 1, 1, 2, 4, 8]);
    }

    #[test]
    fn a_lease_lies_in_a_bank() {
        assert_eq!(Lease::new(56, 8, 1).map(Lease::blocks), Some(56..64));
        for (first, blocks, tag) in [(57, 8, 1), (64, 1, 1), (0, 9, 1), (0, 0, 1), (0, 1, 0), (255, 8, 1)] {
            assert_eq!(Lease::new(first, blocks, tag), None, "{first} {blocks} {tag}");
        }
    }
}
