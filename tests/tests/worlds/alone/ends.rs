//! Ends of worlds: a rank that left or was lost is named, and within two seconds no rank is left.

use hamr::link::Link;
use hamr::{CallError, Error, Node, Options, SubmitError, World, WorldError, WorldOptions};
use hamr::{Home, LaunchRequest, Launcher, ShmLauncher, Target};
use hamr_comm::abi::world::{DIRECTORY, WorldHeader};
use hamr_tests::conformance::Random;
use hamr_tests::spy::{Memory, Spy};
use hamr_tests::{devices, peers, processes, times};
use hamr_tests_kernels::crashes::null;
use hamr_tests_kernels::peers::{barriers, waits_for_ever};
use hamr_tests_kernels::wait_at;
use hamr_tests_kernels::worlds::{leave, place};
use rustix::process::{Pid, Signal, kill_process};
use std::mem::offset_of;
use std::time::{Duration, Instant};

/// Until the last rank is killed, with what the system takes for that.
const GONE: Duration = Duration::from_millis(2500);
/// Before any rank is asked to end.
const SOON: Duration = Duration::from_millis(900);

fn world(ranks: usize) -> World {
    let options = WorldOptions::default();
    let rank = Options { start_deadline: devices::START_TIMEOUT, ..options.rank };
    let options = WorldOptions { rank, ..options };
    devices::runtime().world_with(&vec!["shm"; ranks], devices::image("shm"), options).expect("a world")
}

fn processes_of(world: &World) -> Vec<u32> {
    world.nodes().iter().map(|node| node.info().pid).collect()
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid as i32).expect("a process");
    kill_process(pid, signal).expect("a rank of this test's");
}

/// How a world ends, and that no process is left of it then.
fn end_of(world: &World, pids: &[u32]) -> Result<u8, WorldError> {
    let begin = Instant::now();
    let outcome = world.wait();
    let took = begin.elapsed();
    let left: Vec<_> = pids.iter().filter(|pid| !processes::has_ended(**pid)).collect();
    assert!(left.is_empty(), "{left:?} are left of {pids:?}");
    assert!(took < GONE, "{took:?} until {outcome:?}");
    assert_eq!(world.outcome().as_ref(), Some(&outcome));
    outcome
}

/// Runs a call that only the end of the world ends, and returns its error. The world may have ended
/// before it.
fn end_of_call(node: &Node) -> String {
    let gate = node.buffer(&[0u32; 32]).expect("room");
    match node.sync(wait_at::with(gate.ptr(), 1)).expect_err("the gate stays closed") {
        CallError::DeviceLost(_, why) => why.into(),
        CallError::Submit(error) if matches!(*error, SubmitError::DeviceLost { .. }) => error.to_string(),
        other => panic!("expected a lost rank, got {other}"),
    }
}

#[test]
fn a_killed_rank_is_named_and_ends_the_world() {
    // Three worlds at a time, since most of an end is a wait.
    std::thread::scope(|scope| [11, 12, 13].into_iter().for_each(|seed| drop(scope.spawn(move || kills(seed, 10)))));
}

fn kills(seed: u64, rounds: u32) {
    let mut random = Random(seed);
    for _ in 0..rounds {
        let ranks = 2 + random.number() as usize % 3;
        let victim = random.number() as usize % ranks;
        let world = world(ranks);
        let pids = processes_of(&world);
        let name = format!("rank {victim} (shm)");
        std::thread::scope(|scope| {
            let calls: Vec<_> = world.nodes().iter().map(|node| scope.spawn(|| end_of_call(node))).collect();
            std::thread::sleep(Duration::from_micros(random.number() % 20_000));
            signal(pids[victim], Signal::KILL);
            let lost = end_of(&world, &pids).expect_err("a rank was killed");
            assert_eq!((lost.rank.0 as usize, &lost.name), (victim, &name), "{lost}");
            assert!(lost.why.contains("SIGKILL"), "{lost}");
            for (rank, call) in calls.into_iter().enumerate() {
                let error = call.join().expect("it ends");
                assert!(error.contains(&name) || rank == victim && error.contains("SIGKILL"), "{error}");
            }
        });
        assert!(world.nodes().iter().all(|node| !node.is_alive()));
        assert!(world.node(0).sync(place::with()).is_err());
    }
}

#[test]
fn a_rank_that_exits_ends_the_world_with_its_code() {
    for (rank, code) in [(0, 0), (1, 1), (2, 101), (1, 255)] {
        let world = world(3);
        let pids = processes_of(&world);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| end_of_call(world.node((rank + 1) % 3)));
            let error = world.node(rank).sync(leave::with(code)).expect_err("it has no reply");
            assert!(matches!(error, CallError::DeviceLost(..)), "{error}");
            assert_eq!(end_of(&world, &pids), Ok(code));
            let error = other.join().expect("it ends");
            assert!(error.contains(&format!("rank {rank} (shm) left with code {code}")), "{error}");
        });
    }
}

/// Whatever their handlers do.
#[test]
fn ranks_leave_by_themselves() {
    times::within(SOON, || {
        let world = world(4);
        let pids = processes_of(&world);
        let gates = [1, 2, 3].map(|rank| world.node(rank).buffer(&[0u32; 32]).expect("room"));
        for (rank, gate) in (1..).zip(&gates) {
            world.node(rank).send(wait_at::with(gate.ptr(), 1)).expect("sent");
        }
        assert!(world.node(0).sync(leave::with(3)).is_err());
        let begin = Instant::now();
        assert_eq!(end_of(&world, &pids), Ok(3));
        begin.elapsed()
    });
}

#[test]
fn a_crash_is_named_with_its_text() {
    let world = world(2);
    let pids = processes_of(&world);
    assert!(world.node(1).sync(null::with()).is_err());
    let lost = end_of(&world, &pids).expect_err("it crashed");
    assert_eq!(lost.rank.0, 1);
    assert!(lost.to_string().contains("rank 1 (shm) was lost") && lost.why.contains("segmentation fault"), "{lost}");
}

/// A rank that can do nothing does not keep its world.
#[test]
fn a_stopped_process_is_killed() {
    let world = world(3);
    let pids = processes_of(&world);
    signal(pids[2], Signal::STOP);
    signal(pids[0], Signal::KILL);
    let begin = Instant::now();
    let lost = end_of(&world, &pids).expect_err("a rank was killed");
    assert_eq!(lost.rank.0, 0);
    assert!(begin.elapsed() > Duration::from_millis(1900), "it has two seconds: {:?}", begin.elapsed());
}

/// A rank that exists and does nothing is named; one whose handler computes is not.
#[test]
fn a_rank_that_hangs_is_named() {
    const STALL: Duration = Duration::from_millis(600);
    let options = WorldOptions::default();
    let rank = Options { start_deadline: devices::START_TIMEOUT, ..options.rank };
    let options = WorldOptions { rank, stall: Some(STALL), ..options };
    let world = devices::runtime().world_with(&["shm"; 3], devices::image("shm"), options).expect("a world");
    let pids = processes_of(&world);
    let gate = world.node(0).buffer(&[0u32; 32]).expect("room");
    world.node(0).send(wait_at::with(gate.ptr(), 1)).expect("sent");
    std::thread::sleep(STALL * 3 / 2);
    assert_eq!(world.outcome(), None);
    let begin = Instant::now();
    signal(pids[1], Signal::STOP);
    while world.outcome().is_none() {
        assert!(begin.elapsed() < 20 * STALL, "it is not noticed");
        std::thread::sleep(Duration::from_millis(1));
    }
    // Its last step was up to 50 ms before the signal.
    assert!(begin.elapsed() >= STALL - Duration::from_millis(100), "{:?}", begin.elapsed());
    let lost = end_of(&world, &pids).expect_err("it hangs");
    assert!(lost.rank.0 == 1 && lost.why.contains("it hangs") && lost.why.contains("600ms"), "{lost}");
}

#[test]
fn a_rank_that_the_program_stops_ends_the_world() {
    let world = world(2);
    let pids = processes_of(&world);
    world.node(1).stop();
    let lost = end_of(&world, &pids).expect_err("it was stopped");
    assert!(lost.rank.0 == 1 && lost.why.contains("stopped by this program"), "{lost}");
    let error = world.node(0).restart().expect_err("a world has one epoch").to_string();
    assert!(error.contains("start a new world"), "{error}");
}

#[test]
fn a_dropped_world_leaves_nothing() {
    for ranks in [1, 4] {
        let world = world(ranks);
        let pids = processes_of(&world);
        std::thread::scope(|scope| {
            // Dropped while a rank is stopped and the others end.
            signal(pids[0], Signal::STOP);
            scope.spawn(|| drop(world)).join().expect("it ends");
        });
        assert!(pids.iter().all(|pid| processes::has_ended(*pid)), "{pids:?}");
    }
}

/// Starts ranks of `shm`, of which number 1 ends at once.
struct Ill;

impl Launcher for Ill {
    fn describe(&self) -> String {
        "ranks that do not start".into()
    }
    fn target(&self, argument: &str) -> Result<Option<Target>, Error> {
        ShmLauncher.target(argument)
    }
    fn launch(&self, request: &LaunchRequest<'_>) -> Result<Box<dyn Link>, Error> {
        ShmLauncher.launch(request)
    }
    fn launch_rank(&self, request: &LaunchRequest<'_>, home: Home) -> Result<Box<dyn Link>, Error> {
        let is_ill = home.rank.0 == 1;
        let link = ShmLauncher.launch_rank(request, home)?;
        if is_ill {
            link.stop(Duration::MAX);
        }
        Ok(link)
    }
}

#[test]
fn a_rank_that_does_not_start_is_named() {
    let before = processes::children(std::process::id());
    let mut runtime = hamr::Runtime::new().expect("a runtime");
    runtime.register("ill", Ill);
    let error = runtime.world("ill", 3, devices::image("shm")).expect_err("one of them ended").to_string();
    assert!(error.contains("rank 1 (ill) is gone while starting") && error.lines().count() == 1, "{error}");
    let left = || processes::children(std::process::id()).into_iter().filter(|pid| !before.contains(pid)).count();
    assert_eq!(left(), 0);
}

/// A hostile rank: whatever stands in header, job words and directory, its launcher goes on, or the
/// world ends.
#[test]
fn random_words_end_a_world_at_worst() {
    let memory = Memory::default();
    let mut runtime = hamr::Runtime::new().expect("a runtime");
    Spy::register(&mut runtime, "spy", ShmLauncher, &memory);
    let mut random = Random(5);
    let mut ended = 0;
    for _ in 0..20 {
        let world = runtime.world("spy", 2, devices::image("shm")).expect("a world");
        let pids = processes_of(&world);
        let memory = memory.file();
        for _ in 0..200 {
            // Small values are states and codes.
            let word = (random.number() as u32).checked_shr(random.number() as u32 % 40).unwrap_or(3);
            let place = if random.number().is_multiple_of(2) { 0 } else { DIRECTORY } + random.number() % 40 * 4;
            rustix::io::pwrite(&*memory, &word.to_le_bytes(), place).expect("a memfd");
        }
        // So long that ranks and launcher have looked at the words.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(100) {
            match world.node(0).sync(place::with()) {
                Ok(place) => assert_eq!(place, (0, 2), "a rank has copied what it needs"),
                Err(CallError::DeviceLost(..) | CallError::Submit(_)) => {
                    ended += 1;
                    break;
                }
                Err(other) => panic!("expected a place or the end, got {other}"),
            }
        }
        // No code: the words of a rank may say anything by now.
        world.node(1).stop();
        let _ = end_of(&world, &pids);
    }
    assert!((1..20).contains(&ended), "{ended} of 20 ended by a word");
}

/// Words that ranks wait for may have any value: ranks pass too early or wait until their limit, and a
/// failed run sets the words right again.
#[test]
fn random_words_of_peers_end_a_run_at_worst() {
    let memory = Memory::default();
    let mut runtime = hamr::Runtime::new().expect("a runtime");
    Spy::register(&mut runtime, "spy", ShmLauncher, &memory);
    let world = runtime.world("spy", 3, devices::image("shm")).expect("a world");
    let memory = memory.file();
    let mut at = [0; 8];
    rustix::io::pread(&*memory, &mut at, offset_of!(WorldHeader, peers) as u64).expect("a memfd");
    let at = u64::from_le_bytes(at);
    // Of three parts, each with 6 lines of barriers, 6 of signals, and lanes.
    const WORDS: u64 = 3 * (6 + 3 * 2 + 3 * 17) * 16;
    let mut random = Random(7);
    let mut failed = 0;
    for _ in 0..20 {
        std::thread::scope(|scope| {
            let run = scope.spawn(|| world.run_within(barriers::with(300), Duration::from_millis(300)));
            while !run.is_finished() {
                let word = (random.number() as u32).checked_shr(random.number() as u32 % 40).unwrap_or(3);
                rustix::io::pwrite(&*memory, &word.to_le_bytes(), at + random.number() % WORDS * 4).expect("a memfd");
            }
            failed += u32::from(run.join().expect("no panic").is_err());
        });
        assert_eq!(world.outcome(), None);
    }
    assert!(failed != 0, "no word was in the way");
    assert!(world.run(waits_for_ever::with(0, 0)).is_err());
    peers::check_barriers(&world, 100);
    peers::check_signals(&world, 10, 0);
}
