//! A device that is stopped (SIGSTOP) looks like one that hangs: each wait for it has its caller's limit.

use hamr::{CallOptions, Image, Node, Options, WorldOptions};
use hamr_tests::conformance::options;
use hamr_tests::devices;
use hamr_tests_kernels::echo;
use hamr_tests_kernels::waits::sleeps;
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_millis(100);
/// When who has a limit has returned at the latest, on a busy machine,
const RETURNED: Duration = Duration::from_secs(2);
/// and who waits for the device's end: it has three seconds to leave.
const LEFT: Duration = Duration::from_secs(6);

fn stop(node: &Node) {
    kill_process(Pid::from_raw(node.info().pid as i32).expect("a process"), Signal::STOP).expect("it runs");
}

#[test]
fn each_wait_for_a_stopped_device_ends_within_its_limit() {
    type Wait = fn(&Node) -> Option<String>;
    fn told<V, E: ToString>(outcome: Result<V, E>) -> Option<String> {
        outcome.err().map(|e| e.to_string())
    }
    // Each with the words of its error; without any, it has none.
    let waits: [(&str, Wait, &str, Duration); 18] = [
        ("sync", |node| told(node.sync(echo::with(1u64))), "deadline", RETURNED),
        (
            "sync with a deadline",
            |node| {
                let soon = CallOptions { deadline: Some(LIMIT / 2), ..CallOptions::default() };
                told(node.sync_with(echo::with(1u64), soon))
            },
            "deadline",
            RETURNED,
        ),
        ("a task", |node| told(node.sync(sleeps::with(1))), "deadline", RETURNED),
        ("a stream", |node| told(node.stream().expect("free").sync(echo::with(1u64))), "deadline", RETURNED),
        (
            "a shared stream",
            |node| told(node.shared_stream().expect("free").sync(echo::with(1u64))),
            "deadline",
            RETURNED,
        ),
        ("wait", |node| told(node.offload(echo::with(1u64)).expect("room").wait()), "deadline", RETURNED),
        (
            "wait with a limit",
            |node| told(node.offload(echo::with(1u64)).expect("room").wait_timeout(LIMIT / 2)),
            "deadline",
            RETURNED,
        ),
        (
            "a future",
            |node| told(pollster::block_on(node.offload(echo::with(1u64)).expect("room"))),
            "deadline",
            RETURNED,
        ),
        (
            "many calls",
            |node| {
                let calls: Vec<_> = (0..1000u64).map_while(|n| node.offload(echo::with(n)).ok()).collect();
                calls.into_iter().find_map(|call| told(call.wait_timeout(Duration::from_millis(1))))
            },
            "deadline",
            RETURNED,
        ),
        ("send", |node| (0..1000u64).find_map(|n| told(node.send(echo::with(n)))), "", RETURNED),
        ("flush", |node| node.send(echo::with(1u64)).err().map(|e| e.to_string()).or(told(node.flush())), "", RETURNED),
        ("ping", |node| told(node.ping()), "deadline", RETURNED),
        ("another image", |node| told(node.load_image_within(&hamr_tests::images::next("shm"), LIMIT)), "", RETURNED),
        (
            "a module",
            |node| told(node.load_module(&Image::module("hamr-tests-module").expect("a name"))),
            "has not come to it",
            RETURNED,
        ),
        ("its return", |node| told(node.wait_until_back(LIMIT)), "", RETURNED),
        (
            "memory",
            |node| {
                let buffer = node.buffer(&[1u32; 1000]).expect("room");
                told(buffer.read())
            },
            "",
            RETURNED,
        ),
        ("its restart", |node| told(node.restart()), "", LEFT),
        (
            "its end",
            |node| {
                node.stop();
                None
            },
            "",
            LEFT,
        ),
    ];
    // What is built is built before.
    hamr_tests::images::next("shm");
    let first = devices::open("shm", options());
    first.load_module(&Image::module("hamr-tests-module").expect("a name")).expect("it loads");
    drop(first);
    let ends = |(what, wait, words, limit): &(&str, Wait, &str, Duration)| {
        let node = devices::open("shm", Options { deadline: Some(LIMIT), restart: false, ..options() });
        stop(&node);
        let begin = Instant::now();
        let error = wait(&node).unwrap_or_default();
        let took = begin.elapsed();
        assert!(took < *limit && error.contains(words), "{what}: {took:?}: {error}");
        drop(node);
        assert!(begin.elapsed() < *limit + LEFT, "{what}, and its end: {:?}", begin.elapsed());
    };
    // Most of it is the time that a device has to leave.
    for some in waits.chunks(6) {
        std::thread::scope(|scope| some.iter().for_each(|wait| drop(scope.spawn(|| ends(wait)))));
    }
}

#[test]
fn a_run_of_a_world_with_a_stopped_rank_ends_within_its_limit() {
    let world = devices::runtime().world_with(&["shm"; 2], devices::image("shm"), WorldOptions::default());
    let world = world.expect("a world");
    stop(&world.nodes()[1]);
    let begin = Instant::now();
    let error = world.run_within(echo::with(1u64), LIMIT).expect_err("a rank is stopped").to_string();
    let took = begin.elapsed();
    assert!(took < RETURNED, "{took:?}: {error}");
    drop(world);
    assert!(begin.elapsed() < RETURNED + 2 * LEFT, "{:?}", begin.elapsed());
}
