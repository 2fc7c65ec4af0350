//! The entries of a queue: where each is, and the word that says that it is there (abi §16.3; rules 1 to 5).

use crate::wire::{LINE, WORD};
use hamr_comm::abi::slot::{seq, seq_count, seq_tag};

/// A ring of 2^log2 entries. Positions count modulo 2^32 from its making.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ring {
    off: u64,
    log2: u8,
    lines: u8,
    tag: u8,
}

impl Ring {
    /// A ring at an offset that was checked, of entries of `lines` lines.
    pub const fn new(off: u64, log2: u8, lines: u8, tag: u8) -> Self {
        Self { off, log2, lines, tag }
    }

    /// How many entries there are.
    pub const fn entries(&self) -> u32 {
        1 << self.log2
    }

    /// Where the entry at a position is.
    pub const fn entry(&self, x: u32) -> u64 {
        self.off + LINE * self.lines as u64 * (x & (self.entries() - 1)) as u64
    }

    /// Where its published word is.
    pub const fn word(&self, x: u32) -> u64 {
        self.entry(x) + WORD
    }

    /// The value of that word when the entry is there: another one each time that the position comes to this entry.
    pub const fn expected(&self, x: u32) -> u32 {
        seq(self.tag, (x >> self.log2).wrapping_add(1), 24)
    }

    /// The word that says that the entries before a position were taken: of a ring of this generation.
    pub const fn taken(&self, x: u32) -> u32 {
        seq(self.tag, x, 24)
    }
}

/// A position in a ring, with what is looked at there again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    ring: Ring,
    position: u32,
    expected: u32,
    entry: u64,
}

impl Cursor {
    /// A position of a ring.
    pub const fn new(ring: Ring, position: u32) -> Self {
        Self { ring, position, expected: ring.expected(position), entry: ring.entry(position) }
    }

    /// So many positions on.
    pub const fn plus(&self, count: u32) -> Self {
        Self::new(self.ring, self.position.wrapping_add(count))
    }

    /// How many entries the ring has.
    pub const fn entries(&self) -> u32 {
        self.ring.entries()
    }

    /// The position.
    pub const fn position(&self) -> u32 {
        self.position
    }

    /// How many entries before it wait, as a word of [`Ring::taken`] says. `None`: of another generation, or of more than there
    /// are.
    pub fn waiting(&self, taken: u32) -> Option<u32> {
        let waiting = seq_count(self.position.wrapping_sub(seq_count(taken)));
        (seq_tag(taken) == self.ring.tag && waiting <= self.entries()).then_some(waiting)
    }

    /// Where its entry is.
    pub const fn entry(&self) -> u64 {
        self.entry
    }

    /// Where the published word of that is.
    pub const fn word(&self) -> u64 {
        self.entry + WORD
    }

    /// The value of that word when the entry is there.
    pub const fn expected(&self) -> u32 {
        self.expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// H20: at the ends of positions, laps and tags.
    #[test]
    fn no_entry_has_the_word_of_the_lap_before() {
        for log2 in [0, 1, 5, 9] {
            for tag in [1, 255] {
                let ring = Ring::new(0, log2, 1, tag);
                let near = |x: u32| (0..4 * ring.entries()).map(move |i| x.wrapping_add(i));
                for x in [0, 1 << 23, 1 << 24, 1 << 31, u32::MAX - 2 * ring.entries()].into_iter().flat_map(near) {
                    let next = x.wrapping_add(ring.entries());
                    assert_eq!(ring.entry(x), ring.entry(next));
                    assert_ne!(ring.expected(x), ring.expected(next), "2^{log2} entries, at {x:#x}");
                    assert_ne!(ring.expected(x), 0);
                }
            }
        }
    }
}
