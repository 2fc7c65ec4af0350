//! The zones of a shadow.

use super::merge::{Merge, Side, Strip};
use crate::dist::{Axis, Pieces, Width};
use crate::section::Triplet;

/// The zones of one dimension of the receiver, as strips from one sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zones<'a> {
    axis: &'a Axis<'a>,
    source: u32,
    target: u32,
    periodic: bool,
    /// All that the receiver does not own is its halo.
    full: bool,
    /// Otherwise the zone below its own part, and the one above.
    zones: [(i64, i64); 2],
    /// The zone whose strips are next, and how often the array's length is added to the sender's
    /// indices there.
    next: Zone,
    strips: Option<Merge<'a>>,
    halo: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Zone {
    Own,
    /// Everything that the receiver does not own.
    Others,
    Halo {
        side: usize,
        image: i64,
    },
    Done,
}

impl<'a> Zones<'a> {
    pub(super) fn new(axis: &'a Axis<'a>, source: u32, target: u32, width: Width, periodic: bool) -> Self {
        let own = axis.owned(target).bounds();
        let zones = match (width, own) {
            (Width::Of(below, above), Some(own)) => {
                // A full shadow ends where the array does.
                let held = axis.held(target);
                let (lo, hi) = (own.start - i64::from(below), own.end + i64::from(above));
                [(lo.max(held.start), own.start), (own.end, hi.min(held.end))]
            }
            _ => [(0, 0); 2],
        };
        // A cyclic dimension has no neighbourhood.
        let full = width == Width::Full || (axis.map.is_cyclic() && width != Width::NONE);
        Self { axis, source, target, periodic, full, zones, next: Zone::Own, strips: None, halo: false }
    }

    /// The images of the array that a zone reaches into: the first and the last one.
    fn images(&self, side: usize) -> (i64, i64) {
        let (len, (lo, hi)) = (self.axis.hi - self.axis.lo, self.zones[side]);
        if lo >= hi {
            return (0, -1);
        }
        if !self.periodic {
            return (0, 0);
        }
        ((lo - self.axis.lo).div_euclid(len), (hi - 1 - self.axis.lo).div_euclid(len))
    }

    /// The strips of the next zone.
    fn step(&mut self) -> Option<Merge<'a>> {
        let (mine, all) = (self.axis.owned(self.source), (self.axis.lo, self.axis.hi));
        let same = self.source == self.target;
        self.halo = self.next != Zone::Own;
        match self.next {
            Zone::Own => {
                self.next = if self.full { Zone::Others } else { Zone::Halo { side: 0, image: self.images(0).0 } };
                let own = if same { mine } else { Pieces::EMPTY };
                Some(self.strips(own, own, all, 0))
            }
            Zone::Others => {
                self.next = Zone::Done;
                let others = if same { Pieces::EMPTY } else { mine };
                Some(self.strips(others, others, all, 0))
            }
            Zone::Halo { side, image } if image > self.images(side).1 => {
                self.next = if side == 0 { Zone::Halo { side: 1, image: self.images(1).0 } } else { Zone::Done };
                self.step()
            }
            Zone::Halo { side, image } => {
                self.next = Zone::Halo { side, image: image + 1 };
                let zone = self.zones[side];
                Some(self.strips(Pieces::one(zone.0, zone.1), mine, zone, image))
            }
            Zone::Done => None,
        }
    }

    /// Indices of the sender that lie in a range of the receiver, `image` lengths of the array away.
    fn strips(&self, theirs: Pieces, mine: Pieces, range: (i64, i64), image: i64) -> Merge<'a> {
        let (first, len) = (range.0, range.1 - range.0);
        let away = image * (self.axis.hi - self.axis.lo);
        Merge::new(
            Side::new(self.axis, self.target, theirs, Triplet { first, len, step: 1 }),
            Side::new(self.axis, self.source, mine, Triplet { first: first - away, len, step: 1 }),
        )
    }
}

impl Iterator for Zones<'_> {
    type Item = Strip;

    fn next(&mut self) -> Option<Strip> {
        loop {
            if let Some(strip) = self.strips.as_mut().and_then(Iterator::next) {
                return Some(Strip { halo: self.halo, ..strip });
            }
            self.strips = Some(self.step()?);
        }
    }
}
