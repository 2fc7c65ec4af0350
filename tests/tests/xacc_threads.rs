//! Programs of `hamr-xacc` on ranks that are threads of this process.

use hamr::World;
use hamr_tests::{devices, xacc};

fn world(ranks: usize) -> World {
    devices::runtime().world_of_threads(ranks).expect("a world")
}

#[test]
fn a_claim_ends_with_its_task() {
    xacc::check_claims(world(1).node(0));
}

#[test]
fn collectives_are_in_the_order_of_the_nodes() {
    for ranks in 1..=8 {
        xacc::check_collectives(&world(ranks), 1);
    }
}

#[test]
fn a_mismatch_names_both_sides() {
    xacc::check_mismatches(&world(2), xacc::pairs());
    xacc::check_mismatches(&world(3), xacc::pairs().filter(|(first, others)| (first + others) % 4 == 1));
}

#[test]
fn himenos_field_has_the_same_bits_on_any_nodes() {
    xacc::check_himeno(&world(6), false);
}

#[test]
fn shadows_are_copies_of_their_owners_elements() {
    for ranks in [1, 4] {
        xacc::check_shadows(&world(ranks));
    }
}

#[test]
fn wrong_uses_of_arrays_end_the_run_with_their_reason() {
    xacc::check_refused(&world(2));
}

#[test]
fn loops_over_arrays_are_those_of_one_node() {
    for ranks in [1, 3, 4] {
        xacc::check_loops(&world(ranks));
    }
}
