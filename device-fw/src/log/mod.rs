//! What the image says: defmt's frames, from the first instruction, into the window's log ring (abi §9, `docs/logs.md`).
//!
//! A frame is collected in memory of the image, then published with one store, or counted as dropped: a logger never waits. Before
//! a host has been accepted, and after it has left, frames stay here; the next host finds them first. Handlers and this runtime
//! log through `hamr_comm::info!` and its like.

#[cfg(all(hamr_machine, not(hamr_image)))]
mod bare;
#[cfg(hamr_image)]
mod hosted;
#[cfg(any(test, hamr_image, hamr_machine))]
#[cfg_attr(test, allow(dead_code, reason = "tests make journals of their own"))]
mod journal;
#[cfg(any(hamr_image, hamr_machine))]
mod logger;
mod ring;

pub use ring::RingWriter;

#[cfg(all(hamr_machine, not(hamr_image)))]
use bare::{Keep, Memory, clock, context};
#[cfg(hamr_image)]
use hosted::{Keep, Memory, clock, context};

#[cfg(all(hamr_machine, not(hamr_image)))]
pub(crate) use bare::clock::start as start_clock;
#[cfg(any(hamr_image, hamr_machine))]
pub(crate) use logger::attach;

/// The feature bit of images that log (abi §3.6).
#[cfg(any(hamr_image, hamr_machine))]
pub(crate) const FEATURE: u32 = hamr_comm::abi::preamble::feature::LOGS;
/// A build that no image comes of: there is nobody to send frames.
#[cfg(not(any(hamr_image, hamr_machine)))]
pub(crate) const FEATURE: u32 = 0;
