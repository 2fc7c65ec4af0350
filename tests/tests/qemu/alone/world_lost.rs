//! Tasks that wait for a rank that is lost: each wait ends with a fault that names the rank and why.

use hamr::qemu::{Machine, QemuLauncher};
use hamr::{
    CallError, Image, LocalStream, Options, Pending, Runtime, ShmLauncher, WaitMode, World, WorldError, WorldOptions,
};
use hamr_comm::abi::ids::RankId;
use hamr_comm::{Fault, Handler, Task};
use hamr_tests::devices;
use hamr_tests::spy::{Memory, Spy};
use hamr_tests_kernels::lanes::waits_for_cancel;
use hamr_tests_kernels::lost::{NOTE, Note, WAYS, waits_for};
use hamr_tests_xacc::HostArray;
use hamr_tests_xacc::lost::{ANY, LOOP, PROGRAM_NOTE, PROGRAM_WAYS, meets_without, program_waits_for};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Until each wait has ended, and the world.
const NAMED: Duration = Duration::from_secs(2);

fn options(wait: WaitMode) -> WorldOptions {
    let WorldOptions { rank, .. } = WorldOptions::default();
    let rank = Options { start_deadline: devices::START_TIMEOUT, segment: 1 << 20, wait, longest_sleep: None, ..rank };
    WorldOptions { rank, ..WorldOptions::default() }
}

fn number(note: &Note, at: usize) -> u32 {
    u32::from_le_bytes(note[at..at + 4].try_into().expect("four bytes"))
}

/// All ranks but one wait for that one, which is lost by `end`. Each wait names it and has `why`.
fn check(world: &World, memory: &Memory, victim: u32, how: usize, end: impl FnOnce(), why: &str) {
    let others = (0..world.size()).filter(|rank| *rank != victim);
    let call = |rank| world.node(rank).offload(waits_for::with(how as u32, victim)).expect("sent");
    let calls = others.map(|rank| (rank, call(rank))).collect();
    let way = WAYS[how];
    check_begun(world, (memory, NOTE), victim, way);
    // Until they wait, and where they may, sleep.
    std::thread::sleep(Duration::from_millis(20));
    let lost = check_lost(world, victim, way, end, why);
    check_notes(world, (memory, NOTE), &lost, way);
    check_calls(calls, &lost, way);
}

/// The ranks that wait, or are about to.
fn check_begun(world: &World, (memory, at): (&Memory, u64), victim: u32, way: &str) {
    let begin = Instant::now();
    while !others(world, victim).all(|rank| number(&memory.segment::<96>(RankId(rank), at), 0) == 1) {
        assert!(begin.elapsed() < devices::START_TIMEOUT, "{way}: they do not begin");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn others(world: &World, victim: u32) -> impl Iterator<Item = u32> {
    (0..world.size()).filter(move |rank| *rank != victim)
}

/// The launcher names the rank in time.
fn check_lost(world: &World, victim: u32, way: &str, end: impl FnOnce(), why: &str) -> WorldError {
    let begin = Instant::now();
    end();
    let lost = world.wait().expect_err("a rank was lost");
    let took = begin.elapsed();
    assert!(took < NAMED, "{way}: {took:?} until {lost}");
    assert!(lost.rank.0 == victim && lost.why.contains(why), "{way}: {lost}");
    lost
}

/// Each wait has named it.
fn check_notes(world: &World, (memory, at): (&Memory, u64), lost: &WorldError, way: &str) {
    for rank in others(world, lost.rank.0) {
        let note = memory.segment::<96>(RankId(rank), at);
        let text = String::from_utf8_lossy(&note[8..]).trim_end_matches('\0').to_owned();
        assert_eq!((number(&note, 0), number(&note, 4)), (2, lost.rank.0 + 1), "{way}: rank {rank}: {text}");
        let whole = lost.to_string();
        let said = text.trim_end_matches('…');
        assert!(whole.starts_with(said) && said.contains(&lost.name), "{way}: rank {rank}: {text} of {whole}");
        assert!(text.ends_with('…') || text == whole, "{way}: rank {rank}: {text}");
    }
}

/// The calls are those of the ranks that wait, and of the one that is lost if it has one.
fn check_calls<H: Handler<Output = Result<u32, Fault>> + 'static>(
    calls: Vec<(u32, Pending<H, LocalStream<'_>>)>,
    lost: &WorldError,
    way: &str,
) {
    // What the launcher says is its own.
    for (rank, call) in calls {
        match call.wait() {
            Err(CallError::DeviceLost(_, said)) => {
                assert!(rank == lost.rank.0 || said.contains(&lost.to_string()), "rank {rank}: {said}");
            }
            other => panic!("{way}: rank {rank}: expected a lost rank, got {other:?}"),
        }
    }
}

fn kill(world: &World, rank: u32) {
    let pid = Pid::from_raw(world.node(rank).info().pid as i32).expect("a process");
    kill_process(pid, Signal::KILL).expect("a rank of this test's");
}

#[test]
fn waits_of_processes_name_the_rank() {
    let memory = Memory::default();
    let mut runtime = Runtime::new().expect("a runtime");
    Spy::register(&mut runtime, "spy", ShmLauncher, &memory);
    for wait in [WaitMode::Adaptive, WaitMode::Sleep] {
        for how in 0..WAYS.len() {
            let world = runtime.world_with(&["spy"; 3], devices::image("shm"), options(wait)).expect("a world");
            let victim = how as u32 % 3;
            check(&world, &memory, victim, how, || kill(&world, victim), "SIGKILL");
        }
    }
    let world = runtime.world_with(&["spy"; 2], devices::image("shm"), options(WaitMode::Adaptive)).expect("a world");
    check(&world, &memory, 1, 0, || world.node(1).stop(), "stopped by this program");
}

/// Each wait of coarrays and of arrays that are distributed. Nothing is left of the processes.
#[test]
fn waits_of_programs_name_the_rank() {
    let places = Mutex::new(BTreeMap::new());
    // Two worlds at a time, since most of an end is a wait.
    std::thread::scope(|scope| {
        for (first, wait) in [WaitMode::Adaptive, WaitMode::Sleep].into_iter().enumerate() {
            let places = &places;
            scope.spawn(move || every_second_wait(first, wait, places));
        }
    });
}

/// `places`: where each waits.
fn every_second_wait(first: usize, wait: WaitMode, places: &Mutex<BTreeMap<(String, u32), &str>>) {
    let memory = Memory::default();
    let mut runtime = Runtime::new().expect("a runtime");
    Spy::register(&mut runtime, "spy", ShmLauncher, &memory);
    for (how, (way, _)) in PROGRAM_WAYS.iter().enumerate().skip(first).step_by(2) {
        let world = runtime.world_with(&["spy"; 3], devices::image("shm"), options(wait)).expect("a world");
        let is_between = way.starts_with("the elements of");
        let victim = if is_between { 1 } else { how as u32 % 3 };
        let array = world.node(victim).buffer(&[0.0; 12]).expect("room");
        let array = HostArray::new(victim, array.ptr(), [12]);
        let call = |rank| world.node(rank).offload(program_waits_for::with(how as u32, victim, array)).expect("sent");
        let calls = (0..world.size()).map(|rank| (rank, call(rank))).collect();
        check_begun(&world, (&memory, PROGRAM_NOTE), victim, way);
        if *way != LOOP {
            let (waiting, wanted) = match *way {
                ANY => (2, "any of ranks 0 to 2".to_owned()),
                // The first of three, for elements; the last does not come to what the one between waits for.
                _ if is_between => (1, "signal 1 of rank 1".to_owned()),
                _ => (2, format!("rank {victim}")),
            };
            let place = place_of(&world, victim, waiting, &wanted, way);
            let other = places.lock().expect("no panic").insert(place, way);
            assert_eq!(other, None, "another way than {way} waits there, too");
        }
        let pids: Vec<_> = world.nodes().iter().map(|node| node.info().pid).collect();
        let lost = check_lost(&world, victim, way, || kill(&world, victim), "SIGKILL");
        if *way != LOOP {
            check_notes(&world, (&memory, PROGRAM_NOTE), &lost, way);
        }
        check_calls(calls, &lost, way);
        let is_left = |pid: &u32| Path::new(&format!("/proc/{pid}")).exists();
        drop(world);
        assert!(!pids.iter().any(is_left), "{way}: of {pids:?}");
    }
}

/// Runs of the whole world, the first of which waits: it names the rank, and so does a later run. Those between
/// were cancelled.
#[test]
fn runs_name_the_rank() {
    let world = devices::runtime().world_with(&["shm"; 3], devices::image("shm"), options(WaitMode::Adaptive));
    let world = world.expect("a world");
    let runs: Vec<_> = (0..3).map(|_| world.start(meets_without::with(1)).expect("sent")).collect();
    place_of(&world, 1, 2, "of rank 1", "start");
    let lost = check_lost(&world, 1, "start", || kill(&world, 1), "SIGKILL");
    let begin = Instant::now();
    for (nth, run) in runs.into_iter().enumerate() {
        let error = run.wait().expect_err("a rank was lost").to_string();
        let is_named = error.contains("rank 1 (shm)") && error.contains("SIGKILL");
        assert!(is_named || nth > 0 && error.contains("behind a run that has failed"), "{nth}: {error}");
    }
    let error = world.run(meets_without::with(3)).expect_err("a rank was lost").to_string();
    assert!(error.contains(&lost.to_string()), "{error}");
    assert!(begin.elapsed() < NAMED, "{:?}", begin.elapsed());
}

/// Where so many of the others wait for it. What they did before has waits, too, which end.
fn place_of(world: &World, victim: u32, waiting: usize, wanted: &str, way: &str) -> (String, u32) {
    let begin = Instant::now();
    loop {
        // The one that is lost does nothing more, and the others have had time to come to their last wait.
        let is_there = world.stalls().iter().any(|stall| stall.rank.0 == victim);
        std::thread::sleep(Duration::from_millis(20));
        let mut stalls = world.stalls();
        stalls.retain(|stall| stall.rank.0 != victim && stall.task.wait.to_string().contains(wanted));
        let mut places: BTreeSet<_> = stalls.iter().map(|stall| (&stall.task.file, stall.task.line)).collect();
        match places.pop_first() {
            Some((file, line)) if is_there && stalls.len() == waiting && places.is_empty() => {
                return (file.clone(), line);
            }
            _ => {}
        }
        let texts: Vec<_> = world.stalls().iter().map(ToString::to_string).collect();
        assert!(begin.elapsed() < devices::START_TIMEOUT, "{way}: {texts:?}");
    }
}

#[test]
fn waits_of_a_machine_name_the_rank() {
    let memory = Memory::default();
    let mut runtime = Runtime::new().expect("a runtime");
    Spy::register(&mut runtime, "spy", ShmLauncher, &memory);
    Spy::register(&mut runtime, "machine", QemuLauncher::machine(Machine::RISCV64), &memory);
    for (how, wait) in (0..).zip([WaitMode::Adaptive, WaitMode::Sleep, WaitMode::Adaptive, WaitMode::Sleep]) {
        let image = Image::find(devices::IMAGE).expect("a name");
        let world = runtime.world_with(&["machine", "spy"], image, options(wait)).expect("a world");
        check(&world, &memory, 1, how, || kill(&world, 1), "SIGKILL");
    }
}

/// Waits of ranks that are threads, by what their program gets.
#[test]
fn waits_of_threads_name_the_rank() {
    type Way = fn(&mut Task<'_>) -> Result<u32, Fault>;
    const LOST: RankId = RankId(1);
    let ways: [Way; 4] = [
        |task| Ok(task.sync(LOST, waits_for_cancel::with())?),
        |task| Ok(task.wait_for(task.offload(LOST, waits_for_cancel::with())?)?),
        |task| Ok(task.barrier().map(|()| 0)?),
        |task| task.wait_signal(LOST, 5, |value| value != 0),
    ];
    for (how, way) in ways.into_iter().enumerate() {
        let world = devices::runtime().world_of_threads(3).expect("a world");
        let (begun, faults) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (theirs, found) = (begun.clone(), faults.clone());
        let program = move |task: &mut Task<'_>| {
            let me = task.world().expect("a rank").me();
            *theirs.lock().expect("no panic") += 1;
            if me == LOST {
                task.wait_until(|| false)?;
            }
            let fault = way(task).expect_err("the rank was lost");
            let lost = task.world().expect("a rank").lost();
            found.lock().expect("no panic").push((me, lost, fault));
            Ok(0)
        };
        let begin = std::thread::scope(|scope| {
            let run = scope.spawn(|| world.run_program(program));
            while *begun.lock().expect("no panic") < 3 {
                std::thread::yield_now();
            }
            let begin = Instant::now();
            world.node(LOST.0).stop();
            let error = run.join().expect("it ends").expect_err("a rank was lost").to_string();
            assert!(error.contains("rank 1 (thread) was lost"), "{error}");
            begin
        });
        assert!(begin.elapsed() < NAMED, "{how}: {:?}", begin.elapsed());
        let mut faults = core::mem::take(&mut *faults.lock().expect("no panic"));
        faults.sort_by_key(|(me, ..)| me.0);
        let ranks: Vec<_> = faults.iter().map(|(me, lost, _)| (me.0, *lost)).collect();
        assert_eq!(ranks, [(0, Some(LOST)), (2, Some(LOST))], "{how}");
        for (_, _, fault) in faults {
            assert!(fault.text.contains("rank 1 (thread) was lost: stopped by this program"), "{how}: {fault}");
        }
    }
}
