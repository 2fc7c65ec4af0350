//! Ranks of hosted images that reach each other's memory.

use hamr::{CallError, WaitMode};
use hamr_tests::devices::world;
use hamr_tests::{peers, processes, times};
use hamr_tests_kernels::peers::{barriers, waits_for_ever, waits_within};
use hamr_tests_kernels::worlds::place;
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

#[test]
fn ranks_put_and_get() {
    for ranks in 1..=4 {
        let world = world(ranks, WaitMode::Adaptive);
        peers::check_copies(&world);
        peers::check_copies_of_others(&world);
    }
}

#[test]
fn strided_copies_are_as_plain_loops() {
    peers::check_strides(&world(3, WaitMode::Adaptive), 300);
}

#[test]
fn atomics_of_ranks_are_atomic() {
    for ranks in [1, 2, 4] {
        peers::check_atomics(&world(ranks, WaitMode::Adaptive), 20_001);
    }
}

#[test]
fn signals_arrive_behind_their_puts() {
    for (wait, rounds) in [(WaitMode::Adaptive, 2000), (WaitMode::Sleep, 200), (WaitMode::Spin, 200)] {
        peers::check_signals(&world(3, wait), rounds, 0);
    }
    // The waiting rank has been asleep for long.
    peers::check_signals(&world(2, WaitMode::Adaptive), 50, 3000);
}

#[test]
fn no_rank_passes_a_barrier_alone() {
    for (ranks, rounds) in [(1, 10_000), (2, 10_000), (3, 1000), (4, 1000), (13, 50)] {
        peers::check_barriers(&world(ranks, WaitMode::Adaptive), rounds);
    }
    peers::check_barriers(&world(3, WaitMode::Sleep), 100);
}

/// Two counts on two processors: what the model of barriers explores, at full speed.
#[test]
fn ten_thousand_barriers_of_two_ranks_end() {
    let world = world(2, WaitMode::Spin);
    for _ in 0..10 {
        peers::check_barriers(&world, 500);
    }
}

#[test]
fn a_wait_for_a_signal_has_a_limit() {
    let world = world(2, WaitMode::Adaptive);
    assert_eq!(world.run_all(waits_within::with(2000)).expect("both"), [true, true]);
}

#[test]
fn a_run_returns_every_ranks_value() {
    let world = world(3, WaitMode::Adaptive);
    assert_eq!(world.run_all(place::with()).expect("all"), [(0, 3), (1, 3), (2, 3)]);
    assert_eq!(world.run(place::with()).expect("all"), (0, 3));
}

/// The others wait for the one that failed: they are cancelled, and the next run starts over.
#[test]
fn a_failed_run_leaves_a_world_that_runs() {
    let world = world(3, WaitMode::Adaptive);
    for how in 0..8 {
        peers::check_barriers(&world, 7);
        let at = how % 3;
        let begin = Instant::now();
        let failed = world.run(waits_for_ever::with(how, at)).expect_err("one fails");
        assert_eq!((failed.rank.0, failed.name), (at, format!("rank {at} (shm)")));
        let text = failed.error.to_string();
        assert!(text.contains("as asked") || text.contains("was asked to panic"), "{text}");
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    }
    peers::check_barriers(&world, 100);
    assert_eq!(world.outcome(), None);
}

#[test]
fn a_run_has_a_limit() {
    let world = world(2, WaitMode::Adaptive);
    let limit = Duration::from_millis(50);
    let failed = world.run_within(waits_for_ever::with(0, 9), limit).expect_err("it never ends");
    assert!(matches!(failed.error, CallError::Deadline(_) | CallError::Cancelled(_)), "{failed}");
    peers::check_barriers(&world, 20);
}

/// Who waits for whom: the first rank for a signal, the others for the first in a barrier, directly or
/// through one that waits for it.
#[test]
fn a_world_that_stalls_shows_what_its_ranks_wait_for() {
    let world = world(3, WaitMode::Adaptive);
    std::thread::scope(|scope| {
        let run = scope.spawn(|| world.run_within(waits_for_ever::with(0, 9), Duration::from_secs(2)));
        let texts = || world.stalls().iter().map(ToString::to_string).collect::<Vec<_>>();
        // A barrier has rounds: for a moment a rank waits in it for one that came after it.
        let waits = ["signal 31 of rank 0", "rank 0 at a barrier", "rank 0 at a barrier"];
        let as_expected = |texts: &[String]| {
            texts.len() == waits.len()
                && (0..).zip(texts).zip(waits).all(|((rank, text), wait): ((u32, _), _)| {
                    let front = format!("rank {rank}: task 0 hamr_tests_kernels::peers::waits_for_ever waits ");
                    let end = format!(" s for {wait} at tests/kernels/src/peers.rs:");
                    text.starts_with(&front) && text.contains(&end)
                })
        };
        let mut seen = texts();
        while !as_expected(&seen) && !run.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
            seen = texts();
        }
        assert!(as_expected(&seen), "{seen:?}");
        let failed = run.join().expect("no panic").expect_err("it never ends").to_string();
        assert!(
            failed.contains("; the task waited ") && failed.contains(" at tests/kernels/src/peers.rs:"),
            "{failed}"
        );
    });
    let begin = Instant::now();
    while !world.stalls().is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(10), "the tasks have ended: {:?}", world.stalls());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs of threads follow each other: no two are mixed.
#[test]
fn runs_of_threads_follow_each_other() {
    let world = world(2, WaitMode::Adaptive);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..20).for_each(|_| assert_eq!(world.run(barriers::with(10)).expect("both ranks"), 10)));
        }
    });
}

/// A rank that is killed while the others wait for it.
#[test]
fn a_rank_killed_in_a_wait_is_named() {
    for how in [0, 2, 4, 6] {
        let world = world(3, WaitMode::Adaptive);
        let pids: Vec<u32> = world.nodes().iter().map(|node| node.info().pid).collect();
        let (failed, begin) = std::thread::scope(|scope| {
            let run = scope.spawn(|| world.run(waits_for_ever::with(how, 9)));
            std::thread::sleep(Duration::from_millis(20));
            let begin = Instant::now();
            kill_process(Pid::from_raw(pids[1] as i32).expect("a process"), Signal::KILL).expect("this test's own");
            (run.join().expect("no panic").expect_err("a rank is gone"), begin)
        });
        assert!(failed.is_lost() && failed.error.to_string().contains("rank 1 (shm)"), "{failed}");
        let lost = world.wait().expect_err("a rank was killed");
        assert_eq!(lost.rank.0, 1);
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
        times::within(Duration::from_secs(2), || {
            assert!(pids.iter().all(|pid| processes::has_ended(*pid)), "{pids:?}");
            Duration::ZERO
        });
        let later = world.run(place::with()).expect_err("the world has ended");
        assert!(later.to_string().contains("rank"), "{later}");
    }
}
