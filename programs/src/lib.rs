//! Programs that run on all devices of a world, each in a module of its own.
//!
//! Who may depend on it: images and the programs that start them.
#![no_std]
#![forbid(unsafe_code)]

pub mod cg;
pub mod himeno;
pub mod laplace;
pub mod stream;
