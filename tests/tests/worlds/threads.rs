//! Ranks that are threads of this process: worlds for tests of programs, and a launcher that is a
//! rank itself.

mod claims;
mod user_code;

use hamr::{Options, World, WorldOptions};
use hamr_comm::world::RankId;
use hamr_comm::{Call, Context, Fault, Handler, Task, TaskCallError, Why, offload};
use hamr_tests::conformance::until;
use hamr_tests::{devices, lanes, peers, processes};
use hamr_tests_kernels::host_calls::{Callback, call_back};
use hamr_tests_kernels::worlds::{fill, leave, others, place};
use hamr_tests_kernels::{echo, wait_at};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

fn world(ranks: usize) -> World {
    devices::runtime().world_of_threads(ranks).expect("a world")
}

fn me(task: &mut Task<'_>) -> RankId {
    task.world().expect("a rank").me()
}

#[test]
fn a_program_runs_on_every_rank() {
    for ranks in [1, 2, 8] {
        let world = world(ranks);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let theirs = seen.clone();
        let program = move |task: &mut Task<'_>| {
            let place = task.world().map(|world| (world.me().0, world.size()));
            theirs.lock().expect("no panic").push((place, std::thread::current().name().map(str::to_owned)));
            task.sleep(Duration::from_micros(100))?;
            Ok(0)
        };
        assert_eq!(world.run_program(program).expect("a code"), 0);
        let mut seen = seen.lock().expect("no panic").clone();
        seen.sort();
        let wanted = |rank| (Some((rank, ranks as u32)), Some(format!("rank {rank} (thread)")));
        assert_eq!(seen, (0..ranks as u32).map(wanted).collect::<Vec<_>>());
        assert_eq!(world.outcome(), None);
    }
    for ranks in [0, 4096] {
        assert!(devices::runtime().world_of_threads(ranks).is_err());
    }
}

#[test]
fn a_thread_is_a_rank_like_any_other() {
    let world = world(3);
    for (rank, node) in world.nodes().iter().enumerate() {
        assert_eq!(node.sync(place::with()).expect("a rank"), (rank as u32, 3));
        assert_eq!(node.sync(fill::with(rank as u8 + 1)).expect("its own"), 64 << 20);
        assert_eq!(node.sync(echo::with(4u64)).expect("a reply"), 4);
        assert!(node.ping().is_ok());
    }
    for (rank, node) in world.nodes().iter().enumerate() {
        assert_eq!(node.sync(others::with(rank as u8 + 1)).expect("its own"), 0);
    }
    let (from, to) =
        (world.node(0).buffer(&[7u32; 100]).expect("room"), world.node(2).buffer(&[0u32; 100]).expect("room"));
    world.copy(from.ptr(), to.ptr()).expect("copied");
    assert_eq!(to.read().expect("its own"), [7; 100]);
}

fn check(world: &World) {
    peers::check_copies(world);
    peers::check_copies_of_others(world);
    peers::check_strides(world, 30);
    peers::check_atomics(world, 2001);
    peers::check_signals(world, 50, 0);
    peers::check_barriers(world, 50);
}

#[test]
fn threads_reach_each_other() {
    for ranks in 2..=4 {
        check(&world(ranks));
    }
}

#[test]
fn threads_call_each_other() {
    for ranks in 1..=3 {
        let world = world(ranks);
        lanes::check_calls(&world, 100);
        lanes::check_overlap(&world);
        lanes::check_sends(&world);
        lanes::check_failures(&world);
    }
}

/// Each rank adds to what the one before it has, behind a barrier of all.
#[test]
fn programs_meet_at_barriers() {
    let world = world(5);
    let code = world.run_program(|task| {
        let (me, size) = task.world().map(|world| (world.me(), world.size())).expect("a rank");
        for round in 1..=20_u32 {
            task.world().expect("a rank").put_value(RankId((me.0 + 1) % size), 0, round * 100 + me.0)?;
            task.barrier()?;
            let got: u32 = task.world().expect("a rank").get_value(me, 0)?;
            if got != round * 100 + (me.0 + size - 1) % size {
                return Ok(1);
            }
            task.barrier()?;
        }
        Ok(0)
    });
    assert_eq!(code.expect("a code"), 0);
}

/// A rank's handlers are served while its program waits, and programs wait for what they do.
#[test]
fn programs_wait_while_their_handlers_are_called() {
    let world = world(2);
    let gate = Arc::new(AtomicU32::new(0));
    let theirs = gate.clone();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            world.run_program(move |task| {
                theirs.fetch_add(1, Ordering::AcqRel);
                task.wait_until(|| theirs.load(Ordering::Acquire) >= 100)?;
                Ok(me(task).0 as u8)
            })
        });
        while gate.load(Ordering::Acquire) < 2 {
            std::thread::yield_now();
        }
        for node in world.nodes() {
            assert_eq!(node.sync(echo::with(9u64)).expect("a reply"), 9);
        }
        gate.store(100, Ordering::Release);
        assert_eq!(run.join().expect("it ends").expect("a code"), 1, "rank 0 has 0, rank 1 has 1");
    });
}

#[test]
fn a_rank_that_exits_ends_the_world_with_its_code() {
    let world = world(3);
    let code = world.run_program(|task| match me(task).0 {
        1 => task.world().expect("a rank").exit(42),
        _ => loop {
            task.sleep(Duration::from_millis(1))?;
        },
    });
    assert_eq!(code.expect("a code"), 42);
    assert_eq!(world.wait(), Ok(42));
    let world = self::world(2);
    assert!(world.node(0).sync(leave::with(3)).is_err());
    assert_eq!(world.wait(), Ok(3));
}

#[test]
fn a_fault_is_named_and_ends_only_its_world() {
    let bystander = world(2);
    let fail: fn(&mut Task<'_>) -> Result<u8, Fault> = |_| Err(Fault::msg("as asked"));
    let panic: fn(&mut Task<'_>) -> Result<u8, Fault> = |_| panic!("as asked");
    for wrong in [fail, panic] {
        let (begun, dropped) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (world, theirs) = (world(3), dropped.clone());
        let error = world.run_program(move |task| {
            if me(task).0 == 2 {
                // A call that is cancelled before it begins has nothing to drop.
                task.wait_until(|| begun.load(Ordering::Acquire) == 2)?;
                return wrong(task);
            }
            begun.fetch_add(1, Ordering::Release);
            // A suspended task is unwound.
            let _counts = Counts(&theirs);
            loop {
                task.sleep(Duration::from_secs(1))?;
            }
        });
        let error = error.expect_err("rank 2 failed").to_string();
        assert!(error.contains("rank 2 (thread)") && error.contains("as asked"), "{error}");
        assert!(world.wait().is_err());
        assert_eq!(dropped.load(Ordering::Acquire), 2);
    }
    // A call that panics fails alone.
    let error = bystander
        .node(1)
        .sync(hamr_tests_kernels::worlds::main::with(heapless::String::try_from("panic 1").expect("short")));
    assert!(error.expect_err("as asked").to_string().contains("rank 1 was asked to panic"));
    assert_eq!(bystander.node(1).sync(place::with()).expect("it goes on"), (1, 2));
    assert_eq!(bystander.outcome(), None);
}

struct Counts<'c>(&'c AtomicU32);

impl Drop for Counts<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// The launcher is a rank, beside processes.
#[test]
fn the_launcher_can_be_a_rank() {
    let options = WorldOptions::default();
    let rank = Options { start_deadline: devices::START_TIMEOUT, ..options.rank };
    let options = WorldOptions { rank, ..options };
    let world =
        devices::runtime().world_with(&["thread", "shm", "shm"], devices::image("shm"), options).expect("a world");
    assert_eq!(world.rank_here().map(|node| node.info().pid), Some(std::process::id()));
    for (rank, node) in world.nodes().iter().enumerate() {
        assert_eq!(node.sync(place::with()).expect("a rank"), (rank as u32, 3));
    }
    // It takes part in all that ranks do.
    check(&world);
    let pids: Vec<u32> = world.nodes()[1..].iter().map(|node| node.info().pid).collect();
    assert!(world.node(1).sync(leave::with(8)).is_err());
    assert_eq!(world.wait(), Ok(8));
    assert!(pids.iter().all(|pid| processes::has_ended(*pid)), "{pids:?}");
}

/// A handler that does not return keeps its thread, and nothing else.
#[test]
fn a_thread_that_does_not_return_is_left() {
    let world = world(2);
    let gate = world.node(0).buffer(&[0u32; 32]).expect("room");
    world.node(0).send(wait_at::with(gate.ptr(), 1)).expect("sent");
    let words = world.node(0).words(gate.ptr()).expect("the words");
    while words.get(16).expect("inside").observe() == 0 {
        std::thread::yield_now();
    }
    let begin = Instant::now();
    world.node(1).stop();
    assert!(world.wait().is_err());
    assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
    // Its memory is there as long as the thread is.
    words.get(0).expect("inside").publish(1);
}

/// A rank that is a thread cannot leave its world in a destructor while it unwinds: the process says so, and is
/// aborted.
#[test]
fn an_exit_while_a_thread_unwinds_says_why_it_aborts() {
    let output = processes::again("exits_while_it_unwinds").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("in a destructor, while a panic unwinds"), "{said}");
}

#[test]
#[ignore = "only the other test starts it"]
fn exits_while_it_unwinds() {
    struct Leaves<'a>(hamr_comm::world::WorldRef<'a>);
    impl Drop for Leaves<'_> {
        fn drop(&mut self) {
            self.0.exit(3);
        }
    }
    let world = devices::runtime().world_of_threads(1).expect("a world");
    let code = world.run_program(|task| {
        let _leaves = Leaves(task.world().ok_or_else(|| Fault::msg("no rank"))?);
        panic!("asked to")
    });
    assert_eq!(code.map_err(|e| e.to_string()), Ok(3));
}

/// A run in a body that a rank of the same world has called would wait for the run that waits for it.
#[test]
fn a_run_in_a_body_of_a_run_is_refused() {
    let world: &'static World = Box::leak(Box::new(world(1)));
    let body: Callback = Box::new(|_, value| {
        let inner = world.run(echo::with(value)).map_err(|e| e.to_string());
        let is_refused = inner.is_err_and(|why| why.contains("cannot wait for the run that goes on"));
        Ok(u64::from(is_refused))
    });
    world.node(0).provide(body);
    assert_eq!(world.run_within(call_back::with(3), Duration::from_secs(5)).map_err(|e| e.to_string()), Ok(1));
    assert_eq!(world.run(echo::with(4u64)).expect("the run has ended"), 4);
}

/// The run that has called the body has the lock, or the one that is waited for has called it.
#[test]
fn a_wait_for_a_started_run_in_a_body_of_a_run_is_refused_while_it_goes_on() {
    type Handle = hamr::StartedRun<'static, call_back>;
    static STARTED: Mutex<Option<Handle>> = Mutex::new(None);
    let world: &'static World = Box::leak(Box::new(world(1)));
    let (tell, told) = mpsc::channel();
    let body: Callback = Box::new(move |_, value| {
        // The run that was started calls this with 1.
        let started = (value == 1).then(|| {
            loop {
                match STARTED.lock().expect("no panic").take() {
                    Some(started) => break started,
                    None => std::thread::yield_now(),
                }
            }
        });
        let outcome = started.map(|started| started.wait().map_err(|e| e.to_string()));
        let _ = tell.send(outcome);
        Ok(value)
    });
    world.node(0).provide(body);
    let started = world.start(call_back::with(1)).expect("sent");
    *STARTED.lock().expect("no panic") = Some(started);
    let outcome = told.recv_timeout(Duration::from_secs(10)).expect("the body does not wait for its own run");
    assert!(matches!(&outcome, Some(Err(why)) if why.contains("cannot wait for the run that goes on")), "{outcome:?}");
    assert_eq!(world.run_within(call_back::with(2), Duration::from_secs(5)).map_err(|e| e.to_string()), Ok(2));
}

/// One that has ended is waited for while a run goes on.
#[test]
fn a_wait_for_a_started_run_that_has_ended_returns_in_a_body_of_a_run() {
    let world: &'static World = Box::leak(Box::new(world(1)));
    let started = Mutex::new(Some(world.start(echo::with(5u64)).expect("sent")));
    let body: Callback = Box::new(move |_, _| {
        let started = started.lock().expect("no panic").take().ok_or_else(|| Fault::msg("taken"))?;
        started.wait().map_err(|_| Fault::msg("it has ended before the run began"))
    });
    world.node(0).provide(body);
    assert_eq!(world.run_within(call_back::with(1), Duration::from_secs(5)).map_err(|e| e.to_string()), Ok(5));
}

/// Runs that go on are waited for within the limit: one of another thread, and one that was started.
#[test]
fn a_run_with_a_limit_waits_for_others_no_longer() {
    for is_started in [false, true] {
        let world = world(1);
        let gate = world.node(0).buffer(&[0u32; 32]).expect("room");
        let words = world.node(0).words(gate.ptr()).expect("the words");
        let word = |at| words.get(at).expect("inside");
        std::thread::scope(|scope| {
            let (world, gate) = (&world, gate.ptr());
            let (started, other) = match is_started {
                true => (Some(world.start(wait_at::with(gate, 1)).expect("sent")), None),
                false => (None, Some(scope.spawn(move || world.run(wait_at::with(gate, 1)).is_ok()))),
            };
            until("the run goes on", || word(16).observe() != 0);
            let begin = Instant::now();
            let late = world.run_within(echo::with(1u64), Duration::from_millis(200));
            let took = begin.elapsed();
            word(0).publish(1);
            assert!(late.is_err() && took < Duration::from_secs(5), "{took:?}: {late:?}");
            assert!(started.is_none_or(|started| started.wait().is_ok()));
            assert!(other.is_none_or(|other| other.join().expect("no panic")));
            assert_eq!(world.run_within(echo::with(2u64), Duration::from_secs(20)).expect("the others have ended"), 2);
        });
    }
}

/// Threads of this process with names that begin so.
fn threads(of: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("there").flatten();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.map(name).filter(|name| !name.is_empty() && of.starts_with(name.trim())).count()
}

/// Its first rank does not join.
#[test]
fn a_world_that_does_not_start_leaves_no_thread() {
    let options = WorldOptions::default();
    let rank = Options { start_deadline: Duration::from_secs(2), ..options.rank };
    let program = hamr::Image::program("/bin/true", [""; 0]).expect("there");
    let ranks = [("shm", program), ("thread", hamr::Image::find(devices::IMAGE).expect("a name"))];
    let world = devices::runtime().world_of_images(&ranks, WorldOptions { rank, ..options });
    assert!(world.is_err());
    assert_eq!(threads("rank 1 (thread)"), 0, "it serves a world that nobody has");
}

macro_rules! same_name {
    ($name:ident, $value:ty) => {
        enum $name {}
        impl Handler for $name {
            const NAME: &'static str = "hamr_tests::world_threads::same_name";
            const FLAGS: u32 = 1;
            type Kind = Context<'static>;
            type Args = ($value,);
            type Output = $value;
            fn run(_: &mut Context<'_>, (value,): ($value,)) -> $value {
                value
            }
        }
    };
}
same_name!(SameU32, u32);
same_name!(SameF32, f32);

#[offload(name = "hamr_tests::world_threads::same_name")]
fn same(_cx: &mut Context, value: u32) -> u32 {
    value
}

/// A rank remembers where a handler is by all that decides that.
#[test]
fn a_handler_of_other_types_is_refused_also_when_its_name_is_known() {
    let world = world(1);
    let code = world.run_program(|task| {
        let me = task.world().ok_or_else(|| Fault::msg("no rank"))?.me();
        let call = |task: &Task<'_>| task.sync(me, Call::<SameF32>::new((1.5,)));
        let why = |e: TaskCallError<_>| e.why();
        let first = call(task).map_err(why);
        if first != Err(Some(Why::OtherTypes)) {
            return Err(Fault::msg("the first call of other types was not refused"));
        }
        if task.sync(me, Call::<SameU32>::new((1,))).is_err() {
            return Err(Fault::msg("a call of its own types was refused"));
        }
        match call(task).map_err(why) {
            Err(Some(Why::OtherTypes)) => Ok(0),
            _ => Err(Fault::msg("it was called with other types")),
        }
    });
    assert_eq!(code.map_err(|e| e.to_string()), Ok(0));
}

/// A rank that waits for the others in steps, each with a limit, comes out of the barrier with them.
#[test]
fn a_barrier_that_is_tried_again_is_the_same_one() {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let world = world(2);
        let code = world.run_program(|task| {
            let me = task.world().ok_or_else(|| Fault::msg("no rank"))?.me();
            if me.0 == 1 {
                task.sleep(Duration::from_millis(200))?;
                task.barrier()?;
                return Ok(0);
            }
            loop {
                let _step = task.within(Duration::from_millis(20));
                match task.barrier() {
                    Ok(()) => return Ok(0),
                    Err(hamr_comm::Interrupted::Deadline) => {}
                    Err(why) => return Err(why.into()),
                }
            }
        });
        let _ = tell.send(code.map_err(|e| e.to_string()));
    });
    assert_eq!(told.recv_timeout(Duration::from_secs(3)), Ok(Ok(0)), "rank 0 waits for more barriers of rank 1");
}

/// Neither returns nor waits for long.
#[offload]
fn stays(_: &mut Context) {
    std::thread::sleep(Duration::from_secs(20));
}

/// All at once, and not one after the other.
#[test]
fn ranks_that_stay_are_left_behind_two_seconds_after_their_world() {
    let world = world(4);
    let calls: Vec<_> =
        world.nodes().iter().map(|node| node.shared_stream().expect("free").offload(stays::with())).collect();
    std::thread::sleep(Duration::from_millis(200));
    let begin = Instant::now();
    drop(world);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    drop(calls);
}

/// Takes its time where its thread ends.
struct Slow;

impl Drop for Slow {
    fn drop(&mut self) {
        std::thread::sleep(Duration::from_secs(20));
    }
}

thread_local!(static SLOW: Slow = const { Slow });

#[offload]
fn has_slow(_: &mut Context) {
    SLOW.with(|_| ());
}

/// Its thread ends behind the world.
#[test]
fn a_slow_destructor_of_a_rank_keeps_no_world() {
    let world = world(2);
    world.run_all(has_slow::with()).expect("both");
    let begin = Instant::now();
    drop(world);
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
}
