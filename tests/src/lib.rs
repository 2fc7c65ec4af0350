//! See README.md.

pub mod handlers;
