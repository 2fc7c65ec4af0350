//! Fewer processors than sides that poll: each gives its processor away, so that a call costs two switches, and no
//! time slice or time of polling. What is counted is processor time and switches, which load does not change where
//! sides sleep.

use hamr::{Options, WaitMode, World, WorldOptions};
use hamr_tests::{devices, processes, sleeping};
use hamr_tests_kernels::echo;
use hamr_tests_kernels::peers::barriers;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::time::Instant;

/// Runs this test's process, and what it starts from now on, on the first so many of its processors. The image is built
/// before, on all of them.
fn run_on(processors: usize) {
    devices::image("shm");
    let (all, mut few) = (sched_getaffinity(None).expect("a set"), CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).take(processors).for_each(|cpu| few.set(cpu));
    sched_setaffinity(None, &few).expect("its own");
}

fn world(kind: &str, ranks: usize, wait: WaitMode) -> World {
    let WorldOptions { rank, .. } = WorldOptions::default();
    let rank = Options { start_deadline: devices::START_TIMEOUT, segment: 1 << 20, wait, ..rank };
    let options = WorldOptions { rank, ..WorldOptions::default() };
    devices::runtime().world_with(&vec![kind; ranks], devices::image("shm"), options).expect("a world")
}

/// How often this thread was switched away: because it waited, and because others ran.
fn switches() -> [u64; 2] {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("its own");
    ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"].map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("counted");
        line.trim().parse().expect("a number")
    })
}

fn calls_cost_switches(wait: WaitMode) {
    const CALLS: u64 = 2000;
    run_on(1);
    let node = devices::open("shm", Options { wait, ..Options::default() });
    let stream = node.stream().expect("free");
    let call = |n| assert_eq!(stream.sync(echo::with(n)).expect("a reply"), n);
    (0..100).for_each(call);
    let used = || sleeping::used(std::process::id()) + sleeping::used(node.info().pid);
    let (before, seconds, begin) = (switches(), used(), Instant::now());
    (0..CALLS).for_each(call);
    let took = begin.elapsed() / CALLS as u32;
    let (after, seconds) = (switches(), used() - seconds);
    let [waited, gave] = [0, 1].map(|i| after[i] - before[i]);
    println!("{wait:?}: {took:?} a call, {waited} sleeps, {gave} other switches, {seconds:.2} s of processors");
    assert!(waited + gave >= CALLS / 2, "{wait:?}: {waited} and {gave}: the device has this processor");
    assert!(waited + gave <= CALLS * 8, "{wait:?}: {waited} and {gave}");
    // Polling for the time of `spin` on either side would take 1.2 s, always polling 6 s.
    assert!(seconds < 0.3, "{wait:?}: {seconds} s for {CALLS} calls");
}

#[test]
fn calls_on_one_processor_cost_switches_and_no_time_of_polling() {
    [WaitMode::Sleep, WaitMode::Adaptive].into_iter().for_each(calls_cost_switches);
}

/// Beside a third that computes, the system gives sides that never sleep as large a share as that one: a yield returns
/// at once until it is used up.
mod alone {
    #[test]
    fn calls_of_sides_that_never_sleep_cost_switches_on_one_processor() {
        super::calls_cost_switches(hamr::WaitMode::Spin);
    }
}

#[test]
fn ranks_on_one_processor_meet_without_time_of_polling() {
    const ROUNDS: u32 = 500;
    run_on(1);
    for kind in ["shm", "thread"] {
        for (ranks, wait) in [(4, WaitMode::Sleep), (4, WaitMode::Adaptive), (2, WaitMode::Adaptive)] {
            let world = world(kind, ranks, wait);
            let pids: Vec<_> = world.nodes().iter().map(|node| node.info().pid).collect();
            let mut all = vec![std::process::id()];
            all.extend(pids.iter().filter(|pid| **pid != std::process::id()));
            let used = || all.iter().map(|pid| sleeping::used(*pid)).sum::<f64>();
            let (seconds, begin) = (used(), Instant::now());
            assert_eq!(world.run(barriers::with(ROUNDS)).expect("all meet"), ROUNDS);
            let (took, seconds) = (begin.elapsed() / (2 * ROUNDS), used() - seconds);
            println!("{ranks} {kind}, {wait:?}: {took:?} a barrier, {seconds:.2} s of processors");
            // Polling for the time of `spin` at each would take 0.3 a rank.
            assert!(seconds < 0.1 * ranks as f64, "{ranks} {kind}, {wait:?}: {seconds} s");
        }
    }
}

/// The line that says so, of a launcher with so many processors and ranks.
fn said(processors: usize, ranks: usize, wait: &str) -> Vec<String> {
    let mut command = processes::again("starts_ranks");
    command.env("HAMR_TEST_FEW", format!("{processors} {ranks} {wait}")).envs([devices::built("shm")]);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines().filter(|line| line.contains("oversubscribed")).map(str::to_owned).collect()
}

#[test]
fn a_launcher_says_once_that_more_poll_than_have_processors() {
    let all = sched_getaffinity(None).expect("a set").count() as usize;
    assert_eq!(said(1, 2, "adaptive"), ["hamr: oversubscribed: 2 ranks, 1 processor"]);
    assert_eq!(said(1, 0, "spin"), ["hamr: oversubscribed: host and device, 1 processor"]);
    let none: [(usize, usize, &str); 3] = [(1, 1, "adaptive"), (1, 2, "sleep"), (1, 0, "sleep")];
    none.iter().for_each(|(processors, ranks, wait)| assert_eq!(said(*processors, *ranks, wait), [""; 0]));
    if all >= 2 {
        assert_eq!(said(2, 3, "adaptive"), ["hamr: oversubscribed: 3 ranks, 2 processors"]);
        assert_eq!(said(2, 2, "spin"), [""; 0]);
        assert_eq!(said(2, 0, "adaptive"), [""; 0]);
    }
}

#[test]
#[ignore = "only the other test starts it"]
fn starts_ranks() {
    let Ok(asked) = std::env::var("HAMR_TEST_FEW") else { return };
    let [processors, ranks, wait] = asked.split(' ').collect::<Vec<_>>()[..] else { panic!("{asked}") };
    run_on(processors.parse().expect("a number"));
    let wait = match wait {
        "spin" => WaitMode::Spin,
        "sleep" => WaitMode::Sleep,
        _ => WaitMode::Adaptive,
    };
    // Twice: the line comes once.
    for _ in 0..2 {
        match ranks.parse().expect("a number") {
            0 => drop(devices::open("shm", Options { wait, ..Options::default() })),
            ranks => drop(world("thread", ranks, wait)),
        }
    }
}
