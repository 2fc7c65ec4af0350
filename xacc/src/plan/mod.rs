//! Which elements go from which node to which: arithmetic without memory.
//!
//! A plan is made of two descriptions, by the node that sends and by the one that receives alike. Of
//! one pair of ranks it lists strided [`Copy`](struct@Copy)s from block to block. Along one dimension the indices
//! of both nodes are [`Pieces`](crate::dist::Pieces); their intersection repeats with the least
//! common multiple of both periods, so it is enumerated over one such period only (the interval form
//! of Stichnoth, O'Hallaron & Gross 1994, folded as in Ramaswamy & Banerjee 1995). Along several
//! dimensions it is the product.

mod copy;
mod gmove;
mod halo;
mod merge;
mod product;
mod zones;

pub(crate) use copy::Short;
pub use copy::{Copy, Level, Spans};
pub use gmove::Gmove;
pub use halo::{Halo, Reflect};
pub use product::Copies;
