//! Rows of arrays: what the expansion of [`each!`](crate::each!) reads and writes.

use super::{LANES, WIDE};
use crate::dist::{Desc, DistError, Pieces, Run, Runs, Share, Width, refuse};
use crate::{Array, ViewMut};
use core::ops::Range;
use hamr_comm::Element;

/// The indices of a loop.
pub trait Indices<const N: usize> {
    /// The smallest range along each dimension that has all indices, and all indices in lexicographic
    /// order, each once, in runs of step 1. Without indices, one of the ranges is empty.
    fn iterate(&self) -> ([Range<i64>; N], impl Iterator<Item = Run<N>>);

    /// The loop writes elements of neighbours of which this node has copies.
    #[inline]
    fn is_expanded(&self) -> bool {
        false
    }
}

impl<const N: usize, I: Indices<N>> Indices<N> for &I {
    #[inline]
    fn iterate(&self) -> ([Range<i64>; N], impl Iterator<Item = Run<N>>) {
        (**self).iterate()
    }

    #[inline]
    fn is_expanded(&self) -> bool {
        (**self).is_expanded()
    }
}

impl<const N: usize> Indices<N> for Share<N> {
    #[inline]
    fn iterate(&self) -> ([Range<i64>; N], impl Iterator<Item = Run<N>>) {
        match self.ranges() {
            Some(ranges) => (ranges.clone(), Rectangle::new(ranges).map_or(ShareRuns::None, ShareRuns::Rectangle)),
            None => (bounds_of_runs(self), ShareRuns::Any { runs: self.runs(), left: None }),
        }
    }

    #[inline]
    fn is_expanded(&self) -> bool {
        Share::is_expanded(self)
    }
}

#[cold]
fn bounds_of_runs<const N: usize>(share: &Share<N>) -> [Range<i64>; N] {
    let mut bounds = [None::<(i64, i64)>; N];
    for run in share.runs() {
        let mut last = run.first;
        last[N - 1] += (run.len as i64 - 1) * run.step;
        for (range, (first, last)) in bounds.iter_mut().zip(run.first.into_iter().zip(last)) {
            let (start, end) = range.unwrap_or((first, last));
            *range = Some((start.min(first), end.max(last)));
        }
    }
    bounds.map(|range| range.map_or(0..0, |(first, last)| first..last + 1))
}

/// The runs of a share. Most are those of a rectangle, which are found in a few instructions.
enum ShareRuns<const N: usize> {
    None,
    Rectangle(Rectangle<N>),
    /// `left` of a run with a larger step, whose iterations are runs of their own.
    Any {
        runs: Runs<N>,
        left: Option<Run<N>>,
    },
}

impl<const N: usize> Iterator for ShareRuns<N> {
    type Item = Run<N>;

    #[inline(always)]
    fn next(&mut self) -> Option<Run<N>> {
        match self {
            Self::Rectangle(rectangle) => rectangle.next(),
            Self::Any { runs, left } => {
                let run = left.take().or_else(|| runs.next())?;
                if run.step == 1 {
                    return Some(run);
                }
                let mut rest = Run { len: run.len - 1, ..run };
                rest.first[N - 1] += run.step;
                *left = (rest.len > 0).then_some(rest);
                Some(Run { len: 1, step: 1, ..run })
            }
            Self::None => None,
        }
    }
}

/// All indices within ranges that are not empty.
struct Rectangle<const N: usize> {
    ranges: [Range<i64>; N],
    next: [i64; N],
    done: bool,
}

impl<const N: usize> Rectangle<N> {
    fn new(ranges: [Range<i64>; N]) -> Option<Self> {
        let next = ranges.each_ref().map(|range| range.start);
        (!ranges.iter().any(Range::is_empty)).then_some(Self { ranges, next, done: false })
    }

    #[inline(always)]
    fn next(&mut self) -> Option<Run<N>> {
        if self.done {
            return None;
        }
        let (first, last) = (self.next, &self.ranges[N - 1]);
        self.done = !(0..N - 1).rev().any(|dim| {
            self.next[dim] += 1;
            let more = self.next[dim] < self.ranges[dim].end;
            if !more {
                self.next[dim] = self.ranges[dim].start;
            }
            more
        });
        Some(Run { first, len: (last.end - last.start) as usize, step: 1 })
    }
}

/// Where the indices of one dimension lie in an array's block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// The index at the block's start.
    pub start: i64,
    /// What can be read: the smallest range with all indices that can.
    pub readable: Range<i64>,
    /// What a loop writes that is not expanded: the smallest range with all indices that this node owns.
    pub owned: Range<i64>,
    /// Distance of neighbours in the block, in elements; 1 in the last dimension.
    pub pitch: usize,
    /// The gaps of what is owned, if there are any.
    pub cycle: Option<Cycle>,
}

/// Of each `period` indices from `first` on, the first `len` are owned as far as they are in the
/// array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cycle {
    /// Where periods begin, at most the first owned index.
    pub first: i64,
    /// Consecutive indices.
    pub len: i64,
    /// Distance of the first ones.
    pub period: i64,
    /// The indices of the gaps are not in the block. Otherwise they are and can be read.
    pub packed: bool,
}

impl Axis {
    /// Of an array with this description on this node.
    #[inline]
    pub fn of<const N: usize>(desc: &Desc<'_, N>, dim: usize) -> Self {
        let (axis, readable, pitch) = (&desc.shape().axes[dim], desc.held(dim), desc.pitches()[dim]);
        let start = readable.start;
        match axis.shadow {
            Width::Of(below, above) if !axis.is_scattered() => {
                let owned = match readable.is_empty() {
                    true => 0..0,
                    false => readable.start + i64::from(below)..readable.end - i64::from(above),
                };
                Self { start, readable, owned, pitch, cycle: None }
            }
            _ => {
                let owned = desc.owned(dim);
                let Pieces { first, len, period, .. } = owned;
                let cycle = Cycle { first, len, period, packed: axis.is_scattered() };
                let cycle = (owned.count() > 1).then_some(cycle);
                Self { start, readable, owned: owned.bounds().unwrap_or(0..0), pitch, cycle }
            }
        }
    }

    /// This node owns so many neighbours from an index on.
    fn owns(&self, first: i64, len: usize) -> bool {
        let end = match self.cycle {
            None => self.owned.end,
            Some(Cycle { first: begin, len, period, .. }) => {
                self.owned.end.min(first - first.wrapping_sub(begin) % period + len)
            }
        };
        self.owned.contains(&first) && i64::try_from(len).is_ok_and(|len| len <= end - first)
    }
}

/// What a program implements of it would run while rows are checked and used: only arrays are.
pub(super) mod sealed {
    pub trait Sealed {}
}

/// An array of which `each!` takes rows.
///
/// ```compile_fail,E0277
/// use hamr_xacc::each::{Axis, Rows};
/// struct Mine([f32; 4]);
/// impl Rows<1> for Mine {
///     type Element = f32;
///     fn row_axis(&self, _: usize) -> Axis {
///         Axis { start: 0, readable: 0..4, owned: 0..4, pitch: 1, cycle: None }
///     }
///     fn row_part(&self, at: usize, len: usize, _: [i64; 1]) -> &[f32] {
///         &self.0[at..at + len]
///     }
///     fn row_part_mut(&mut self, at: usize, len: usize, _: [i64; 1]) -> &mut [f32] {
///         &mut self.0[at..at + len]
///     }
/// }
/// ```
pub trait Rows<const N: usize>: sealed::Sealed {
    /// Its elements.
    type Element: Copy;

    /// Where the indices of a dimension lie.
    fn row_axis(&self, dim: usize) -> Axis;

    /// Other nodes write elements of the block now, which no slice may contain.
    #[inline]
    fn row_apart(&self) -> bool {
        false
    }

    /// Elements of the block from that with index `first` on, which is at `at`.
    ///
    /// # Panics
    /// Other nodes write some of them now.
    #[track_caller]
    fn row_part(&self, at: usize, len: usize, first: [i64; N]) -> &[Self::Element];

    /// The same, to be written.
    ///
    /// # Panics
    /// As [`Self::row_part`].
    #[track_caller]
    fn row_part_mut(&mut self, at: usize, len: usize, first: [i64; N]) -> &mut [Self::Element];

    /// Checks the accesses of a loop: indices within `ranges`, moved by each of `shifts`, of this node's own
    /// elements or of all that can be read.
    ///
    /// # Panics
    /// An index is not here.
    #[track_caller]
    fn row_place(&self, ranges: [Range<i64>; N], shifts: &[[i64; N]], own: bool) -> Place<N> {
        let axes = core::array::from_fn(|dim| self.row_axis(dim));
        Place { apart: self.row_apart(), ..Place::new(&axes, ranges, shifts, own) }
    }
}

impl<T: Element, const N: usize> sealed::Sealed for Array<'_, T, N> {}
impl<T: Element, const N: usize> sealed::Sealed for ViewMut<'_, '_, T, N> {}

impl<T: Element, const N: usize> Rows<N> for Array<'_, T, N> {
    type Element = T;

    #[inline]
    fn row_axis(&self, dim: usize) -> Axis {
        let axis = Axis::of(&self.desc, dim);
        // A shadow that a reflect is about to fill is not to be read.
        if self.is_pending() { Axis { readable: axis.owned.clone(), ..axis } } else { axis }
    }

    #[inline]
    fn row_apart(&self) -> bool {
        self.pending.is_some() || self.desc.is_closed()
    }

    // Bounds were checked, and the array does not move meanwhile: the parts exist.
    #[inline(always)]
    fn row_part(&self, at: usize, len: usize, first: [i64; N]) -> &[T] {
        if self.row_apart() {
            self.is_own_row(at, len, first);
        }
        self.piece.part(at..at.wrapping_add(len)).unwrap_or(&[])
    }

    #[inline(always)]
    fn row_part_mut(&mut self, at: usize, len: usize, first: [i64; N]) -> &mut [T] {
        if self.row_apart() {
            self.is_own_row(at, len, first);
        }
        self.piece.part_mut(at..at.wrapping_add(len)).unwrap_or(&mut [])
    }
}

impl<T: Element, const N: usize> Array<'_, T, N> {
    /// These elements are one row, or a part of it, that this node owns: no other one writes them.
    ///
    /// # Panics
    /// They are not.
    #[inline(never)]
    #[track_caller]
    fn is_own_row(&self, at: usize, len: usize, first: [i64; N]) {
        let owns = |dim| Axis::of(&self.desc, dim).owns(first[dim], if dim == N - 1 { len } else { 1 });
        if self.desc.offset(first) != Some(at) || !(0..N).all(owns) {
            refuse(self.why_closed().unwrap_or(DistError::Pending));
        }
    }
}

impl<T: Element, const N: usize> Rows<N> for ViewMut<'_, '_, T, N> {
    type Element = T;

    #[inline]
    fn row_axis(&self, dim: usize) -> Axis {
        self.array.row_axis(dim)
    }

    #[inline(always)]
    fn row_part(&self, at: usize, len: usize, first: [i64; N]) -> &[T] {
        self.array.row_part(at, len, first)
    }

    #[inline(always)]
    fn row_part_mut(&mut self, at: usize, len: usize, first: [i64; N]) -> &mut [T] {
        self.array.row_part_mut(at, len, first)
    }
}

/// How the rows of a loop are found in an array's block.
#[derive(Clone, Debug)]
pub struct Place<const N: usize> {
    pitch: [usize; N],
    /// Position in the block of the first element, that of the ranges' starts; rows count from it.
    first: usize,
    /// Distance of the last element, plus one.
    span: usize,
    gaps: Option<[Gaps; N]>,
    apart: bool,
}

/// A dimension of an array that has gaps in this or another one.
#[derive(Clone, Copy, Debug)]
struct Gaps {
    /// First index of the loop.
    start: i64,
    cycle: Option<Cycle>,
}

impl Gaps {
    /// Position along the dimension, counted from anywhere.
    fn local(&self, index: i64) -> i64 {
        match self.cycle {
            Some(Cycle { first, len, period, packed: true }) => {
                (index - first) / period * len + (index - first) % period
            }
            _ => index,
        }
    }
}

impl<const N: usize> Place<N> {
    #[inline(never)]
    #[track_caller]
    fn new(axes: &[Axis; N], ranges: [Range<i64>; N], shifts: &[[i64; N]], own: bool) -> Self {
        let mut place = Self { pitch: [0; N], first: 0, span: 0, gaps: None, apart: false };
        if ranges.iter().any(Range::is_empty) {
            return place;
        }
        assert!(axes[N - 1].pitch == 1, "the last dimension is contiguous");
        let mut gaps = [Gaps { start: 0, cycle: None }; N];
        let mut last = 0;
        for (dim, (axis, range)) in axes.iter().zip(&ranges).enumerate() {
            let here = if own { &axis.owned } else { &axis.readable };
            let cycle = axis.cycle.filter(|cycle| own || cycle.packed);
            for shift in shifts.iter().map(|shift| shift[dim]) {
                check(dim, range.start + shift, here);
                check(dim, range.end - 1 + shift, here);
                assert!(shift == 0 || cycle.is_none(), "dimension {dim} is cyclic: {shift} further is not here");
            }
            gaps[dim] = Gaps { start: range.start, cycle };
            // Elements from one index to another.
            let distance =
                |to, from| (gaps[dim].local(to) - gaps[dim].local(from)).wrapping_mul(axis.pitch as i64) as usize;
            place.pitch[dim] = axis.pitch;
            place.first = place.first.wrapping_add(distance(range.start, axis.start));
            last += distance(range.end - 1, range.start);
        }
        place.span = last + 1;
        place.gaps = gaps.iter().any(|gaps| gaps.cycle.is_some()).then_some(gaps);
        place
    }

    /// Each row is a part of its own.
    pub fn is_by_row(&self) -> bool {
        self.gaps.is_some() || self.apart
    }

    /// Elements of the part that has all rows with a shift.
    #[inline(always)]
    pub fn span(&self) -> usize {
        self.span
    }

    /// Where in the block the rows with a shift begin, or one of them that begins at `offset` there.
    #[inline(always)]
    pub fn position(&self, offset: usize, shift: [i64; N]) -> usize {
        self.first.wrapping_add(offset).wrapping_add(self.at(shift))
    }

    /// Where a row begins whose indices are so far from the ranges' starts.
    #[inline(always)]
    pub fn at(&self, distance: [i64; N]) -> usize {
        let outer = distance.iter().zip(&self.pitch).take(N - 1);
        outer.fold(distance[N - 1] as usize, |at, (by, pitch)| at.wrapping_add((*by as usize).wrapping_mul(*pitch)))
    }

    /// The same where this array or another one of the loop has gaps.
    ///
    /// # Panics
    /// The row is not within what is here between two gaps.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub fn at_gaps(&self, distance: [i64; N], len: usize) -> usize {
        let Some(gaps) = &self.gaps else { return self.at(distance) };
        let mut at = 0;
        for (dim, gaps) in gaps.iter().enumerate() {
            let first = gaps.start + distance[dim];
            if let Some(cycle) = gaps.cycle {
                let len = if dim == N - 1 { len as i64 } else { 1 };
                let begin = first - (first - cycle.first) % cycle.period;
                check(dim, first + len - 1, &(begin..begin + cycle.len));
            }
            at += (gaps.local(first) - gaps.local(gaps.start)) as usize * self.pitch[dim];
        }
        at
    }
}

#[track_caller]
fn check(dim: usize, index: i64, here: &Range<i64>) {
    assert!(here.contains(&index), "dimension {dim}: index {index}, here are {}..{}", here.start, here.end);
}

/// A row.
#[inline(always)]
pub fn row<T>(part: &[T], at: usize, len: usize) -> &[T] {
    &part[at..][..len]
}

/// A row to be written.
#[inline(always)]
pub fn row_mut<T>(part: &mut [T], at: usize, len: usize) -> &mut [T] {
    &mut part[at..][..len]
}

/// Do eight elements fill no vector?
#[inline(always)]
pub const fn is_narrow<T>(_: &[T]) -> bool {
    size_of::<T>() <= 2
}

/// The elements of a row that make up a wide chunk.
#[inline(always)]
pub fn wide<T>(row: &[T], at: usize) -> &[T; WIDE] {
    &row.as_chunks().0[at]
}

/// The same, to be written.
#[inline(always)]
pub fn wide_mut<T>(row: &mut [T], at: usize) -> &mut [T; WIDE] {
    &mut row.as_chunks_mut().0[at]
}

/// The elements of a row that make up a chunk.
#[inline(always)]
pub fn chunk<T>(row: &[T], at: usize) -> &[T; LANES] {
    &row.as_chunks().0[at]
}

/// The same, to be written.
#[inline(always)]
pub fn chunk_mut<T>(row: &mut [T], at: usize) -> &mut [T; LANES] {
    &mut row.as_chunks_mut().0[at]
}

/// Half a chunk, from an element on.
#[inline(always)]
pub fn half<T>(row: &[T], at: usize) -> &[T; LANES / 2] {
    &row[at..].as_chunks().0[0]
}

/// The same, to be written.
#[inline(always)]
pub fn half_mut<T>(row: &mut [T], at: usize) -> &mut [T; LANES / 2] {
    &mut row[at..].as_chunks_mut().0[0]
}
