//! Strided copies between blocks.

use super::merge::Strip;
use crate::dist::MAX_DIMS;
use core::ops::Range;

/// Two for each dimension: within a piece, and from piece to piece.
const LEVELS: usize = 2 * MAX_DIMS;
/// Those of a side of a block of three dimensions.
const SHORT: usize = 2;

/// A copy from block to block, in elements: runs of `run` contiguous ones, of which each
/// [`Level`] repeats all of the levels before it.
#[derive(Clone, Copy, Debug)]
pub struct Copy {
    /// Place of the first element in the destination.
    pub to: usize,
    /// In the source.
    pub from: usize,
    /// Elements of a run.
    pub run: usize,
    levels: [Level; LEVELS],
    used: usize,
}

/// So many, at these distances.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Level {
    /// How many, at least two.
    pub count: usize,
    /// From one to the next in the destination, positive.
    pub to: isize,
    /// In the source; may be negative, or 0 where one element goes to several.
    pub from: isize,
}

impl Copy {
    /// One element.
    pub(super) fn one(to: i64, from: i64) -> Self {
        Self { to: to as usize, from: from as usize, run: 1, levels: [Level::default(); LEVELS], used: 0 }
    }

    /// The strips of each dimension, the last one first, with the distances of its places.
    pub(super) fn extend(&mut self, strip: &Strip, to: usize, from: usize) {
        let (to, from) = (to as isize, from as isize);
        let near =
            Level { count: strip.len as usize, to: strip.to.near as isize * to, from: strip.from.near as isize * from };
        let far =
            Level { count: strip.count as usize, to: strip.to.far as isize * to, from: strip.from.far as isize * from };
        self.to = self.to.wrapping_add_signed(strip.to.first as isize * to);
        self.from = self.from.wrapping_add_signed(strip.from.first as isize * from);
        self.push(near);
        self.push(far);
    }

    /// Repeats what is there.
    fn push(&mut self, mut level: Level) {
        if level.count <= 1 {
            return;
        }
        if level.to < 0 {
            // The other way round: elements have no order.
            let last = level.count as isize - 1;
            self.to = self.to.wrapping_add_signed(level.to * last);
            self.from = self.from.wrapping_add_signed(level.from * last);
            (level.to, level.from) = (-level.to, -level.from);
        }
        let last = self.levels[..self.used].last_mut();
        let run = self.run as isize;
        match last {
            None if level.to == run && level.from == run => self.run *= level.count,
            // It goes on where the one before ends.
            Some(last)
                if level.to == last.to * last.count as isize && level.from == last.from * last.count as isize =>
            {
                last.count *= level.count;
            }
            _ => {
                self.levels[self.used] = level;
                self.used += 1;
            }
        }
    }

    /// The same between blocks of one layout, whose rows of `row` elements begin `pitch` elements apart: rows
    /// that are whole, and what no element is in between them, are one run.
    #[must_use]
    pub(crate) fn with_gaps(mut self, row: usize, pitch: usize) -> Self {
        if let [Level { count, to, from }, ..] = *self.levels()
            && (self.run, to, from) == (row, pitch as isize, pitch as isize)
        {
            self.run = (count - 1) * pitch + row;
            self.levels.copy_within(1.., 0);
            self.used -= 1;
        }
        self
    }

    /// The levels, innermost first.
    pub fn levels(&self) -> &[Level] {
        &self.levels[..self.used]
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.levels().iter().fold(self.run, |len, level| len * level.count)
    }

    /// No element; never so.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The copies that are made by the innermost `levels` levels, or all if they are fewer: this copy
    /// in parts.
    pub fn spans(&self, levels: usize) -> Spans {
        Spans { copy: *self, inner: levels.min(self.used), at: [0; LEVELS], done: false }
    }

    /// The places of the runs: destination, source and elements.
    pub fn runs(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        self.spans(0).map(|span| (span.to, span.from, span.run))
    }

    /// The smallest ranges of the destination and of the source that hold all of it.
    pub fn bounds(&self) -> (Range<usize>, Range<usize>) {
        let (mut to, mut from) = (self.to..self.to + self.run, self.from..self.from + self.run);
        for level in self.levels() {
            let last = level.count as isize - 1;
            to.end = to.end.wrapping_add_signed(level.to * last);
            let far = level.from * last;
            let end = if far < 0 { &mut from.start } else { &mut from.end };
            *end = end.wrapping_add_signed(far);
        }
        (to, from)
    }
}

/// A copy of so few levels that it takes little memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Short {
    to: usize,
    from: usize,
    run: usize,
    levels: [Level; SHORT],
    used: usize,
}

impl Short {
    /// `None`: it has more levels.
    pub(crate) fn of(copy: &Copy) -> Option<Self> {
        let &Copy { to, from, run, used, .. } = copy;
        let &levels = copy.levels.first_chunk()?;
        (used <= SHORT).then_some(Self { to, from, run, levels, used })
    }

    pub(crate) fn copy(&self) -> Copy {
        let Self { to, from, run, levels: [first, second], used } = *self;
        let mut copy = Copy { used, ..Copy::one(to as i64, from as i64) };
        (copy.run, copy.levels[0], copy.levels[1]) = (run, first, second);
        copy
    }
}

/// A copy in parts: see [`Copy::spans`].
#[derive(Clone, Debug)]
pub struct Spans {
    copy: Copy,
    inner: usize,
    at: [usize; LEVELS],
    done: bool,
}

impl Iterator for Spans {
    type Item = Copy;

    fn next(&mut self) -> Option<Copy> {
        if self.done {
            return None;
        }
        let span = Copy { used: self.inner, ..self.copy };
        for (at, level) in self.at.iter_mut().zip(&self.copy.levels[..self.copy.used]).skip(self.inner) {
            *at += 1;
            if *at < level.count {
                self.copy.to = self.copy.to.wrapping_add_signed(level.to);
                self.copy.from = self.copy.from.wrapping_add_signed(level.from);
                return Some(span);
            }
            let back = level.count as isize - 1;
            self.copy.to = self.copy.to.wrapping_add_signed(-level.to * back);
            self.copy.from = self.copy.from.wrapping_add_signed(-level.from * back);
            *at = 0;
        }
        self.done = true;
        Some(span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_rows_and_their_gaps_are_one_run() {
        // Rows of 5, 8 apart; 3 of them, in 2 planes.
        let copy = Copy { to: 16, from: 40, run: 5, levels: [Level::default(); LEVELS], used: 0 };
        let mut rows = copy;
        rows.push(Level { count: 3, to: 8, from: 8 });
        let one = rows.with_gaps(5, 8);
        assert_eq!((one.to, one.from, one.run, one.levels()), (16, 40, 21, &[][..]));
        rows.push(Level { count: 2, to: 80, from: 96 });
        let planes = rows.with_gaps(5, 8);
        assert_eq!((planes.run, planes.levels()), (21, &[Level { count: 2, to: 80, from: 96 }][..]));
        // A part of a row, and rows that are not next to each other.
        assert_eq!(rows.with_gaps(6, 8).len(), rows.len());
        assert_eq!(rows.with_gaps(5, 16).len(), rows.len());
        assert_eq!(copy.with_gaps(5, 8).len(), 5);
    }

    #[test]
    fn a_copy_of_two_levels_is_kept_in_short() {
        let mut copy = Copy { to: 16, from: 40, run: 5, levels: [Level::default(); LEVELS], used: 0 };
        for (count, to, from) in [(3, 8, 9), (2, 80, -96)] {
            let short = Short::of(&copy).expect("few").copy();
            assert!(short.runs().eq(copy.runs()) && short.levels() == copy.levels());
            copy.push(Level { count, to, from });
        }
        assert!(Short::of(&copy).expect("two").copy().runs().eq(copy.runs()));
        copy.push(Level { count: 2, to: 800, from: 960 });
        assert!(Short::of(&copy).is_none());
    }
}
