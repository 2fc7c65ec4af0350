//! GASNet's interface between hosted images.

use hamr::WaitMode;
use hamr_tests::devices::world;
use hamr_tests::{gas, processes};
use hamr_tests_kernels::gas::{floods_for_ever, waits_in_a_barrier};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

#[test]
fn images_send_messages() {
    for (ranks, each) in [(1, 1000), (2, 20_000), (4, 500)] {
        let world = world(ranks, WaitMode::Adaptive);
        gas::check_messages(&world);
        gas::check_checksums(&world, 20);
        gas::check_flood(&world, each);
        gas::check_incast(&world, each, 500);
        gas::check_teams(&world);
    }
}

#[test]
fn images_that_sleep_are_notified() {
    for wait in [WaitMode::Sleep, WaitMode::Spin] {
        let world = world(3, wait);
        gas::check_messages(&world);
        gas::check_flood(&world, 100);
    }
}

#[test]
fn wrong_messages_and_tables_are_named() {
    let world = world(2, WaitMode::Adaptive);
    gas::check_limits(&world);
    gas::check_unequal(&world);
    gas::check_bad_replies(&world);
}

#[test]
fn barriers_agree_on_names() {
    for (ranks, wait) in [(2, WaitMode::Adaptive), (3, WaitMode::Sleep), (5, WaitMode::Adaptive)] {
        gas::check_barriers(&world(ranks, wait), 12);
    }
}

#[test]
fn handlers_that_panic_or_exit_end_what_they_run_in() {
    gas::check_ends(&world(3, WaitMode::Adaptive), || world(3, WaitMode::Adaptive));
}

#[test]
fn transfers_arrive_by_both_paths() {
    gas::check_transfers(&world(3, WaitMode::Adaptive));
    gas::check_transfers(&world(2, WaitMode::Sleep));
}

#[test]
fn hostile_ranks_garble_values_and_no_more() {
    gas::check_hostile(&world(3, WaitMode::Adaptive), 0..12);
}

/// The others end within two seconds, and the error names the rank.
#[test]
fn a_killed_rank_ends_floods_and_barriers() {
    for is_barrier in [false, true] {
        let world = world(3, WaitMode::Adaptive);
        let ranks = processes::children(std::process::id());
        assert_eq!(ranks.len(), 3);
        std::thread::scope(|scope| {
            let run = scope.spawn(|| match is_barrier {
                false => world.run_all(floods_for_ever::with()).map(drop),
                true => world.run_all(waits_in_a_barrier::with()).map(drop),
            });
            // Behind the attach, which is a matter of microseconds.
            std::thread::sleep(Duration::from_millis(300));
            let begin = Instant::now();
            kill_process(Pid::from_raw(ranks[1] as i32).expect("a process"), Signal::KILL).expect("this test's own");
            assert!(run.join().expect("no panic").is_err());
            let lost = world.wait().expect_err("a rank was killed");
            assert_eq!(lost.rank.0, 1, "{lost}");
            while ranks.iter().any(|rank| !processes::has_ended(*rank)) {
                assert!(begin.elapsed() < Duration::from_secs(2), "a rank is left");
                std::thread::sleep(Duration::from_millis(5));
            }
        });
    }
}
