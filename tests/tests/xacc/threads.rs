//! Programs of `hamr-xacc` on ranks that are threads of this process.

use hamr::{Image, World, WorldOptions};
use hamr_tests::{devices, xacc};
use hamr_tests_kernels::peers::waits_for_ever;

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

#[test]
fn starts_that_fail_hide_no_failure() {
    xacc::check_unsent_starts(&world(2));
    // A start waits for a run, which can fail, and not for its ticket.
    let mut options = WorldOptions::default();
    options.rank.tickets = 1;
    // No rank has an image.
    let image = Image::program(std::env::current_exe().expect("this test"), [""; 0]).expect("a file");
    let world = devices::runtime().world_with(&["thread"; 2], image, options).expect("a world");
    for _ in 0..10 {
        drop(world.start(waits_for_ever::with(2, 1)).expect("sent"));
        let error = world.start(waits_for_ever::with(2, 1)).expect_err("rank 1 fails").to_string();
        assert!(error.contains("as asked"), "{error}");
    }
}
