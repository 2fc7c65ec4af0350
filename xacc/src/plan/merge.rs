//! The common indices of two nodes along one dimension.

use crate::dist::{Axis, Pieces};
use crate::section::Triplet;
use core::ops::Range;

/// One side of a transfer along one dimension: position `t` stands for index `first + t * step`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side<'a> {
    /// The indices that take part.
    pieces: Pieces,
    section: Triplet,
    /// `None`: index `i` has place `i - base`.
    scattered: Option<&'a Axis<'a>>,
    base: i64,
}

impl<'a> Side<'a> {
    /// Some indices of a section in the block of the nodes with this coordinate.
    pub(super) fn new(axis: &'a Axis<'a>, at: u32, pieces: Pieces, section: Triplet) -> Self {
        let held = axis.held(at).start;
        match axis.is_scattered() {
            true => Self { pieces, section, scattered: Some(axis), base: axis.map.local(held) },
            false => Self { pieces, section, scattered: None, base: held },
        }
    }

    /// The positions themselves.
    pub(super) const fn positions(len: i64) -> Self {
        let section = Triplet { first: 0, len, step: 1 };
        Self { pieces: Pieces::one(0, len), section, scattered: None, base: 0 }
    }

    fn slot(&self, t: i64) -> i64 {
        let index = self.section.at(t);
        self.scattered.map_or(index, |axis| axis.map.local(index)) - self.base
    }

    /// The first position from which on an index is at least as far along the section.
    fn position(&self, index: i64) -> i64 {
        let Triplet { first, step, .. } = self.section;
        if step > 0 {
            (index - first + step - 1).div_euclid(step)
        } else {
            (first - index - step - 1).div_euclid(-step)
        }
    }

    /// The positions of a piece.
    fn positions_of(&self, piece: &Range<i64>) -> Range<i64> {
        if self.section.step > 0 {
            self.position(piece.start)..self.position(piece.end)
        } else {
            self.position(piece.end - 1)..self.position(piece.start - 1)
        }
    }

    /// All positions are between these.
    fn bounds(&self) -> Range<i64> {
        let Some(bounds) = self.pieces.bounds() else { return 0..0 };
        let range = self.positions_of(&bounds);
        range.start.max(0)..range.end.min(self.section.len)
    }

    /// The first positions in one piece from `t` on, which is within the bounds.
    fn next(&self, mut t: i64, end: i64) -> Option<Range<i64>> {
        while t < end {
            let index = self.section.at(t);
            let nth = (index - self.pieces.first).div_euclid(self.pieces.period);
            let piece = self.pieces.piece(nth);
            if piece.contains(&index) {
                return Some(t..self.positions_of(&piece).end);
            }
            // Behind a piece and in front of the next one: the bounds are those of pieces.
            let next = if self.section.step > 0 { nth + 1 } else { nth };
            t = self.positions_of(&self.pieces.piece(next)).start.max(t + 1);
        }
        None
    }

    /// Positions after which the pieces repeat; 1 where there is one piece.
    fn period(&self) -> i64 {
        if self.pieces.count() <= 1 { 1 } else { self.pieces.period / gcd(self.pieces.period, self.section.step.abs()) }
    }

    /// Places that `by` positions are, a multiple of the period.
    fn places(&self, by: i64) -> i64 {
        let far = by * self.section.step;
        match self.scattered {
            Some(_) if self.pieces.count() > 1 => far / self.pieces.period * self.pieces.len,
            _ => far,
        }
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// `count` times `len` places of one dimension, at both ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Strip {
    pub(super) len: i64,
    pub(super) count: i64,
    pub(super) to: End,
    pub(super) from: End,
    /// It is not the receiver's own part.
    pub(super) halo: bool,
}

/// One end of a strip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct End {
    /// The first place.
    pub(super) first: i64,
    /// From place to place.
    pub(super) near: i64,
    /// From one `len` to the next.
    pub(super) far: i64,
}

/// The common positions of two sides as strips.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merge<'a> {
    to: Side<'a>,
    from: Side<'a>,
    /// The next position, and where the strips with this count end.
    t: i64,
    end: i64,
    count: i64,
    period: i64,
    /// Behind the positions that repeat.
    tail: (i64, i64),
}

impl<'a> Merge<'a> {
    pub(super) const NONE: Self =
        Self { to: Side::positions(0), from: Side::positions(0), t: 0, end: 0, count: 1, period: 1, tail: (0, 0) };

    pub(super) fn new(to: Side<'a>, from: Side<'a>) -> Self {
        let (a, b) = (to.bounds(), from.bounds());
        let (first, end) = (a.start.max(b.start), a.end.min(b.end));
        // All pieces within the bounds of both sides are whole, so that they repeat. One period that
        // does not fit is enumerated as it is.
        let (p, q) = (to.period(), from.period());
        let period = (p / gcd(p, q)).checked_mul(q).unwrap_or(i64::MAX);
        let count = if first < end && period > 1 { (end - first) / period } else { 1 };
        let (stop, count) = if count > 1 { (first + period, count) } else { (end, 1) };
        let tail = if count > 1 { (first + count * period, end) } else { (end, end) };
        Self { to, from, t: first, end: stop, count, period, tail }
    }

    fn next_range(&mut self) -> Option<Range<i64>> {
        loop {
            let a = self.to.next(self.t, self.end)?;
            let b = self.from.next(a.start, self.end)?;
            if b.start < a.end {
                let end = a.end.min(b.end).min(self.end);
                self.t = end;
                return Some(b.start..end);
            }
            self.t = b.start;
        }
    }
}

impl Iterator for Merge<'_> {
    type Item = Strip;

    fn next(&mut self) -> Option<Strip> {
        let range = match self.next_range() {
            Some(range) => range,
            None if self.tail.0 < self.tail.1 => {
                (self.t, self.end, self.count) = (self.tail.0, self.tail.1, 1);
                self.tail.0 = self.tail.1;
                self.next_range()?
            }
            None => return None,
        };
        let far = if self.count > 1 { self.period } else { 0 };
        let end =
            |side: &Side<'_>| End { first: side.slot(range.start), near: side.section.step, far: side.places(far) };
        let (len, count) = (range.end - range.start, self.count);
        Some(Strip { len, count, to: end(&self.to), from: end(&self.from), halo: false })
    }
}
