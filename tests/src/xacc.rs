//! What programs of `hamr-xacc` do, checked on any world.

mod claims;
mod collectives;
mod himeno;
mod shadows;
mod solvers;

pub use claims::check_claims;
pub use collectives::{check_collectives, check_mismatches, pairs};
pub use himeno::check_himeno;
pub use shadows::{check_refused, check_shadows};
pub use solvers::{check_cg, check_loops};
