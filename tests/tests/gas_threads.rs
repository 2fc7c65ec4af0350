//! GASNet's interface between ranks that are threads of this process.

use hamr::World;
use hamr_tests::{devices, gas};

fn world(ranks: usize) -> World {
    devices::runtime().world_of_threads(ranks).expect("a world")
}

#[test]
fn messages_arrive_as_they_were_sent() {
    for ranks in 1..=4 {
        gas::check_messages(&world(ranks));
    }
}

#[test]
fn payloads_have_their_checksums() {
    for ranks in [1, 2, 3] {
        gas::check_checksums(&world(ranks), 30);
    }
}

#[test]
fn floods_lose_nothing() {
    for (ranks, each) in [(1, 1000), (2, 5000), (3, 1000), (5, 200)] {
        gas::check_flood(&world(ranks), each);
    }
}

#[test]
fn messages_beyond_the_limits_are_refused_by_name() {
    for ranks in [1, 2, 3] {
        gas::check_limits(&world(ranks));
    }
}

#[test]
fn unequal_handlers_are_named_with_both_ranks() {
    for ranks in [1, 2, 4] {
        gas::check_unequal(&world(ranks));
    }
}

#[test]
fn replies_that_cannot_be_sent_are_named() {
    for ranks in [1, 2] {
        gas::check_bad_replies(&world(ranks));
    }
}

#[test]
fn barriers_agree_on_names() {
    for ranks in [1, 2, 3, 5] {
        gas::check_barriers(&world(ranks), 12);
    }
}

#[test]
fn handlers_that_panic_or_exit_end_what_they_run_in() {
    for ranks in 1..=3 {
        gas::check_ends(&world(ranks), || world(ranks));
    }
}

#[test]
fn transfers_arrive_by_both_paths() {
    for ranks in [1, 2, 4] {
        gas::check_transfers(&world(ranks));
    }
}

#[test]
fn hostile_ranks_garble_values_and_no_more() {
    gas::check_hostile(&world(3), 0..12);
}
