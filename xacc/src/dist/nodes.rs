//! Nodes in a shape.

use super::MAX_DIMS;
use super::set::NodeSet;
use crate::error::{DistError, or_refuse, refuse};
use crate::int::Int;
use crate::section::Sel;

/// Nodes in row-major order over a part of an executing set, with any number of dimensions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Grid {
    /// The executing set.
    pub(crate) team: NodeSet,
    /// This node.
    pub(crate) me: u32,
    /// The number in the executing set of the node at 0 of all dimensions.
    pub(crate) first: u32,
    /// Dimensions in use.
    pub(crate) dims: usize,
    /// Nodes along each dimension, and the distance of their numbers.
    axes: [(u32, u32); MAX_DIMS],
}

/// Coordinates of a node; those of dimensions that do not exist are 0.
pub(crate) type Place = [u32; MAX_DIMS];

impl Grid {
    /// All nodes of a set in one dimension.
    pub(crate) fn line(team: NodeSet, me: u32) -> Self {
        Self {
            team,
            me,
            first: 0,
            dims: 1,
            axes: core::array::from_fn(|dim| if dim == 0 { (team.len(), 1) } else { (1, 1) }),
        }
    }

    pub(crate) fn extent(&self, dim: usize) -> u32 {
        self.axes.get(dim).map_or(1, |axis| axis.0)
    }

    /// The number in the executing set of the node at a place.
    pub(crate) fn number(&self, at: &Place) -> u32 {
        self.first + at.iter().zip(&self.axes).map(|(at, axis)| at * axis.1).sum::<u32>()
    }

    /// The rank of the node at a place.
    pub(crate) fn rank(&self, at: &Place) -> Option<u32> {
        self.team.rank(self.number(at))
    }

    /// Where a rank is, if it is one of the nodes.
    pub(crate) fn place(&self, rank: u32) -> Option<Place> {
        let mut rest = self.team.number(rank)?.checked_sub(self.first)?;
        let mut place = [0; MAX_DIMS];
        for (at, (extent, stride)) in place.iter_mut().zip(self.axes).take(self.dims) {
            // The distances of outer dimensions are larger than all numbers within them.
            (*at, rest) = (rest / stride, rest % stride);
            if *at >= extent {
                return None;
            }
        }
        (rest == 0).then_some(place)
    }

    /// The places of all nodes, in the order of their numbers.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        let (dims, axes) = (self.dims, self.axes);
        let total: u32 = axes.iter().take(dims).map(|axis| axis.0).product();
        (0..total).map(move |mut nth| {
            let mut place = [0; MAX_DIMS];
            for dim in (0..dims).rev() {
                (place[dim], nth) = (nth % axes[dim].0, nth / axes[dim].0);
            }
            place
        })
    }

    /// Their ranks.
    pub(crate) fn set(&self) -> NodeSet {
        self.places().filter_map(|place| self.rank(&place)).collect()
    }
}

/// The nodes of an executing set in `R` dimensions, row-major: the last coordinate is that of
/// neighbouring numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nodes<const R: usize> {
    pub(super) grid: Grid,
}

impl<const R: usize> Nodes<R> {
    /// The nodes of `team` as rank `me` sees them.
    ///
    /// # Errors
    /// The extents do not multiply to the size of the set, or `me` is no member.
    pub fn new(team: NodeSet, me: u32, shape: [impl Int; R]) -> Result<Self, DistError> {
        const { assert!(R <= MAX_DIMS) };
        let shape = shape.map(|n| u32::try_from(n.number()).unwrap_or(u32::MAX));
        let total = shape.iter().fold(1u64, |product, n| product.saturating_mul(u64::from(*n)));
        if total != u64::from(team.len()) {
            return Err(DistError::Nodes { expected: team.len(), got: total });
        }
        if !team.contains(me) {
            return Err(DistError::NoNode);
        }
        let (mut axes, mut stride) = ([(1, 1); MAX_DIMS], 1);
        for (axis, extent) in axes.iter_mut().zip(shape).rev() {
            *axis = (extent, stride);
            stride *= extent;
        }
        Ok(Self { grid: Grid { team, me, first: 0, dims: R, axes } })
    }

    /// Nodes along each dimension.
    pub fn shape(&self) -> [i64; R] {
        core::array::from_fn(|dim| self.grid.extent(dim).into())
    }

    /// The coordinates of this node.
    ///
    /// # Panics
    /// This node is none of them, as may be behind [`Self::sub`].
    #[track_caller]
    pub fn here(&self) -> [i64; R] {
        or_refuse(self.place(self.grid.me).ok_or(DistError::NoNode))
    }

    /// The coordinates of a rank of the world; `None`: it is none of these nodes.
    pub fn place(&self, rank: u32) -> Option<[i64; R]> {
        let place = self.grid.place(rank)?;
        Some(core::array::from_fn(|dim| place[dim].into()))
    }

    /// The number in the executing set of the node at these coordinates.
    ///
    /// # Panics
    /// There is no such node.
    #[track_caller]
    pub fn image(&self, at: [impl Int; R]) -> i64 {
        let mut place = [0; MAX_DIMS];
        for (dim, (at, to)) in at.into_iter().zip(&mut place).enumerate() {
            let (index, extent) = (at.number(), self.grid.extent(dim));
            match u32::try_from(index) {
                Ok(at) if at < extent => *to = at,
                _ => refuse(DistError::Outside { dim, index, lo: 0, hi: extent.into() }),
            }
        }
        self.grid.number(&place).into()
    }

    /// The number of the node `by` steps from this one along a dimension, if there is one.
    ///
    /// # Panics
    /// This node is none of them.
    #[track_caller]
    pub fn neighbour(&self, dim: usize, by: impl Int) -> Option<i64> {
        let (mut at, extents) = (self.here(), self.shape());
        let own = at.get_mut(dim)?;
        *own = own.checked_add(by.number()).filter(|at| (0..*extents.get(dim).unwrap_or(&0)).contains(at))?;
        Some(self.image(at))
    }

    /// The nodes that a selection names; [`Sel::Own`] is this node's coordinate.
    ///
    /// # Panics
    /// It names a node that does not exist, or its own coordinate where this node has none.
    #[track_caller]
    pub fn set(&self, sel: [Sel; R]) -> NodeSet {
        or_refuse(self.select(sel)).set()
    }

    /// The nodes that a selection names, as nodes of their own: dimensions of one index are dropped.
    ///
    /// # Errors
    /// It names a node that does not exist, steps backwards, or leaves other than `S` dimensions.
    pub fn sub<const S: usize>(&self, sel: [Sel; R]) -> Result<Nodes<S>, DistError> {
        let grid = self.select(sel)?;
        if grid.dims != S {
            return Err(DistError::Rank { expected: S, got: grid.dims });
        }
        Ok(Nodes { grid })
    }

    /// The selected nodes, without the dimensions of which one index is selected.
    fn select(&self, sel: [Sel; R]) -> Result<Grid, DistError> {
        let mut kept = Grid { dims: 0, axes: [(1, 1); MAX_DIMS], ..self.grid };
        for (dim, sel) in sel.into_iter().enumerate() {
            let (extent, stride) = self.grid.axes[dim];
            let sel = match sel {
                Sel::Own => Sel::Index(self.grid.place(self.grid.me).ok_or(DistError::NoNode)?[dim].into()),
                sel => sel,
            };
            let part = sel.within(dim, 0..extent.into())?;
            if part.step < 0 || part.len < 1 {
                return Err(DistError::Extent { dim, lo: part.first, hi: part.first + part.len * part.step });
            }
            // Within the extent, so these fit.
            kept.first += part.first as u32 * stride;
            if !matches!(sel, Sel::Index(_)) {
                kept.axes[kept.dims] = (part.len as u32, stride * part.step as u32);
                kept.dims += 1;
            }
        }
        Ok(kept)
    }
}

impl<const R: usize> From<Nodes<R>> for NodeSet {
    fn from(nodes: Nodes<R>) -> Self {
        nodes.grid.set()
    }
}
