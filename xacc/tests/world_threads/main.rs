//! Assignments between arrays, and between images of coarrays, on ranks that are threads, against the
//! same assignment of whole arrays.

mod alone;
mod coarray;
mod failed;
mod gmove;
mod kept;
mod many;
mod mismatches;
#[allow(dead_code, reason = "the tests without a world use the rest")]
#[path = "../pure/model.rs"]
mod model;
mod omni;
mod omni_loops;
mod omni_shadows;
mod rows;
mod sums;
mod values;

use hamr::{Runtime, World};
use hamr_comm::Fault;
use hamr_xacc::collective::Sum;
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

/// Whatever a program finds in the front of the segments, which slots are in, it is no partner's.
#[test]
fn what_others_have_left_in_slots_is_no_meeting() {
    let world = world(3);
    // A program has four sums and its end; words are hardly ever started anew.
    for (nth, run) in (0..).zip([0u32, 0, 1, 1, 2, 2]) {
        let left = [5 * nth + 1 + nth % 2, run];
        let bytes: Vec<u8> = left.map(u32::to_le_bytes).concat().repeat(512);
        let filled = world.run_program(move |task| {
            let world = task.world().expect("a rank");
            world.put(world.me(), 0, &bytes).map(|()| 0).map_err(Fault::from)
        });
        assert_eq!(filled.map_err(|e| e.to_string()), Ok(0));
        let summed = run_once(&world, |w| {
            // The others look before this one tells them something.
            let until = w.seconds() + if w.me() == 2 { 1e-3 } else { 0.0 };
            while w.seconds() < until {}
            for round in 0..4 {
                if w.reduce(Sum, w.me() + 10 * round)? != 3 + 30 * round {
                    return Err(Fault::msg("another sum"));
                }
            }
            Ok(())
        });
        assert_eq!(summed, Ok(()), "{left:?}");
    }
}
