//! Where the elements of an array are in memory.

use super::nodes::Place;
use super::pieces::Pieces;
use super::set::NodeSet;
use super::shape::Shape;
use super::share::Share;
use crate::error::DistError;
use crate::section::{Region, Sel, Triplet};
use core::ops::{Deref, Range};

/// Bytes that every row is a multiple of, and bytes that none is a multiple of: rows that far apart
/// share a set of a first-level cache.
const LINE: usize = 64;
const UNEVEN: usize = 512;

/// The description that an array keeps: its [`Shape`], and where each element is in the block that
/// every node has memory for. The blocks of all nodes have the same layout, so that each node finds
/// any element on any other. All places and distances count elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Desc<'g, const N: usize> {
    shape: Shape<'g, N>,
    extents: [usize; N],
    pitches: [usize; N],
    /// The coordinates of this node, if it is one of the nodes.
    place: Option<Place>,
    /// The indices with a place in this node's block; along a scattered dimension, around them.
    held: [(i64, i64); N],
    /// The place of index 0 of all dimensions, which may be outside; `None`: a dimension is scattered.
    origin: Option<i64>,
    /// [`Self::close`] was last.
    closed: bool,
}

impl<'g, const N: usize> Shape<'g, N> {
    /// The layout of an array with elements of so many bytes.
    ///
    /// # Errors
    /// It has more elements than addresses count.
    pub fn desc(&self, element: usize) -> Result<Desc<'g, N>, DistError> {
        self.layout(element, if self.dense { |row, _| Ok(row) } else { padded })
    }

    /// The same with rows next to each other, as of elements in a slice.
    ///
    /// # Errors
    /// As [`Self::desc`].
    pub fn dense(&self, element: usize) -> Result<Desc<'g, N>, DistError> {
        self.layout(element, |row, _| Ok(row))
    }

    fn layout(
        &self,
        element: usize,
        pitch: impl Fn(usize, usize) -> Result<usize, DistError>,
    ) -> Result<Desc<'g, N>, DistError> {
        let extents = self.axes.map(|axis| axis.extent() as usize);
        let mut pitches = [1usize; N];
        for dim in (0..N - 1).rev() {
            let row = pitches[dim + 1].checked_mul(extents[dim + 1]).ok_or(DistError::TooLarge)?;
            pitches[dim] = if dim == N - 2 { pitch(row, element)? } else { row };
        }
        let total = pitches[0].checked_mul(extents[0]).and_then(|total| total.checked_mul(element));
        total.filter(|bytes| isize::try_from(*bytes).is_ok()).ok_or(DistError::TooLarge)?;
        let mut desc =
            Desc { shape: *self, extents, pitches, place: None, held: [(0, 0); N], origin: None, closed: false };
        desc.open();
        Ok(desc)
    }
}

/// Elements from row to row: whole cache lines, unless a row is shorter than one.
fn padded(row: usize, element: usize) -> Result<usize, DistError> {
    let bytes = row.checked_mul(element).ok_or(DistError::TooLarge)?;
    if bytes < LINE {
        return Ok(row);
    }
    // Elements of the smallest whole number of lines.
    let unit = (1..=LINE).find(|n| (n * element).is_multiple_of(LINE)).unwrap_or(LINE);
    let pitch = row.checked_next_multiple_of(unit).ok_or(DistError::TooLarge)?;
    let even = (pitch * element).is_multiple_of(UNEVEN);
    Ok(if even { pitch + unit } else { pitch })
}

impl<'g, const N: usize> Desc<'g, N> {
    /// No element is here any more, whatever is asked of this description as this node's: others write
    /// the block. What is asked of a rank stays as it is.
    pub(crate) fn close(&mut self) {
        (self.place, self.held, self.closed) = (None, [(0, 0); N], true);
    }

    /// [`Self::close`] was last.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// This node's elements are here.
    pub(crate) fn open(&mut self) {
        let Shape { grid, axes, .. } = self.shape;
        self.place = grid.place(grid.me);
        let held = axes.map(|axis| self.place.map_or(0..0, |place| axis.held(axis.at(&place))));
        self.held = held.map(|held| (held.start, held.end));
        let affine = !axes.iter().any(|axis| axis.is_scattered());
        let first = self.held.iter().zip(self.pitches).map(|(held, pitch)| held.0 * pitch as i64).sum::<i64>();
        self.origin = affine.then_some(-first);
        self.closed = false;
    }

    /// Its shape.
    pub fn shape(&self) -> &Shape<'g, N> {
        &self.shape
    }

    /// Places along each dimension: the most that a node needs, shadow included.
    pub fn extents(&self) -> [usize; N] {
        self.extents
    }

    /// Elements from one place to the next along each dimension; 1 along the last.
    pub fn pitches(&self) -> [usize; N] {
        self.pitches
    }

    /// Elements that every node has memory for.
    pub fn elements(&self) -> usize {
        // No overflow: `desc` has checked the product.
        self.pitches[0] * self.extents[0]
    }

    /// Words that [`Self::keep`] needs.
    pub fn room(&self) -> usize {
        self.shape.axes.iter().map(|axis| axis.map.sizes().len()).sum()
    }

    /// The same with the sizes of general block distributions in memory that lives as long as the
    /// array.
    ///
    /// # Errors
    /// There are fewer words than [`Self::room`].
    pub fn keep<'k>(&self, mut room: &'k mut [u64]) -> Result<Desc<'k, N>, DistError> {
        let mut kept = [&[][..]; N];
        for (kept, axis) in kept.iter_mut().zip(&self.shape.axes) {
            let sizes = axis.map.sizes();
            let (own, rest) = room.split_at_mut_checked(sizes.len()).ok_or(DistError::TooLarge)?;
            own.copy_from_slice(sizes);
            (*kept, room) = (own, rest);
        }
        let mut kept = kept.into_iter();
        let axes = self.shape.axes.map(|axis| axis.kept(kept.next().unwrap_or_default()));
        let Self { extents, pitches, place, held, origin, closed, .. } = *self;
        let shape = Shape { grid: self.shape.grid, axes, dense: self.shape.dense };
        Ok(Desc { shape, extents, pitches, place, held, origin, closed })
    }

    /// The place of an element in this node's block; `None`: neither its own nor in its shadow.
    #[inline]
    pub fn offset(&self, index: [i64; N]) -> Option<usize> {
        let Some(origin) = self.origin else { return self.offset_of(&self.place?, index) };
        let mut at = origin;
        for ((index, held), pitch) in index.iter().zip(&self.held).zip(&self.pitches) {
            if *index < held.0 || *index >= held.1 {
                return None;
            }
            // The place is less than `elements` once all indices are held.
            at = at.wrapping_add(index.wrapping_mul(*pitch as i64));
        }
        Some(at as usize)
    }

    /// The place of an element in the block of a rank; `None`: neither its own nor in its shadow.
    pub fn offset_at(&self, rank: u32, index: [i64; N]) -> Option<usize> {
        self.offset_of(&self.shape.grid.place(rank)?, index)
    }

    fn offset_of(&self, place: &Place, index: [i64; N]) -> Option<usize> {
        // A node that has none along one dimension has none at all.
        let mut at = 0;
        for (dim, axis) in self.shape.axes.iter().enumerate() {
            at += axis.slot(axis.at(place), index[dim])? as usize * self.pitches[dim];
        }
        Some(at)
    }

    /// Why [`Self::offset`] of an index is `None`: the first dimension in which it is not here.
    #[cold]
    pub fn explain(&self, index: [i64; N]) -> DistError {
        let here = self.place.and_then(|place| {
            self.shape.axes.iter().zip(index).enumerate().find_map(|(dim, (axis, index))| {
                let (at, held) = (axis.at(&place), axis.held(axis.at(&place)));
                let not_here = DistError::NotHere { dim, index, lo: held.start, hi: held.end };
                axis.slot(at, index).is_none().then_some(not_here)
            })
        });
        here.unwrap_or(DistError::NoNode)
    }

    /// The iterations of this node: the elements that it owns.
    pub fn here(&self) -> Share<N> {
        self.shape.all()
    }

    /// The indices along a dimension that have a place in this node's block, or that are around
    /// them.
    pub(crate) fn held(&self, dim: usize) -> Range<i64> {
        self.held[dim].0..self.held[dim].1
    }

    /// The indices along a dimension that this node owns.
    pub fn owned(&self, dim: usize) -> Pieces {
        self.place.map_or(Pieces::EMPTY, |place| {
            let axis = &self.shape.axes[dim];
            axis.owned(axis.at(&place))
        })
    }

    /// The indices of this node's elements of a dimension, which are one interval or none.
    ///
    /// # Errors
    /// They are several.
    pub fn owned_range(&self, dim: usize) -> Result<Range<i64>, DistError> {
        let (lo, hi) = (self.shape.axes[dim].lo, self.shape.axes[dim].hi);
        let owned = self.owned(dim);
        let mut pieces = owned.iter();
        // One that owns nothing has an empty range at the end.
        let range = pieces.next().unwrap_or(hi..hi);
        match pieces.next() {
            None => Ok(range),
            Some(next) => Err(DistError::NotHere { dim, index: next.start - 1, lo, hi }),
        }
    }

    /// This node owns an element.
    pub(crate) fn owns_here(&self, index: [i64; N]) -> bool {
        let owns =
            |place: Place| self.shape.axes.iter().zip(index).all(|(axis, at)| axis.owned(axis.at(&place)).contains(at));
        self.place.is_some_and(owns)
    }

    /// The places of this node's own elements, where they are contiguous: always in one dimension,
    /// unless it is cyclic and its shadow full.
    pub fn contiguous(&self) -> Option<Range<usize>> {
        let Some(place) = self.place else { return (!self.is_closed()).then_some(0..0) };
        let (mut first, mut whole) = (0, 1);
        for (dim, axis) in self.shape.axes.iter().enumerate().rev() {
            let at = axis.at(&place);
            let owned = axis.owned(at);
            let Some(bounds) = owned.bounds() else { return Some(0..0) };
            let (start, end) = (axis.slot(at, bounds.start)?, axis.slot(at, bounds.end - 1)?);
            let len = owned.len();
            // Several must fill a step of this dimension, and be next to each other.
            if end - start >= len || (len > 1 && whole != self.pitches[dim]) {
                return None;
            }
            first += start as usize * self.pitches[dim];
            whole *= len as usize;
        }
        Some(first..first + whole)
    }

    /// The places of this node's own elements of the row with these indices, of which the last one does not count;
    /// `None`: they are not here, or not contiguous.
    pub fn row(&self, mut index: [i64; N]) -> Option<Range<usize>> {
        let axis = &self.shape.axes[N - 1];
        let (at, owned) = (axis.at(&self.place?), self.owned(N - 1));
        let Some(bounds) = owned.bounds() else { return Some(0..0) };
        index[N - 1] = bounds.start;
        let first = self.offset(index)?;
        let len = axis.slot(at, bounds.end - 1)? - axis.slot(at, bounds.start)? + 1;
        (len == owned.len()).then_some(first..first + len as usize)
    }

    /// A part of the array.
    ///
    /// # Errors
    /// It reaches beyond the array's indices, or has step 0.
    pub fn region(&self, sel: [Sel; N]) -> Result<Region<N>, DistError> {
        Region::new(sel, core::array::from_fn(|dim| self.shape.range(dim)))
    }

    /// All of the array.
    pub(crate) fn whole(&self) -> Region<N> {
        let all = |dim| {
            let range = self.shape.range(dim);
            Triplet { first: range.start, len: range.end - range.start, step: 1 }
        };
        Region { dims: core::array::from_fn(all) }
    }

    /// The ranks that own an element: one, or its replicas.
    pub fn owners(&self, index: [i64; N]) -> NodeSet {
        self.shape.owners(index)
    }
}

impl<'g, const N: usize> Deref for Desc<'g, N> {
    type Target = Shape<'g, N>;

    fn deref(&self) -> &Self::Target {
        &self.shape
    }
}
