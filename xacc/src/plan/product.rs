//! Copies of several dimensions.

use super::copy::Copy;
use super::merge::{Merge, Strip};
use super::zones::Zones;

/// The strips of one dimension.
#[derive(Clone, Copy, Debug)]
pub(super) enum Strips<'a> {
    Common(Merge<'a>),
    Zones(Zones<'a>),
}

impl Strips<'_> {
    pub(super) const NONE: Self = Self::Common(Merge::NONE);
}

impl Iterator for Strips<'_> {
    type Item = Strip;

    fn next(&mut self) -> Option<Strip> {
        match self {
            Self::Common(merge) => merge.next(),
            Self::Zones(zones) => zones.next(),
        }
    }
}

/// Which combinations of strips are copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Only {
    All,
    /// At least one is of a halo.
    Halo,
    /// Exactly one is.
    Orthogonal,
}

/// What the copies from one rank to another are made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a, const N: usize> {
    pub(super) strips: [Strips<'a>; N],
    /// Elements from place to place: destination and source.
    pub(super) pitches: [(usize, usize); N],
    /// Where the source begins.
    pub(super) from: i64,
}

/// The copies from one rank to another.
#[derive(Clone, Debug)]
pub struct Copies<'a, const N: usize> {
    all: Parts<'a, N>,
    /// Of each dimension the current strip, and those behind it.
    strips: [Strip; N],
    left: [Strips<'a>; N],
    only: Only,
    done: bool,
}

impl<'a, const N: usize> Copies<'a, N> {
    /// `None` has no copies.
    pub(super) fn new(parts: Option<Parts<'a, N>>, only: Only) -> Self {
        let all = parts.unwrap_or(Parts { strips: [Strips::NONE; N], pitches: [(0, 0); N], from: 0 });
        let mut copies = Self { all, strips: [Strip::default(); N], left: all.strips, only, done: false };
        copies.done = !(0..N).all(|dim| copies.start(dim));
        copies
    }

    /// Goes to the first strip of a dimension.
    fn start(&mut self, dim: usize) -> bool {
        self.left[dim] = self.all.strips[dim];
        self.advance(dim)
    }

    fn advance(&mut self, dim: usize) -> bool {
        let next = self.left[dim].next();
        self.strips[dim] = next.unwrap_or_default();
        next.is_some()
    }

    fn next_combination(&mut self) {
        for dim in (0..N).rev() {
            if self.advance(dim) {
                return;
            }
            self.start(dim);
        }
        self.done = true;
    }
}

impl<const N: usize> Iterator for Copies<'_, N> {
    type Item = Copy;

    fn next(&mut self) -> Option<Copy> {
        while !self.done {
            let halos = self.strips.iter().filter(|strip| strip.halo).count();
            let wanted = match self.only {
                Only::All => true,
                Only::Halo => halos > 0,
                Only::Orthogonal => halos == 1,
            };
            let copy = wanted.then(|| {
                let mut copy = Copy::one(0, self.all.from);
                for (strip, (to, from)) in self.strips.iter().zip(self.all.pitches).rev() {
                    copy.extend(strip, to, from);
                }
                copy
            });
            self.next_combination();
            if copy.is_some() {
                return copy;
            }
        }
        None
    }
}
