//! Coarrays and global-view arrays on the devices of a world.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod array;
mod coarray;
pub mod collective;
pub mod dist;
pub mod each;
mod error;
mod exact;
mod exchange;
mod fabric;
mod host;
mod kept;
pub mod math;
pub mod plan;
mod posts;
pub mod progress;
pub mod section;
mod spmd;
mod what;

#[doc(hidden)]
pub use array::Sent;
pub use array::{Array, Section, SectionMut, SharedArray, Source};
#[doc(hidden)]
pub use coarray::kind;
pub use coarray::{Coarray, Local, Locks, Remote, View, ViewMut};
pub use exact::Exact;
#[doc(hidden)]
pub use hamr_comm::__entry;
pub use hamr_xacc_macros::{each, s};
pub use host::HostArray;
pub use kept::Kept;
pub use spmd::{Spmd, program};

/// What programs use.
pub mod prelude {
    pub use crate::collective::{All, And, Any, FirstMax, FirstMin, LastMax, LastMin, Max, Min, Or, Prod, Sum, Xor};
    pub use crate::dist::Dist::{Block, BlockOf, Cyclic, CyclicOf, GBlock, Whole};
    pub use crate::dist::Width::Full;
    pub use crate::dist::{NodeSet, Nodes, Shape, Share, on, whole, width};
    pub use crate::math::{powf, sqrt};
    pub use crate::plan::Halo;
    pub use crate::progress::Progress;
    pub use crate::section::Sel::{self, Own};
    pub use crate::section::{Step, triplet};
    pub use crate::{Array, Coarray, HostArray, Kept, Locks, Spmd, each, s};
    pub use hamr_comm::world::AtomicOp;
    pub use hamr_comm::{Fault, Migratable, offload};
}
