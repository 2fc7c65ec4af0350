//! Assignments between arrays, and between images of coarrays, on ranks that are threads, against the
//! same assignment of whole arrays.

mod coarray;
mod gmove;
mod many;
#[allow(dead_code, reason = "the tests without a world use the rest")]
#[path = "../pure/model.rs"]
mod model;
mod omni;
mod sums;

use hamr::{Runtime, World};
use hamr_comm::Fault;
use hamr_xacc::{Spmd, program};

/// Ranks of the worlds where nothing else is said; any even number of ranks is half of it by two where there
/// are two dimensions.
const RANKS: u32 = 6;

fn world(ranks: u32) -> World {
    Runtime::new().expect("a runtime").world_of_threads(ranks as usize).expect("a world")
}

/// Runs a program on every rank, and frees what it has made.
fn run(world: &World, f: impl Fn(&mut Spmd<'_>) -> Result<(), Fault> + Send + Sync + 'static) -> Result<(), String> {
    run_once(world, move |w| w.scope(|w| f(w)))
}

/// Runs a program on every rank.
fn run_once(
    world: &World,
    f: impl Fn(&mut Spmd<'_>) -> Result<(), Fault> + Send + Sync + 'static,
) -> Result<(), String> {
    let result = world.run_program(move |task| program(task, &f).map(|()| 0));
    result.map(|_| ()).map_err(|e| e.to_string())
}
