//! A world of so many ranks that they announce what they publish (abi §13.4).

use hamr::{Options, WorldOptions};
use hamr_tests::{devices, gas};
use hamr_tests_kernels::lanes::ring_and_one;

const RANKS: usize = 200;

/// Each rank calls the one behind it, then all call one; each call has its own result. Then all send messages to one
/// that stalls.
#[test]
fn many_ranks_call_each_other_and_one() {
    let options = WorldOptions::default();
    let rank = Options { start_deadline: devices::START_TIMEOUT, ..options.rank };
    let options = WorldOptions { rank, ..options };
    let world = devices::runtime().world_with(&vec!["shm"; RANKS], devices::image("shm"), options).expect("a world");
    assert_eq!(world.run_all(ring_and_one::with(7, 20)).expect("all ranks"), vec![40; RANKS]);
    gas::check_incast(&world, 20, 100);
}
