//! Programs of `hamr-xacc` on ranks that are threads of this process.

use hamr::World;
use hamr_tests::{devices, xacc};

fn world(ranks: usize) -> World {
    devices::runtime().world_of_threads(ranks).expect("a world")
}

hamr_tests::xacc_cases! {
    world, collectives: 1..=8, himeno: [6], shadows: [1, 4], loops: [1, 3, 4], coarrays: [1, 2, 3, 5],
}

#[test]
fn a_mismatch_names_both_sides() {
    xacc::check_mismatches(&world(2), xacc::pairs());
    xacc::check_mismatches(&world(3), xacc::pairs().filter(|(first, others)| (first + others) % 4 == 1));
}
