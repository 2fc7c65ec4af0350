//! Programs for the tests of `hamr-xacc`, and of what it needs of a rank.
//!
//! Who may depend on it: tests and their images.
#![no_std]
#![forbid(unsafe_code)]

pub mod claims;
pub mod coarrays;
pub mod collectives;
pub mod fields;
pub mod kept;
pub mod lost;
pub mod shadows;
pub mod solvers;
pub mod steps;

use hamr_comm::Fault;
pub use hamr_xacc::HostArray;

hamr_programs::handlers!();

/// Fails a program that has got something else than it should.
fn check(is_right: bool, what: &str) -> Result<(), Fault> {
    if is_right { Ok(()) } else { Err(Fault::msg(what)) }
}
