//! Index ranges that are distributed over nodes.

use super::MAX_DIMS;
use super::dim::{Dist, Map};
use super::extent::Extent;
use super::nodes::{Grid, Nodes};
use super::shape::{Axis, Shape};
use super::width::Width;
use crate::error::DistError;

/// Index ranges, and the nodes that they are to be distributed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Template<const D: usize> {
    grid: Grid,
    extents: [Extent; D],
}

impl<const R: usize> Nodes<R> {
    /// A template of one index range per dimension, to be distributed over these nodes.
    pub fn template<const D: usize>(self, extent: [impl Into<Extent>; D]) -> Template<D> {
        const { assert!(D >= 1 && D <= MAX_DIMS) };
        Template { grid: self.grid, extents: extent.map(Into::into) }
    }
}

impl<const D: usize> Template<D> {
    /// Distributes each dimension. Those that are not [`Dist::Whole`] lie along the dimensions of
    /// the nodes, in order; the result is the shape of an array that is the template itself.
    ///
    /// # Errors
    /// Another number of dimensions is distributed than the nodes have, or a distribution does not
    /// fit its dimension.
    pub fn distribute<'g>(self, by: [Dist<'g>; D]) -> Result<Shape<'g, D>, DistError> {
        let got = by.iter().filter(|by| **by != Dist::Whole).count();
        if got != self.grid.dims {
            return Err(DistError::Rank { expected: self.grid.dims, got });
        }
        let mut along = 0;
        let mut axes = [Axis::NONE; D];
        for (dim, axis) in axes.iter_mut().enumerate() {
            let Extent { lo, hi } = self.extents[dim].checked(dim)?;
            let on = (by[dim] != Dist::Whole).then(|| {
                along += 1;
                along - 1
            });
            let nodes = on.map_or(1, |on| self.grid.extent(on));
            *axis = Axis { lo, hi, map: Map::new(dim, lo, hi, nodes, by[dim])?, on, shadow: Width::NONE };
        }
        Ok(Shape::new(self.grid, axes))
    }
}
