//! Ranks of hosted images that call each other.

use hamr::WaitMode;
use hamr_tests::devices::world;
use hamr_tests::lanes;

#[test]
fn every_rank_calls_every_rank() {
    for (ranks, rounds) in [(1, 300), (2, 1000), (3, 200), (5, 50)] {
        lanes::check_calls(&world(ranks, WaitMode::Adaptive), rounds);
    }
    for wait in [WaitMode::Sleep, WaitMode::Spin] {
        lanes::check_calls(&world(3, wait), 50);
    }
}

#[test]
fn calls_of_a_task_overlap() {
    lanes::check_overlap(&world(2, WaitMode::Adaptive));
    lanes::check_overlap(&world(2, WaitMode::Sleep));
}

#[test]
fn unread_replies_keep_no_slot() {
    lanes::check_unread(&world(2, WaitMode::Adaptive));
    lanes::check_unread(&world(2, WaitMode::Sleep));
}

#[test]
fn a_ring_goes_as_deep_as_there_are_places() {
    for ranks in [1, 2, 4] {
        lanes::check_ring(&world(ranks, WaitMode::Adaptive));
    }
}

#[test]
fn messages_without_a_result_arrive_once() {
    lanes::check_sends(&world(3, WaitMode::Adaptive));
    lanes::check_sends(&world(2, WaitMode::Sleep));
}

#[test]
fn failures_are_named() {
    lanes::check_failures(&world(2, WaitMode::Adaptive));
}
