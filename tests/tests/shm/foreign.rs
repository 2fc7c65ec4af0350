//! Hosts that are no Rust programs of one process with a terminal: forks, dispositions of signals, closed
//! descriptors, limits. Each runs in a process of its own (`hamr_tests::foreign`).

use hamr::{Error, Node, Options, Runtime, WorldOptions};
use hamr_tests::conformance::{options, until};
use hamr_tests::{devices, foreign, processes};
use hamr_tests_kernels::echo;
use hamr_tests_kernels::waits::sleeps;
use rustix::process::{Pid, Resource, Rlimit, Signal, getpid, kill_process, kill_process_group, setrlimit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a test gives to the process that it starts.
const GIVEN: &str = "HAMR_TEST_GIVEN";

fn open() -> Node {
    devices::open("shm", Options { restart: false, ..options() })
}

fn is_of_another_process(error: impl ToString) -> bool {
    error.to_string().contains("another process opened it")
}

/// A call of before the fork has the value that had come, or that error.
fn is_told(outcome: Result<u64, hamr::CallError>) -> bool {
    match outcome {
        Ok(value) => value == 1,
        Err(why) => is_of_another_process(why),
    }
}

fn given() -> String {
    std::env::var(GIVEN).expect("another test starts this one")
}

// --- forks ---

#[test]
fn a_fork_leaves_its_parents_devices_alone() {
    foreign::succeeds("forks", (GIVEN, ""));
}

#[test]
#[ignore = "run by a_fork_leaves_its_parents_devices_alone"]
fn forks() {
    // Each with the device as it is in the child, and whether that is right.
    type Use = fn(Node) -> bool;
    let uses: [(&str, Use); 11] = [
        ("drop", |node| {
            drop(node);
            true
        }),
        ("end", |node| {
            std::mem::forget(node);
            true
        }),
        ("sync", |node| node.sync(echo::with(2u64)).is_err_and(is_of_another_process)),
        ("offload", |node| match node.offload(echo::with(2u64)) {
            Ok(pending) => pending.wait().is_err_and(is_of_another_process),
            Err(why) => is_of_another_process(why),
        }),
        ("stream", |node| {
            let stream = node.stream();
            stream.is_err() || stream.is_ok_and(|stream| stream.sync(echo::with(2u64)).is_err())
        }),
        ("put", |node| {
            let buffer = node.buffer(&[1u32]).map(drop);
            buffer.is_err_and(is_of_another_process)
        }),
        ("restart", |node| node.restart().is_err_and(is_of_another_process)),
        ("stop", |node| {
            node.stop();
            true
        }),
        ("wait_until_back", |node| node.wait_until_back(Duration::from_secs(1)).is_err_and(is_of_another_process)),
        ("is_alive", |node| !node.is_alive()),
        ("another device", |_node| open().sync(echo::with(3u64)).is_ok_and(|value| value == 3)),
    ];
    for (what, act) in uses {
        let node = open();
        assert_eq!(node.sync(echo::with(1u64)).expect("runs"), 1);
        let buffer = node.buffer(&[5u32, 6]).expect("room");
        let mut node = Some(node);
        let child = foreign::forked(|| i32::from(!act(node.take().expect("once"))));
        assert_eq!(foreign::code_of(child), Some(0), "{what}");
        let node = node.expect("the parent has taken nothing");
        assert_eq!(buffer.read().map_err(|e| e.to_string()), Ok(vec![5, 6]), "{what}");
        for n in 0..100u64 {
            assert_eq!(node.sync(echo::with(n)).map_err(|e| e.to_string()), Ok(n), "{what}");
        }
    }
    // Copies into and out of a buffer that the child has.
    let node = open();
    let buffer = node.buffer(&[5u32, 6]).expect("room");
    let child = foreign::forked(|| {
        let copies = [buffer.write(&[7]).is_err(), buffer.read().is_err(), node.put(&[7], buffer.ptr()).is_err()];
        let more = [node.get(buffer.ptr(), &mut [0]).is_err(), node.copy(buffer.ptr(), buffer.ptr()).is_err()];
        i32::from(copies.into_iter().chain(more).any(|refused| !refused))
    });
    assert_eq!(foreign::code_of(child), Some(0));
    assert_eq!(buffer.read().map_err(|e| e.to_string()), Ok(vec![5, 6]));
    // Worlds: of processes, of threads.
    for spec in ["shm", "thread"] {
        let world = match spec {
            "thread" => devices::runtime().world_of_threads(2),
            _ => devices::runtime().world_with(&["shm"; 2], devices::image("shm"), WorldOptions::default()),
        };
        let mut world = Some(world.expect("a world"));
        let child = foreign::forked(|| {
            drop(world.take());
            0
        });
        assert_eq!(foreign::code_of(child), Some(0), "{spec}");
        let world = world.expect("the parent has taken nothing");
        assert!(world.nodes().iter().all(Node::is_alive), "{spec}");
    }
}

#[test]
fn every_object_of_a_fork_has_an_error_at_once() {
    for held in ["used", "blocked", "busy"] {
        foreign::succeeds("forked_objects", (GIVEN, held));
    }
}

/// All kinds of objects, of which a thread of the parent has the shared stream.
struct Objects {
    node: Node,
    world: hamr::World,
    shared: hamr::SharedStream,
    buffer: hamr::Buffer<u32>,
    work: hamr::PendingWork<()>,
    /// The first call of the shared stream.
    pending: hamr::Pending<echo<u64>, hamr::SharedStream>,
}

#[test]
#[ignore = "run by every_object_of_a_fork_has_an_error_at_once"]
fn forked_objects() {
    type Use = fn(&mut Option<Objects>) -> bool;
    fn of(objects: &Option<Objects>) -> &Objects {
        objects.as_ref().expect("nothing has taken it")
    }
    let uses: [(&str, Use); 28] = [
        ("shared sync", |o| of(o).shared.sync(echo::with(2u64)).is_err()),
        ("shared offload", |o| match of(o).shared.offload(echo::with(2u64)) {
            Ok(pending) => pending.wait().is_err(),
            Err(_) => true,
        }),
        ("shared send", |o| of(o).shared.send(echo::with(2u64)).is_err()),
        ("shared flush", |o| {
            let _ = of(o).shared.flush();
            true
        }),
        ("shared state", |o| {
            let _ = of(o).shared.state();
            true
        }),
        ("shared block", |o| {
            let _block = of(o).shared.block();
            of(o).shared.sync(echo::with(2u64)).is_err()
        }),
        ("shared host function", |o| of(o).shared.run_on_host(|| ()).is_err_and(is_of_another_process)),
        ("shared drop", |o| {
            drop(o.take());
            true
        }),
        ("pending is_done", |o| of(o).pending.is_done()),
        ("pending wait", |o| is_told(o.take().expect("nothing has taken it").pending.wait())),
        ("pending future", |o| is_told(pollster::block_on(&mut o.as_mut().expect("nothing has taken it").pending))),
        ("sync", |o| of(o).node.sync(echo::with(2u64)).is_err_and(is_of_another_process)),
        ("info", |o| of(o).node.info().name == "shm"),
        ("handlers", |o| !of(o).node.handlers().is_empty()),
        ("ping", |o| of(o).node.ping().is_err_and(is_of_another_process)),
        ("another shared stream", |o| of(o).node.shared_stream().is_err_and(is_of_another_process)),
        ("a stream", |o| of(o).node.stream().is_err_and(is_of_another_process)),
        ("streams", |o| of(o).node.streams().is_empty()),
        ("buffer write", |o| of(o).buffer.write(&[7]).is_err_and(is_of_another_process)),
        ("buffer read", |o| of(o).buffer.read().is_err_and(is_of_another_process)),
        ("words", |o| of(o).node.words(of(o).buffer.ptr()).is_err_and(is_of_another_process)),
        ("put_async", |o| of(o).node.put_async(vec![7u32], of(o).buffer.ptr()).is_err()),
        ("counts", |o| of(o).node.free_bytes() == 0 && of(o).node.live_buffers() == 0),
        ("work wait", |o| {
            o.take().expect("nothing has taken it").work.wait().is_err_and(|why| why.to_string().contains("fork"))
        }),
        ("work is_done", |o| of(o).work.is_done()),
        ("world run", |o| of(o).world.run(echo::with(2u64)).is_err_and(is_of_another_process)),
        ("world wait", |o| of(o).world.wait().is_err_and(|why| is_of_another_process(why.to_string()))),
        ("world outcome", |o| of(o).world.outcome().is_some_and(|outcome| outcome.is_err())),
    ];
    let (node, world) = (open(), devices::runtime().world_of_threads(2).expect("a world"));
    let (shared, buffer) = (node.shared_stream().expect("a stream"), node.buffer(&[5u32, 6]).expect("room"));
    let pending = shared.offload(echo::with(1u64)).expect("sent");
    let (stop, goes_on) = std::sync::mpsc::channel::<()>();
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (threads, is_blocked) = (shared.clone(), given() == "blocked");
    let thread = std::thread::spawn(move || {
        let block = is_blocked.then(|| threads.block());
        begun.send(()).expect("it waits");
        while goes_on.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            threads.sync(echo::with(3u64)).expect("runs");
        }
        drop(block);
    });
    has_begun.recv().expect("it begins");
    // Other threads ping, and use what all have in common, by a handle of their own.
    let number = node.info().node;
    let handle = move || {
        let mut open = devices::runtime().nodes().into_iter();
        open.find(|found| found.info().node == number).expect("it is open")
    };
    let uses_of_others: [fn(&Node); 4] = [
        |handle| _ = handle.ping().expect("it runs"),
        |handle| _ = handle.info(),
        |_| drop(devices::runtime().nodes()),
        // Has a number, and is refused.
        |_| drop(devices::runtime().open("shm:/none", devices::image("shm"))),
    ];
    let (stops, is_busy) = (Arc::new(AtomicBool::new(false)), given() == "busy");
    let others: Vec<_> = uses_of_others
        .into_iter()
        .take(if is_busy { 4 } else { 1 })
        .map(|act| {
            let (stops, handle) = (stops.clone(), handle());
            std::thread::spawn(move || {
                while !stops.load(Ordering::Relaxed) {
                    act(&handle);
                }
            })
        })
        .collect();
    let (ended, end) = std::sync::mpsc::channel::<()>();
    let end = std::sync::Mutex::new(end);
    // Behind the block, of another thread.
    let late = node.shared_stream().expect("a stream");
    let work = late.run_on_host(move || drop(end.lock().map(|end| end.recv()))).expect("it begins");
    let mut objects = Some(Objects { node, world, shared, buffer, work, pending });
    for (what, act) in uses {
        // The thread has the lock in some of them, if not in a block.
        for _ in 0..if is_blocked { 1 } else { 10 } {
            let begin = Instant::now();
            let child = foreign::forked(|| i32::from(!act(&mut objects)));
            assert_eq!(foreign::code_of(child), Some(0), "{what}");
            assert!(begin.elapsed() < Duration::from_secs(5), "{what}: {:?}", begin.elapsed());
        }
    }
    // Words that were there before the fork: the child's stores are its own.
    let Objects { node, world, shared, buffer, work, pending } = objects.expect("the parent has taken nothing");
    let words = node.words(buffer.ptr()).expect("its own");
    let child = foreign::forked(|| {
        words.get(0).expect("a word").store(99);
        words.get(1).expect("a word").publish(98);
        0
    });
    assert_eq!(foreign::code_of(child), Some(0));
    assert_eq!(buffer.read().map_err(|e| e.to_string()), Ok(vec![5, 6]));
    stop.send(()).expect("it listens");
    thread.join().expect("no panic");
    stops.store(true, Ordering::Relaxed);
    others.into_iter().for_each(|other| other.join().expect("no panic"));
    assert_eq!(pending.wait().map_err(|e| e.to_string()), Ok(1));
    ended.send(()).expect("it listens");
    work.wait().expect("the function has ended");
    assert_eq!(shared.sync(echo::with(4u64)).map_err(|e| e.to_string()), Ok(4));
    assert!(world.run(echo::with(5u64)).is_ok());
    drop(late);
}

#[test]
fn a_started_run_of_a_fork_has_an_error_at_once() {
    foreign::succeeds("forked_run", (GIVEN, ""));
}

#[test]
#[ignore = "run by a_started_run_of_a_fork_has_an_error_at_once"]
fn forked_run() {
    let world: &'static hamr::World = Box::leak(Box::new(devices::runtime().world_of_threads(2).expect("a world")));
    let mut started = Some(world.start(sleeps::with(3_000_000)).expect("sent"));
    // Has the turn of runs, and waits for the one that was started.
    let other = std::thread::spawn(|| world.run(echo::with(5u64)).map_err(|e| e.to_string()));
    std::thread::sleep(Duration::from_millis(300));
    let child = foreign::forked(|| i32::from(!started.as_ref().expect("there").is_done()));
    assert_eq!(foreign::code_of(child), Some(0), "there is nothing to wait for");
    let begin = Instant::now();
    let child = foreign::forked(|| {
        let outcome = started.take().expect("once").wait();
        i32::from(!outcome.is_err_and(is_of_another_process))
    });
    assert_eq!(foreign::code_of(child), Some(0));
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert!(started.take().expect("the parent has it").wait().is_ok());
    assert_eq!(other.join().expect("no panic"), Ok(5));
}

#[test]
fn a_fork_of_a_host_that_loads_an_image_loads_none() {
    foreign::succeeds("forked_load", (GIVEN, ""));
}

#[test]
#[ignore = "run by a_fork_of_a_host_that_loads_an_image_loads_none"]
fn forked_load() {
    let node: &'static Node = Box::leak(Box::new(open()));
    let running = node.offload(sleeps::with(2_000_000)).expect("sent");
    // It waits for the call.
    let load = std::thread::spawn(move || node.load_image(&devices::image("shm")));
    std::thread::sleep(Duration::from_millis(300));
    let begin = Instant::now();
    let child =
        foreign::forked(|| i32::from(!node.load_image(&devices::image("shm")).is_err_and(is_of_another_process)));
    assert_eq!(foreign::code_of(child), Some(0));
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    running.wait().expect("it ends");
    load.join().expect("no panic").expect("it is loaded");
    node.stop();
}

#[test]
fn an_image_ends_with_its_killed_host_while_a_child_lives() {
    foreign::succeeds("a_killed_host", (GIVEN, ""));
}

#[test]
#[ignore = "run by an_image_ends_with_its_killed_host_while_a_child_lives"]
fn a_killed_host() {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let host = foreign::forked(|| {
        let node = open();
        std::io::Write::write_all(&mut &writer, &node.info().pid.to_le_bytes()).expect("room");
        let child = foreign::forked(|| {
            std::thread::sleep(Duration::from_secs(20));
            0
        });
        std::io::Write::write_all(&mut &writer, &child.to_le_bytes()).expect("room");
        kill_process(getpid(), Signal::KILL).expect("it runs");
        0
    });
    assert_eq!(foreign::code_of(host), None, "killed");
    let mut number = || {
        let mut bytes = [0; 4];
        std::io::Read::read_exact(&mut reader, &mut bytes).expect("its device, its child");
        u32::from_le_bytes(bytes)
    };
    let (device, child, begin) = (number(), number(), Instant::now());
    until("the image ends", || processes::has_ended(device));
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    kill_process(Pid::from_raw(child as i32).expect("a process"), Signal::KILL).expect("it lives still");
}

// --- signals ---

#[test]
fn dispositions_of_signals_that_a_program_has_harm_no_device() {
    for disposition in ["SIGCHLD ignored", "all children reaped", "SIGPIPE default", "SIGINT handled"] {
        foreign::succeeds("a_disposition", (GIVEN, disposition));
    }
}

#[test]
#[ignore = "run by dispositions_of_signals_that_a_program_has_harm_no_device"]
fn a_disposition() {
    // Built with the children that a build has.
    let image = devices::image("shm");
    match given().as_str() {
        "SIGCHLD ignored" => foreign::ignore(foreign::SIGCHLD),
        "SIGPIPE default" => foreign::reset(foreign::SIGPIPE),
        "SIGINT handled" => {
            rustix::process::setpgid(None, None).expect("a group of its own");
            foreign::handle(foreign::SIGINT);
        }
        _ => {
            std::thread::spawn(|| {
                loop {
                    foreign::reap_all();
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
    }
    let node = devices::runtime().open_with("shm", image, Options { restart: false, ..options() }).expect("a device");
    let first = node.info().pid;
    // As the terminal does at Ctrl-C.
    if given() == "SIGINT handled" {
        kill_process_group(getpid(), Signal::INT).expect("this group");
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(node.sync(echo::with(1u64)).map_err(|e| e.to_string()), Ok(1));
    node.restart().expect("it starts again");
    let second = node.info().pid;
    assert!(first != second && processes::has_ended(first));
    kill_process(Pid::from_raw(second as i32).expect("a process"), Signal::KILL).expect("it runs");
    until("the loss is seen", || !node.is_alive());
    let error = node.sync(echo::with(2u64)).expect_err("it is lost").to_string();
    assert!(error.contains(&format!("its process {second} ended")), "{error}");
    node.restart().expect("it starts again");
    assert_eq!(node.sync(echo::with(3u64)).map_err(|e| e.to_string()), Ok(3));
    let last = node.info().pid;
    drop(node);
    assert!(processes::has_ended(last));
}

/// Each signal that a program may have ignored, all at once, and all blocked.
#[test]
fn every_signal_that_a_program_ignores_or_blocks_harms_no_device() {
    for which in ["each ignored", "all ignored", "all blocked"] {
        foreign::succeeds("signals_of_a_program", (GIVEN, which));
    }
}

#[test]
#[ignore = "run by every_signal_that_a_program_ignores_or_blocks_harms_no_device"]
fn signals_of_a_program() {
    let image = devices::image("shm");
    let works = |what: &str| {
        let options = Options { restart: false, ..options() };
        let node = devices::runtime().open_with("shm", image.clone(), options).expect("a device");
        assert_eq!(node.sync(echo::with(1u64)).map_err(|e| e.to_string()), Ok(1), "{what}");
        let device = node.info().pid;
        drop(node);
        assert!(processes::has_ended(device), "{what}");
    };
    // SIGKILL and SIGSTOP have no other action; 32 and 33 are the C library's.
    let all = || (1..65).filter(|number| ![9, 19, 32, 33].contains(number));
    match given().as_str() {
        "each ignored" => {
            for number in all() {
                foreign::ignore(number);
                works(&format!("signal {number} ignored"));
                foreign::reset(number);
            }
        }
        "all ignored" => {
            all().for_each(foreign::ignore);
            works("all ignored");
        }
        _ => {
            foreign::block_all();
            works("all blocked");
        }
    }
}

/// Images are built and ranks started; machines: `qemu/launch.rs`.
#[test]
fn children_inherit_no_disposition_of_their_ends() {
    for inherited in foreign::INHERITED {
        foreign::succeeds("starts_children", (GIVEN, inherited));
    }
}

#[test]
#[ignore = "run by children_inherit_no_disposition_of_their_ends"]
fn starts_children() {
    foreign::set(&given());
    let me = std::process::id();
    // Behind exec: before it, the child is a copy of this program.
    let started = move || {
        let program = |process: u32| std::fs::read_link(format!("/proc/{process}/exe")).ok();
        let is_another = |child: &u32| program(*child).is_some_and(|is| Some(is) != program(me));
        processes::children(me).into_iter().filter(is_another).collect::<Vec<_>>()
    };
    let world =
        devices::runtime().world_with(&["shm"; 2], devices::image("shm"), WorldOptions::default()).expect("a world");
    let ranks = started();
    assert_eq!(ranks.len(), 2);
    assert!(ranks.into_iter().all(foreign::waits_for_children));
    assert!(world.run(echo::with(1u64)).is_ok());
    drop(world);
    let (stop, goes_on) = std::sync::mpsc::channel::<()>();
    let see = started;
    let of_cargo = std::thread::spawn(move || {
        let mut seen = 0;
        while goes_on.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            for child in see() {
                // One that has ended meanwhile has no status, and fails nothing.
                assert!(foreign::waits_for_children(child), "{:?}", std::fs::read(format!("/proc/{child}/cmdline")));
                seen += 1;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        seen
    });
    drop(devices::build(devices::IMAGE, "shm"));
    stop.send(()).expect("it listens");
    assert_ne!(of_cargo.join().expect("all do"), 0, "cargo was seen");
}

// --- descriptors 0 to 2 ---

#[test]
fn closed_standard_descriptors_are_used_for_nothing_else() {
    for closed in 0..8 {
        foreign::succeeds("without_stdio", (GIVEN, &closed.to_string()));
    }
}

#[test]
#[ignore = "run by closed_standard_descriptors_are_used_for_nothing_else"]
fn without_stdio() {
    let image = devices::image("shm");
    let closed: i32 = given().parse().expect("bits");
    // The harness's own output may be gone from here on: the exit code says whether all is well.
    (0..3).filter(|number| closed >> number & 1 != 0).for_each(foreign::close_stdio);
    let runtime = Runtime::new().expect("a runtime");
    let node = runtime.open_with("shm", image.clone(), options()).expect("a device");
    let world = runtime.world_with(&["shm"; 2], image, WorldOptions::default()).expect("a world");
    let devices = std::iter::once(&node).chain(world.nodes()).map(|node| (node.info().pid, "/dev/null"));
    for (process, allowed) in devices.chain([(std::process::id(), "/dev/null")]) {
        for number in 0..3 {
            let what = std::fs::read_link(format!("/proc/{process}/fd/{number}")).expect("it is open");
            let what = what.to_string_lossy().into_owned();
            // Of this program, or /dev/null; of an image, 0 is the socket to its host.
            let is_control = number == 0 && process != std::process::id() && what.starts_with("socket:");
            let is_inherited = closed >> number & 1 == 0 && !what.contains("memfd") && !what.starts_with("socket:");
            assert!(what == allowed || is_control || is_inherited, "{process}: {number} is {what}");
        }
    }
    assert_eq!(node.sync(echo::with(1u64)).map_err(|e| e.to_string()), Ok(1));
}

// --- limits ---

#[test]
fn every_limit_that_the_system_sets_is_an_error_and_no_end() {
    let limits = [("descriptors", 4..40, 3), ("addresses", 40..400, 24)];
    for (kind, range, step) in limits {
        let mut opened = 0;
        for limit in range.step_by(step) {
            let output = foreign::run_ignored("a_limit", (GIVEN, &format!("{kind} {limit}")));
            let (said, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{kind} {limit}: {}\n{said}\n{failed}", output.status);
            // The image's reason is in the host's error, and not a line of its own.
            assert!(!failed.contains("hamr image:") && !failed.contains("panicked"), "{kind} {limit}: {failed}");
            opened += u32::from(said.contains("it opens"));
        }
        assert_ne!(opened, 0, "the most that {kind} were limited to is enough");
    }
}

#[test]
#[ignore = "run by every_limit_that_the_system_sets_is_an_error_and_no_end"]
fn a_limit() {
    let given = given();
    let (kind, limit) = given.split_once(' ').expect("two words");
    let limit: u64 = limit.parse().expect("a number");
    let image = devices::image("shm");
    let runtime = Runtime::new().expect("a runtime");
    let (resource, limit) = match kind {
        "descriptors" => (Resource::Nofile, limit),
        _ => (Resource::As, limit << 20),
    };
    setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) }).expect("a lower one");
    let options = Options { heap: 64 << 20, start_deadline: Duration::from_secs(20), ..options() };
    match runtime.open_with("shm", image, options) {
        Ok(node) => {
            assert_eq!(node.sync(echo::with(1u64)).map_err(|e| e.to_string()), Ok(1));
            println!("it opens");
        }
        Err(Error::Timeout { after, .. }) => panic!("no reason within {after:?}"),
        Err(why) => {
            let why = why.to_string();
            println!("{why}");
            assert_eq!(why.lines().count(), 1);
            assert!(!why.contains("signal"), "{why}");
        }
    }
}

/// Who traces a device, such as gdb that was attached to it, has its exit status as long as it likes.
#[test]
fn a_device_that_another_program_traces_ends_within_limits() {
    let node = open();
    let pid = node.info().pid;
    let tracer = foreign::traced(pid, Duration::from_secs(20));
    let status = || std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    until("it is traced", || !status().contains("TracerPid:\t0\n"));
    let begin = Instant::now();
    node.stop();
    let why = node.sync(echo::with(1u64)).expect_err("it has ended").to_string();
    drop(node);
    let took = begin.elapsed();
    kill_process(Pid::from_raw(tracer).expect("a child"), Signal::KILL).expect("it is there");
    foreign::code_of(tracer);
    assert!(took < Duration::from_secs(10), "{took:?}: {why}");
}
