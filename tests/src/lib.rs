//! See README.md.

pub mod conformance;
pub mod handlers;
