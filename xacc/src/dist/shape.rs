//! The shape of an array: which of its elements each node owns, and which it has copies of.

use super::dim::Map;
use super::extent::Extent;
use super::nodes::{Grid, Place};
use super::pieces::Pieces;
use super::set::NodeSet;
use super::share::{Share, Span};
use super::width::Width;
use super::{MAX_DIMS, MOST};
use crate::error::{DistError, or_refuse, refuse};
use crate::int::Int;
use core::ops::Range;

/// What a dimension of an array is aligned with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Index `i` lies where index `i + offset` of dimension `dim` of the template does.
    On {
        /// The dimension of the template.
        dim: usize,
        /// Added to the array's index.
        offset: i64,
        /// The array's indices; otherwise all whose place is in the template.
        range: Option<Extent>,
    },
    /// With nothing: all of it is on every node.
    Whole(Extent),
}

/// Aligned with a dimension of the template.
pub const fn on(dim: usize) -> Align {
    Align::On { dim, offset: 0, range: None }
}

/// Aligned with nothing; the dimension has these indices.
pub fn whole(extent: impl Into<Extent>) -> Align {
    Align::Whole(extent.into())
}

impl Align {
    /// Index `i` of the array lies where `i + by` of the template does.
    #[must_use]
    pub fn offset(self, by: i64) -> Self {
        match self {
            Self::On { dim, range, .. } => Self::On { dim, offset: by, range },
            Self::Whole(extent) => Self::Whole(extent),
        }
    }

    /// The array has only these indices.
    #[must_use]
    pub fn range(self, extent: impl Into<Extent>) -> Self {
        match self {
            Self::On { dim, offset, .. } => Self::On { dim, offset, range: Some(extent.into()) },
            Self::Whole(_) => Self::Whole(extent.into()),
        }
    }
}

/// One dimension of an array.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Axis<'g> {
    /// The array's indices.
    pub(crate) lo: i64,
    pub(crate) hi: i64,
    /// Where they lie, in the array's own indices; it may hold more than the array has.
    pub(crate) map: Map<'g>,
    /// The dimension of the nodes.
    pub(crate) on: Option<usize>,
    pub(crate) shadow: Width,
}

impl<'g> Axis<'g> {
    pub(crate) const NONE: Self = Self { lo: 0, hi: 0, map: Map::NONE, on: None, shadow: Width::NONE };

    /// The same with sizes of another lifetime.
    pub(crate) fn kept<'k>(&self, sizes: &'k [u64]) -> Axis<'k> {
        let Self { lo, hi, map, on, shadow } = *self;
        Axis { lo, hi, map: map.with_sizes(sizes), on, shadow }
    }

    /// The coordinate that counts for this dimension.
    pub(crate) fn at(&self, place: &Place) -> u32 {
        self.on.map_or(0, |dim| place[dim])
    }

    /// What the nodes with this coordinate own.
    pub(crate) fn owned(&self, at: u32) -> Pieces {
        self.map.pieces(at).within(self.lo..self.hi)
    }

    /// The indices that have a place in the memory of the nodes with this coordinate: the range
    /// around them, in which a cyclic dimension has gaps.
    pub(crate) fn held(&self, at: u32) -> Range<i64> {
        match (self.shadow, self.owned(at).bounds()) {
            (Width::Full, _) => self.lo..self.hi,
            (Width::Of(below, above), Some(own)) => own.start - i64::from(below)..own.end + i64::from(above),
            (_, None) => 0..0,
        }
    }

    /// The place of an index along this dimension in the memory of the nodes with this coordinate.
    pub(crate) fn slot(&self, at: u32, index: i64) -> Option<i64> {
        let held = self.held(at);
        if !held.contains(&index) {
            return None;
        }
        if !self.is_scattered() {
            return Some(index - held.start);
        }
        (self.map.owner(index) == Some(at)).then(|| self.map.local(index) - self.map.local(held.start))
    }

    /// Neighbours in the memory are no neighbours in the array.
    pub(crate) fn is_scattered(&self) -> bool {
        self.map.is_cyclic() && self.shadow != Width::Full
    }

    /// Places along this dimension that every node has memory for: the most that one of them needs.
    pub(crate) fn extent(&self) -> i64 {
        let need = |at| match self.shadow {
            Width::Full => self.hi - self.lo,
            Width::Of(below, above) => match self.owned(at).len() {
                0 => 0,
                own => own + i64::from(below) + i64::from(above),
            },
        };
        (0..self.map.nodes).map(need).max().unwrap_or(0)
    }
}

/// A template with its distribution, the alignment of an array with it, and its shadow: a value
/// without memory. Indices of dimensions of the nodes with which no dimension of the array is aligned
/// do not matter: there the array is replicated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape<'g, const N: usize> {
    pub(crate) grid: Grid,
    pub(crate) axes: [Axis<'g>; N],
    /// Rows are not padded.
    pub(crate) dense: bool,
}

impl<const N: usize> Shape<'static, N> {
    /// Not distributed: each node of the set has all of it for itself.
    ///
    /// # Errors
    /// A negative extent, or one that is too large.
    pub fn own(team: NodeSet, me: u32, extent: [impl Into<Extent>; N]) -> Result<Self, DistError> {
        const { assert!(N >= 1 && N <= MAX_DIMS) };
        let mut axes = [Axis::NONE; N];
        for (dim, (axis, extent)) in axes.iter_mut().zip(extent).enumerate() {
            let Extent { lo, hi } = extent.into().checked(dim)?;
            *axis = Axis { lo, hi, map: Map::whole(lo, hi), ..Axis::NONE };
        }
        Ok(Self::new(Grid::line(team, me), axes))
    }
}

impl<'g, const N: usize> Shape<'g, N> {
    pub(crate) fn new(grid: Grid, axes: [Axis<'g>; N]) -> Self {
        Self { grid, axes, dense: false }
    }

    /// The shape of an array whose dimensions are aligned with those of this one. Where a dimension
    /// of this one is not named, the array is replicated. It has no shadow.
    ///
    /// # Panics
    /// A dimension does not exist, is named twice, or the array's indices are not all in it.
    #[track_caller]
    #[must_use]
    pub fn align<const M: usize>(&self, dims: [Align; M]) -> Shape<'g, M> {
        or_refuse(self.try_align(dims))
    }

    fn try_align<const M: usize>(&self, dims: [Align; M]) -> Result<Shape<'g, M>, DistError> {
        const { assert!(M >= 1 && M <= MAX_DIMS) };
        let (mut axes, mut named) = ([Axis::NONE; M], [false; N]);
        for (dim, (axis, align)) in axes.iter_mut().zip(dims).enumerate() {
            *axis = match align {
                Align::Whole(extent) => {
                    let Extent { lo, hi } = extent.checked(dim)?;
                    Axis { lo, hi, map: Map::whole(lo, hi), ..Axis::NONE }
                }
                Align::On { dim: to, offset, range } => {
                    let used = named.get_mut(to).filter(|used| !**used).ok_or(DistError::Align { dim, to })?;
                    *used = true;
                    if offset.unsigned_abs() >= MOST as u64 {
                        return Err(DistError::Outside { dim, index: offset, lo: -MOST, hi: MOST });
                    }
                    let of = self.axes[to];
                    let (lo, hi) = (of.lo - offset, of.hi - offset);
                    let own = range.unwrap_or(Extent { lo, hi }).checked(dim)?;
                    if own.lo < own.hi && (own.lo < lo || own.hi > hi) {
                        let index = if own.lo < lo { own.lo } else { own.hi - 1 };
                        return Err(DistError::Outside { dim, index, lo, hi });
                    }
                    Axis { lo: own.lo, hi: own.hi, map: of.map.moved(offset), on: of.on, shadow: Width::NONE }
                }
            };
        }
        Ok(Shape::new(self.grid, axes))
    }

    /// The same with a shadow. It is allocated at the edges of the array, too, where periodic halos
    /// go; corners are part of it.
    ///
    /// # Panics
    /// A dimension is cyclic, and its shadow is not full.
    #[track_caller]
    #[must_use]
    pub fn shadow(&self, widths: [impl Into<Width>; N]) -> Self {
        let mut shape = *self;
        for (dim, (axis, width)) in shape.axes.iter_mut().zip(widths).enumerate() {
            axis.shadow = width.into();
            if axis.map.is_cyclic() && !matches!(axis.shadow, Width::Full | Width::NONE) {
                refuse(DistError::Shadow { dim });
            }
        }
        shape
    }

    /// The same with rows next to each other in memory: without a shadow, [`local`](crate::Array::local) is all of a node's
    /// elements where it owns whole rows. Padded rows, of whole cache lines, are faster in loops over several arrays or rows.
    #[must_use]
    pub fn unpadded(&self) -> Self {
        Self { dense: true, ..*self }
    }

    /// Each node of the executing set has all of it for itself, as [`Self::own`] makes it.
    pub(crate) fn is_own(&self) -> bool {
        self.grid == Grid::line(self.grid.team, self.grid.me) && self.axes.iter().all(|axis| axis.on.is_none())
    }

    /// The executing set.
    pub fn team(&self) -> NodeSet {
        self.grid.team
    }

    /// The nodes that the array is on.
    pub fn nodes(&self) -> NodeSet {
        self.grid.set()
    }

    /// The rank that this description is of.
    pub fn me(&self) -> u32 {
        self.grid.me
    }

    /// The array's indices along a dimension.
    pub fn range(&self, dim: usize) -> Range<i64> {
        self.axes[dim].lo..self.axes[dim].hi
    }

    /// The elements of all nodes, each counted once.
    pub(crate) fn elements(&self) -> u64 {
        self.axes.iter().fold(1, |all: u64, axis| all.saturating_mul((axis.hi - axis.lo) as u64))
    }

    /// The width of the shadow of each dimension.
    pub fn widths(&self) -> [Width; N] {
        self.axes.map(|axis| axis.shadow)
    }

    /// The iterations of this node in a loop over all indices.
    pub fn all(&self) -> Share<N> {
        self.share_of(self.grid.me)
    }

    /// The iterations of a rank in a loop over all indices; none where it is none of the nodes.
    pub fn share_of(&self, rank: u32) -> Share<N> {
        let place = self.grid.place(rank);
        Share::new(self.axes.map(|axis| {
            let owned = place.map_or(Pieces::EMPTY, |place| axis.owned(axis.at(&place)));
            Span::new(owned, axis.lo..axis.hi, axis.on.is_some())
        }))
    }

    /// The iterations of this node in a loop over these global ranges; a range that ends before it
    /// begins is empty.
    ///
    /// # Panics
    /// A range reaches beyond the array's indices.
    #[track_caller]
    pub fn on(&self, ranges: [Range<impl Int>; N]) -> Share<N> {
        let ranges = ranges.map(|range| range.start.number()..range.end.number());
        for (dim, (axis, range)) in self.axes.iter().zip(&ranges).enumerate() {
            if !range.is_empty() && (range.start < axis.lo || range.end > axis.hi) {
                let index = if range.start < axis.lo { range.start } else { range.end - 1 };
                refuse(DistError::Outside { dim, index, lo: axis.lo, hi: axis.hi });
            }
        }
        self.all().within(ranges)
    }

    /// The lowest rank that owns an element; `None`: the array has no such element.
    pub fn owner(&self, index: [i64; N]) -> Option<u32> {
        let mut place = [0; MAX_DIMS];
        for (axis, index) in self.axes.iter().zip(index) {
            let owner = axis.map.owner(index).filter(|_| (axis.lo..axis.hi).contains(&index))?;
            if let Some(dim) = axis.on {
                place[dim] = owner;
            }
        }
        self.grid.rank(&place)
    }

    /// All ranks that own an element: one, or its replicas.
    pub fn owners(&self, index: [i64; N]) -> NodeSet {
        self.owner(index).map_or(NodeSet::EMPTY, |owner| self.replicas(owner))
    }

    /// The ranks that own the same elements as this one, itself included; empty where it is none of
    /// the nodes.
    pub fn replicas(&self, rank: u32) -> NodeSet {
        let Some(of) = self.grid.place(rank) else { return NodeSet::EMPTY };
        let same = |place: &Place| self.axes.iter().all(|axis| axis.at(place) == axis.at(&of));
        self.grid.places().filter(same).filter_map(|place| self.grid.rank(&place)).collect()
    }

    /// A rank owns an element.
    pub fn owns(&self, rank: u32, index: [i64; N]) -> bool {
        self.grid.place(rank).is_some_and(|place| {
            self.axes.iter().zip(index).all(|(axis, index)| axis.owned(axis.at(&place)).contains(index))
        })
    }
}
