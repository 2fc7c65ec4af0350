//! Calls between ranks, checked on any world of at least two.

use hamr::{CallError, World};
use hamr_tests_kernels::lanes::{FAILURES, around, call_all, fail_at, hold, noted, overlap, send_next};
use hamr_tests_kernels::worlds::fill;
use std::time::{Duration, Instant};

/// Each rank calls each, itself among them, all at the same time.
pub fn check_calls(world: &World, rounds: u32) {
    let calls = world.run_all(call_all::with(rounds)).expect("all ranks");
    assert_eq!(calls, vec![u64::from(rounds * world.size()) * 3; world.size() as usize]);
}

/// Calls of one task that overlap, at each rank.
pub fn check_overlap(world: &World) {
    for node in world.nodes() {
        for at in 0..world.size() {
            assert_eq!(node.sync(overlap::with(at)).expect("all end"), 11 * 10_000 + 21 * 100 + 31, "at {at}");
        }
    }
}

/// Replies of inline handlers that no task reads keep no rank from calling: one has more of them than
/// a ring has slots.
pub fn check_unread(world: &World) {
    let node = world.node(0);
    let gate = node.buffer(&[0u32]).expect("room");
    // Two places are left for the calls beside them. A bare-metal image has room for 32 replies, of four tasks.
    let (tasks, pid) = (node.info().tasks, node.info().pid);
    let tasks = u64::from(tasks - 2).min(if pid == 0 { 4 } else { 6 });
    for at in 0..world.size() {
        let word = node.words(gate.ptr()).expect("the word");
        let word = word.get(0).expect("one");
        word.publish(0);
        let held: Vec<_> =
            (0..tasks).map(|task| node.offload(hold::with(at, gate.ptr(), task * 100)).expect("sent")).collect();
        for _ in 0..20 {
            assert_eq!(node.sync(call_all::with(1)).expect("it ends"), 3 * u64::from(world.size()), "at {at}");
        }
        word.publish(1);
        for (task, call) in (0..).zip(held) {
            let sum: u64 = (0..8).map(|i| task * 100 + i + 1).sum();
            assert_eq!(call.wait().expect("it reads them"), sum, "at {at}");
        }
    }
}

/// A chain of tasks, each of which waits for the next rank's, as deep as the ranks have places.
pub fn check_ring(world: &World) {
    let size = world.size();
    let places = world.nodes().iter().map(|node| node.info().tasks).min().expect("a rank");
    for steps in [1, size, size * 2 + 1, size * places - 1] {
        let sum: u64 = (0..=steps).map(|step| u64::from(step % size)).sum();
        assert_eq!(world.node(0).sync(around::with(steps)).expect("around"), sum, "{steps} steps");
    }
    // One more finds no place, at the innermost.
    if world.node(0).info().tasks != places {
        return;
    }
    let Err(CallError::Fault(report)) = world.node(0).sync(around::with(size * places)) else {
        panic!("expected no place")
    };
    assert!(report.to_string().contains(&format!("a call to rank {} failed", 1 % size)), "{report}");
}

/// Messages without a result arrive once.
pub fn check_sends(world: &World) {
    for node in world.nodes() {
        node.sync(fill::with(0)).expect("its segment");
    }
    for node in world.nodes() {
        assert_eq!(node.sync(send_next::with(100)).expect("sent"), 100);
    }
    for node in world.nodes() {
        let begin = Instant::now();
        while node.sync(noted::with()).expect("a reply") != 99 * 100 / 2 {
            assert!(begin.elapsed() < Duration::from_secs(10), "messages are missing");
        }
    }
}

/// Each failure is named, and later calls work.
pub fn check_failures(world: &World) {
    for node in world.nodes() {
        for at in 0..world.size() {
            for (way, expected) in (0..).zip(FAILURES) {
                let Err(CallError::Fault(report)) = node.sync(fail_at::with(at, way)) else { panic!("{expected}") };
                let text = report.to_string();
                assert!(text.contains(expected), "{expected}: {text}");
            }
        }
    }
    check_calls(world, 3);
}
