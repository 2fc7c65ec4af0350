//! Programs that run on all devices of a world, each in a module of its own.
//!
//! Who may depend on it: images and the programs that start them.
#![no_std]
#![forbid(unsafe_code)]

pub mod cg;
pub mod cg_local;
mod cg_matrix;
pub mod himeno;
pub mod himeno_files;
pub mod himeno_local;
pub mod laplace;
mod run;
pub mod stream;

pub use hamr_xacc::HostArray;
