//! Devices at the other ranks of a job of MPI: `mpi:RANK` (docs/clusters.md).
//!
//! ```text
//! rank 0   program ── MpiLauncher ── Channel ══ Pipe ~~ MPI ~~ Pipe ══ Channel ── serve ── Keeper ── device   rank 1
//! ```
//!
//! What travels are the frames of `hamr_net`, as over TCP; here is what carries their bytes. MPI says who is at the other end, and
//! a rank that is lost ends the job: there are no keys, and no way back to a rank.
//!
//! May use: `hamr`, `hamr-net`, and the crate `mpi`, two-sided messages alone. The main workspace does not know this one.

mod job;
mod launcher;
mod operation;
mod pipe;
mod serve;

pub use job::{Job, Membership, NoJob, Said};
pub use launcher::MpiLauncher;
pub use pipe::Pipe;
pub use serve::serve;
