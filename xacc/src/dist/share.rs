//! The iterations of a loop that one node runs.

use super::MOST;
use super::pieces::Pieces;
use super::width::Width;
use crate::int::Int;
use core::ops::Range;

/// How far [`Share::inner`] and its relatives reach, in each dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach<const N: usize> {
    /// The same along all distributed dimensions, both ways; not along others.
    Distributed(u32),
    /// Along each dimension, below and above.
    Each([(u32, u32); N]),
}

impl<const N: usize> From<u32> for Reach<N> {
    fn from(n: u32) -> Self {
        Self::Distributed(n)
    }
}

impl<const N: usize, W: Into<Width>> From<[W; N]> for Reach<N> {
    /// A full width reaches nowhere: there is no neighbour beyond it.
    fn from(widths: [W; N]) -> Self {
        Self::Each(widths.map(|width| match width.into() {
            Width::Full => (0, 0),
            Width::Of(below, above) => (below, above),
        }))
    }
}

/// One dimension of a share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    /// What the node owns, or what [`Share::expand`] made of it.
    owned: Pieces,
    /// The loop's range; steps count from its begin.
    lo: i64,
    hi: i64,
    step: i64,
    distributed: bool,
}

impl Span {
    pub(crate) fn new(owned: Pieces, range: Range<i64>, distributed: bool) -> Self {
        Self { owned, lo: range.start, hi: range.end, step: 1, distributed }
    }

    fn pieces(&self) -> Pieces {
        self.owned.within(self.lo..self.hi)
    }

    /// The first iteration from `index` on.
    fn align(&self, index: i64) -> i64 {
        if self.step == 1 { index } else { index + (self.lo - index).rem_euclid(self.step) }
    }
}

/// The iterations of one node: a product of [`Pieces`], in steps, perhaps without an inner part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share<const N: usize> {
    spans: [Span; N],
    /// What [`Self::margin`] leaves out is this far from the ends of what is owned.
    hole: Option<[(i64, i64); N]>,
    /// It has iterations of the neighbours, or may have.
    expanded: bool,
}

impl<const N: usize> Share<N> {
    pub(crate) fn new(spans: [Span; N]) -> Self {
        Self { spans, hole: None, expanded: false }
    }

    /// Those within a range of every dimension; steps count from its begin.
    #[must_use]
    pub fn within(mut self, ranges: [Range<impl Int>; N]) -> Self {
        for (span, range) in self.spans.iter_mut().zip(ranges) {
            (span.lo, span.hi) = (span.lo.max(range.start.number()), span.hi.min(range.end.number()));
        }
        self
    }

    /// Every so many iterations of the loop's range in each dimension; less than 1 counts as 1.
    #[must_use]
    pub fn step(mut self, by: [impl Int; N]) -> Self {
        for (span, by) in self.spans.iter_mut().zip(by) {
            span.step = by.number().clamp(1, 2 * MOST);
        }
        self
    }

    /// Those whose neighbours as far as `reach` are the node's own: they need no halo.
    #[must_use]
    pub fn inner(self, reach: impl Into<Reach<N>>) -> Self {
        let reach = self.sides(reach.into());
        self.grown(reach.map(|(below, above)| (-below, -above)))
    }

    /// Those that [`Self::inner`] with the same reach leaves out.
    #[must_use]
    pub fn margin(self, reach: impl Into<Reach<N>>) -> Self {
        Self { hole: Some(self.sides(reach.into())), ..self }
    }

    /// Also those of the neighbours as far as `reach`, within the loop's range: a node computes copies
    /// instead of receiving them. A loop over them writes the shadow, too.
    #[must_use]
    pub fn expand(self, reach: impl Into<Reach<N>>) -> Self {
        let reach = self.sides(reach.into());
        Self { expanded: true, ..self }.grown(reach)
    }

    /// As [`Self::expand`], and beyond the ends of the loop's range, where periodic halos are.
    #[must_use]
    pub fn expand_unbound(mut self, reach: impl Into<Reach<N>>) -> Self {
        let reach = self.sides(reach.into());
        for (span, (below, above)) in self.spans.iter_mut().zip(reach).filter(|(span, _)| span.lo < span.hi) {
            // The steps stay where they are.
            let whole = below / span.step * span.step;
            (span.lo, span.hi) = (span.lo - whole, span.hi + above);
        }
        self.expanded = true;
        self.grown(reach)
    }

    /// A loop over it writes the shadow.
    pub(crate) fn is_expanded(&self) -> bool {
        self.expanded
    }

    fn grown(mut self, by: [(i64, i64); N]) -> Self {
        for (span, (before, after)) in self.spans.iter_mut().zip(by) {
            span.owned = span.owned.grown(before, after);
        }
        self
    }

    fn sides(&self, reach: Reach<N>) -> [(i64, i64); N] {
        core::array::from_fn(|dim| match reach {
            Reach::Distributed(n) if self.spans[dim].distributed => (n.into(), n.into()),
            Reach::Distributed(_) => (0, 0),
            Reach::Each(widths) => (widths[dim].0.into(), widths[dim].1.into()),
        })
    }

    /// The indices along a dimension; with steps, more than there are iterations.
    pub(crate) fn pieces(&self, dim: usize) -> Pieces {
        self.spans[dim].pieces()
    }

    /// The iterations in row-major order, as runs along the last dimension.
    pub fn runs(&self) -> Runs<N> {
        Runs::new(*self)
    }

    /// The indices of the iterations, in row-major order.
    pub fn indices(&self) -> impl Iterator<Item = [i64; N]> + use<N> {
        self.runs().flat_map(|run| {
            (0..run.len as i64).map(move |k| {
                let mut index = run.first;
                index[N - 1] += k * run.step;
                index
            })
        })
    }

    /// The range of each dimension, if the iterations are all indices in them.
    pub fn ranges(&self) -> Option<[Range<i64>; N]> {
        let plain = self.hole.is_none() && self.spans.iter().all(|span| span.step == 1 && span.pieces().count() <= 1);
        plain.then(|| self.spans.each_ref().map(|span| span.pieces().bounds().unwrap_or(0..0)))
    }

    /// Iterations.
    pub fn len(&self) -> usize {
        self.runs().map(|run| run.len).sum()
    }

    /// No iteration.
    pub fn is_empty(&self) -> bool {
        self.runs().next().is_none()
    }

    /// This node runs this iteration.
    pub fn contains(&self, index: [i64; N]) -> bool {
        let mut in_hole = true;
        for (dim, (span, index)) in self.spans.iter().zip(index).enumerate() {
            if !span.pieces().contains(index) || span.align(index) != index {
                return false;
            }
            in_hole &= self.in_hole(dim, index);
        }
        !(in_hole && self.hole.is_some())
    }

    /// Whether an index of a dimension is as far from the ends of what is owned as the hole.
    fn in_hole(&self, dim: usize, index: i64) -> bool {
        self.hole.is_some_and(|hole| self.inner_piece(dim, index, hole[dim]).contains(&index))
    }

    /// The part of the piece with an index that is so far from its ends.
    fn inner_piece(&self, dim: usize, index: i64, sides: (i64, i64)) -> Range<i64> {
        let owned = self.spans[dim].owned;
        let piece = owned.piece_of(index).map_or(0..0, |nth| owned.piece(nth));
        piece.start + sides.0..piece.end - sides.1
    }
}

/// Iterations that differ in the last index only: `first`, and `len - 1` more, each by `step`
/// further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run<const N: usize> {
    /// Global index of the first one.
    pub first: [i64; N],
    /// Iterations, at least one.
    pub len: usize,
    /// Distance of their last indices, at least one.
    pub step: i64,
}

/// The runs of a share in row-major order.
#[derive(Clone, Debug)]
pub struct Runs<const N: usize> {
    share: Share<N>,
    /// The pieces of each dimension within the loop's range.
    pieces: [Pieces; N],
    /// The current piece of each dimension, and the index in it, of the last dimension the first one
    /// that was not handed out.
    nth: [i64; N],
    index: [i64; N],
    done: bool,
}

impl<const N: usize> Runs<N> {
    fn new(share: Share<N>) -> Self {
        let pieces = core::array::from_fn(|dim| share.pieces(dim));
        let mut runs = Self { share, pieces, nth: [0; N], index: [0; N], done: false };
        runs.done = !(0..N).all(|dim| runs.seek(dim, 0));
        runs
    }

    /// Goes to the first iteration of a dimension in piece `nth` or behind it.
    fn seek(&mut self, dim: usize, nth: i64) -> bool {
        for nth in nth..self.pieces[dim].count() {
            let piece = self.pieces[dim].piece(nth);
            let index = self.share.spans[dim].align(piece.start);
            if index < piece.end {
                (self.nth[dim], self.index[dim]) = (nth, index);
                return true;
            }
        }
        false
    }

    /// Goes to the next row; the last dimension starts over.
    #[inline]
    fn next_row(&mut self) {
        for dim in (0..N - 1).rev() {
            let next = self.index[dim] + self.share.spans[dim].step;
            if next < self.pieces[dim].piece(self.nth[dim]).end {
                self.index[dim] = next;
                return;
            }
            if self.seek(dim, self.nth[dim] + 1) {
                return;
            }
            self.seek(dim, 0);
        }
        self.done = true;
    }
}

impl<const N: usize> Iterator for Runs<N> {
    type Item = Run<N>;

    #[inline]
    fn next(&mut self) -> Option<Run<N>> {
        let last = N - 1;
        while !self.done {
            let (first, step) = (self.index, self.share.spans[last].step);
            let mut end = self.pieces[last].piece(self.nth[last]).end;
            let mut resume = end;
            if let Some(hole) = self.share.hole
                && (0..last).all(|dim| self.share.in_hole(dim, first[dim]))
            {
                let hole = self.share.inner_piece(last, first[last], hole[last]);
                if first[last] < hole.start {
                    (end, resume) = (end.min(hole.start), end.min(hole.start));
                } else if first[last] < hole.end {
                    (end, resume) = (first[last], end.min(hole.end));
                }
            }
            // What is left of this piece, then the next one, then the next row.
            let next = self.share.spans[last].align(resume);
            if next < self.pieces[last].piece(self.nth[last]).end {
                self.index[last] = next;
            } else if !self.seek(last, self.nth[last] + 1) {
                self.seek(last, 0);
                self.next_row();
            }
            if first[last] < end {
                let len = if step == 1 { end - first[last] } else { (end - first[last] + step - 1) / step };
                return Some(Run { first, len: len as usize, step });
            }
        }
        None
    }
}
