//! Packet sequence numbers.

use crate::packet::MASK;

/// A packet sequence number: 24 bits, which wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Psn(u32);

impl Psn {
    /// The low 24 bits.
    pub const fn new(number: u32) -> Self {
        Self(number & MASK)
    }

    /// Its bits.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The one that is so much later.
    pub const fn plus(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// The one before.
    pub const fn before(self) -> Self {
        Self::new(self.0.wrapping_sub(1))
    }

    /// By how much it is later than another one: -2^23 to 2^23 - 1.
    pub const fn since(self, other: Self) -> i32 {
        (self.0.wrapping_sub(other.0) << 8).cast_signed() >> 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_at_24_bits() {
        for (a, b, since) in [(0, MASK, 1), (MASK, 0, -1), (1 << 23, 0, -(1 << 23)), ((1 << 23) - 1, 0, (1 << 23) - 1)]
        {
            assert_eq!(Psn::new(a).since(Psn::new(b)), since);
        }
        assert_eq!((Psn::new(MASK).plus(2), Psn::new(0).before()), (Psn::new(1), Psn::new(MASK)));
        assert_eq!(Psn::new(u32::MAX), Psn::new(MASK));
    }
}
