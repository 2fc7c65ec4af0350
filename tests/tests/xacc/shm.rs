//! Programs of `hamr-xacc` on processes.

use hamr::{Options, World, WorldOptions};
use hamr_tests::{devices, xacc};

fn world(ranks: usize) -> World {
    let options = WorldOptions::default();
    let rank = Options { start_deadline: devices::START_TIMEOUT, segment: 8 << 20, ..options.rank };
    let image = devices::image("shm");
    let world = devices::runtime().world_with(&vec!["shm"; ranks], image, WorldOptions { rank, ..options });
    world.expect("a world")
}

hamr_tests::xacc_cases! {
    world, collectives: [1, 2, 3, 5, 8], himeno: 1..=8, shadows: [2, 6], loops: [2], coarrays: [1, 2, 4],
}

#[test]
fn a_mismatch_names_both_sides() {
    xacc::check_mismatches(&world(2), xacc::pairs().filter(|(first, others)| (first + others) % 3 == 1));
}

#[test]
fn a_long_run_reports_how_far_it_is() {
    xacc::check_progress(&world(2));
}

#[test]
fn cg_finds_the_eigenvalue_on_any_nodes() {
    for ranks in [1, 2, 6] {
        xacc::check_cg(&world(ranks));
    }
}
