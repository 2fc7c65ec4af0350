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

#[test]
fn a_claim_ends_with_its_task() {
    xacc::check_claims(world(2).node(1));
}

#[test]
fn collectives_are_in_the_order_of_the_nodes() {
    for ranks in [1, 2, 3, 5, 8] {
        xacc::check_collectives(&world(ranks), 3);
    }
}

#[test]
fn a_mismatch_names_both_sides() {
    xacc::check_mismatches(&world(2), xacc::pairs().filter(|(first, others)| (first + others) % 3 == 1));
}

#[test]
fn himenos_field_has_the_same_bits_on_any_nodes() {
    for ranks in 1..=8 {
        xacc::check_himeno(&world(ranks), ranks == 3);
    }
}

#[test]
fn shadows_are_copies_of_their_owners_elements() {
    for ranks in [2, 6] {
        xacc::check_shadows(&world(ranks));
    }
}

#[test]
fn wrong_uses_of_arrays_end_the_run_with_their_reason() {
    xacc::check_refused(&world(2));
}

#[test]
fn loops_over_arrays_are_those_of_one_node() {
    xacc::check_loops(&world(2));
}

#[test]
fn cg_finds_the_eigenvalue_on_any_nodes() {
    for ranks in [1, 2, 6] {
        xacc::check_cg(&world(ranks));
    }
}
