//! How arrays lie on the nodes of a world: arithmetic without memory.
//!
//! [`Nodes`] gives the ranks of an executing set a shape, a [`Template`] is a range of indices that is
//! distributed over it, a [`Shape`] is that of an array aligned with it, and a [`Desc`] adds where
//! each element is in memory. All of them are values that every node computes alike, so a node knows
//! the place of any element on any other node. Indices are global, from 0 unless a range says
//! otherwise, and `i64`: an index into a halo may be negative.

mod desc;
mod dim;
mod extent;
mod nodes;
mod pieces;
mod set;
mod shape;
mod share;
mod template;
mod width;

pub use crate::error::DistError;
pub(crate) use crate::error::{or_refuse, refuse};
pub use desc::Desc;
pub use dim::Dist;
pub use extent::Extent;
pub use nodes::Nodes;
pub use pieces::Pieces;
pub(crate) use set::MOST_RANKS;
pub use set::NodeSet;
pub(crate) use shape::Axis;
pub use shape::{Align, Shape, on, whole};
pub use share::{Reach, Run, Runs, Share};
pub use template::Template;
pub use width::{Width, width};

/// Dimensions of nodes, templates and arrays at most.
pub const MAX_DIMS: usize = 7;

/// Indices and sizes are less than this, so that sums of a few of them do not overflow.
const MOST: i64 = 1 << 56;
