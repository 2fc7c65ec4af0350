//! Programs that join a world: started by `run` as users start them, and by the library.

use hamr::{Image, Options, World, WorldOptions};
use hamr_tests::{devices, peers, processes};
use hamr_tests_kernels::echo;
use hamr_tests_kernels::worlds::{fill, leave, place};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_hamr-joins");

fn run(options: &[&str], arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("run").args(options).arg(PROGRAM).args(arguments).stdin(Stdio::null());
    let mut output = command.output().expect("it runs");
    output.stderr = processes::said(&output.stderr).into_bytes();
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// It ended with this code and said nothing.
#[track_caller]
fn ended(output: &Output, code: i32) {
    assert_eq!((output.status.code(), text(&output.stdout), text(&output.stderr)), (Some(code), "".into(), "".into()));
}

/// It failed with one line that has these words.
#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    let line = text(&output.stderr);
    assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{line}");
    assert!(words.iter().all(|word| line.contains(word)), "{words:?} in {line}");
}

fn world(ranks: usize, arguments: &[&str]) -> World {
    let options = WorldOptions::default();
    let rank = Options { start_deadline: devices::START_TIMEOUT, ..options.rank };
    let image = Image::program(PROGRAM, arguments).expect("a program");
    let options = WorldOptions { rank, ..options };
    devices::runtime().world_with(&vec!["shm"; ranks], image, options).expect("a world")
}

#[test]
fn the_programs_exit_code_is_the_commands() {
    ended(&run(&[], &["none"]), 0);
    ended(&run(&["-n", "3"], &["code", "1"]), 7);
    ended(&run(&["--rank", "shm*2", "--rank", "shm"], &["size"]), 3);
    // The others never return, whatever they do.
    for what in ["exit", "wait"] {
        ended(&run(&["-n", "4", "--timeout", "30"], &["exit", "2!", what]), 9);
    }
}

#[test]
fn programs_send_messages() {
    for ranks in ["1", "2", "4"] {
        ended(&run(&["-n", ranks, "--timeout", "60"], &["gas"]), 0);
    }
    ended(&Command::new(PROGRAM).arg("gas").output().expect("it runs"), 0);
}

#[test]
fn what_programs_print_is_passed_through() {
    let output = run(&["-n", "3"], &["say"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    for rank in 0..3 {
        assert!(stdout.contains(&format!("rank {rank} of 3\n")), "{stdout}");
        assert!(stderr.contains(&format!("and rank {rank} says so")), "{stderr}");
    }
    assert_eq!(stdout.matches("without an end of line").count(), 3, "{stdout}");
}

#[test]
fn a_rank_reads_no_input_and_its_children_are_no_ranks() {
    ended(&run(&["-n", "2"], &["stdin"]), 0);
    ended(&run(&["-n", "2"], &["child"]), 1);
}

#[test]
fn a_program_alone_is_a_world_of_one() {
    let alone = |arguments: &[&str]| Command::new(PROGRAM).args(arguments).output().expect("it runs");
    ended(&alone(&["size"]), 1);
    ended(&alone(&["exit", "0"]), 9);
    let output = alone(&["say"]);
    assert_eq!(text(&output.stdout), "rank 0 of 1\nwithout an end of line");
    let output = alone(&["panic", "0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("rank 0 was asked to panic"), "{output:?}");
    // A socket without a greeting is no launcher's.
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
    (&ours).write_all(b"hamrshm1").expect("room");
    let output = Command::new(PROGRAM).arg("size").stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs))).output();
    ended(&output.expect("it runs"), 1);
}

#[test]
fn a_program_that_fails_is_named() {
    refused(&run(&["-n", "3"], &["fail", "1!"]), &["rank 1 (shm)", "as asked"]);
    refused(&run(&["-n", "3"], &["panic", "1!"]), &["rank 1 (shm)", "rank 1 was asked to panic", "joins.rs:"]);
    refused(&run(&["-n", "3"], &["null", "1!"]), &["rank 1 (shm)", "segmentation fault"]);
    refused(&run(&["-n", "3"], &["quit", "1!"]), &["rank 1 (shm) was lost", "exit status: 5"]);
    refused(&run(&["-n", "2", "--timeout", "0.3"], &["spin", "0!"]), &["(shm)", "--timeout"]);
    refused(&run(&["-n", "2", "--timeout", "0.3"], &["wait", "0!"]), &["(shm)", "--timeout"]);
    // Panics of other threads are the program's own business.
    let output = run(&["-n", "2"], &["thread", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("a thread of the program was asked to panic"), "{output:?}");
}

/// Ctrl-C reaches the launcher and, in a terminal, its programs at the same time.
#[test]
fn an_interrupted_launcher_leaves_no_program() {
    for to_all in [false, true] {
        for what in ["wait", "spin"] {
            let mut command = Command::new(PROGRAM);
            command.args(["run", "-n", "3", PROGRAM, what, "0!"]).stdin(Stdio::null()).process_group(0);
            let mut launcher = command.stderr(Stdio::null()).spawn().expect("it starts");
            let begin = Instant::now();
            let ranks = loop {
                let ranks = processes::children(launcher.id());
                if ranks.len() == 3 {
                    break ranks;
                }
                assert!(begin.elapsed() < devices::START_TIMEOUT, "{ranks:?}");
            };
            let pid = Pid::from_child(&launcher);
            let sent = if to_all { kill_process_group(pid, Signal::INT) } else { kill_process(pid, Signal::INT) };
            sent.expect("of this test");
            let begin = Instant::now();
            let code = launcher.wait().expect("its own child").code();
            // Where a rank ends first, the launcher may still name it.
            assert!(code.is_none() || to_all && code == Some(2), "{code:?}");
            while !ranks.iter().all(|pid| processes::has_ended(*pid)) {
                assert!(begin.elapsed() < Duration::from_secs(2), "{ranks:?}");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

#[test]
fn what_is_no_program_is_one_clear_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/bin/sh\nexit 0\n").expect("room");
    let of = |what: &str, options: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.arg("run").args(options).arg(what).stdin(Stdio::null()).output().expect("it runs")
    };
    let script = script.display().to_string();
    refused(&of(&script, &[]), &[&script, "expected an ELF file"]);
    refused(&of("/nowhere/program", &[]), &["/nowhere/program"]);
    refused(&of("/bin/true", &["-n", "2"]), &["rank 0 (shm)", "/bin/true", "hamr::world::main", "exit status: 0"]);
    refused(&of(PROGRAM, &["--rank", "qemu:riscv64"]), &["got a program", "shm alone"]);
    refused(&of(PROGRAM, &["--rank", "thread"]), &["thread takes no image"]);
}

#[test]
fn a_program_is_a_rank_like_any_other() {
    let world = world(3, &["wait", "0!"]);
    std::thread::scope(|scope| {
        let main = scope.spawn(|| world.run_main(""));
        for (rank, node) in world.nodes().iter().enumerate() {
            assert_eq!(node.sync(place::with()).expect("a rank"), (rank as u32, 3));
            assert_eq!(node.sync(fill::with(rank as u8)).expect("its own"), 64 << 20);
            assert_eq!(node.sync(echo::with(17u64)).expect("a reply"), 17);
            assert_ne!(node.info().pid, std::process::id());
        }
        let list = hamr::inspect::windows_of(std::process::id());
        assert_eq!(list.iter().filter(|window| window.device_state == "serving").count(), 3);
        world.node(1).stop();
        let error = main.join().expect("it ends").expect_err("a rank was stopped").to_string();
        assert!(error.contains("rank 1 (shm) was lost"), "{error}");
    });
}

/// Every process leaves, whatever it does, and what it left is collected.
#[test]
fn programs_leave_with_their_world() {
    for what in ["spin", "wait"] {
        let world = world(4, &[what, "0!"]);
        let pids: Vec<u32> = world.nodes().iter().map(|node| node.info().pid).collect();
        std::thread::scope(|scope| {
            let main = scope.spawn(|| world.run_main(""));
            // Until all have begun: a task that does not wait keeps its device.
            std::thread::sleep(Duration::from_millis(100));
            let begin = Instant::now();
            world.node(3).stop();
            assert!(world.wait().is_err());
            assert!(begin.elapsed() < Duration::from_millis(2500), "{:?}", begin.elapsed());
            assert!(main.join().expect("it ends").is_err());
        });
        assert!(pids.iter().all(|pid| processes::has_ended(*pid)), "{pids:?}");
    }
}

#[test]
fn a_program_runs_again_on_the_same_ranks() {
    let world = world(1, &["code", "0"]);
    assert_eq!(world.run_main("").expect("a code"), 7);
    // It is a task like others.
    assert_eq!(world.run_main("").expect("a code"), 7);
    assert_eq!(world.outcome(), None);
    // A closure of this process is no program of that one.
    let error = world.run_program(|_| Ok(3)).expect_err("refused").to_string();
    assert!(error.contains("rank 0 (shm)") && error.contains("no such program"), "{error}");
}

#[test]
fn programs_reach_each_other() {
    for ranks in [2, 3] {
        let world = world(ranks, &["none"]);
        peers::check_copies(&world);
        peers::check_copies_of_others(&world);
        peers::check_strides(&world, 30);
        peers::check_atomics(&world, 2001);
        peers::check_signals(&world, 200, 0);
        peers::check_barriers(&world, 200);
    }
    // Their own tasks do, too.
    ended(&run(&["-n", "4", "--timeout", "60"], &["ring"]), 0);
}

/// A task that waits beside `main` is served.
#[test]
fn a_program_that_waits_serves_calls() {
    let world = world(2, &["wait", "0!"]);
    std::thread::scope(|scope| {
        let main = scope.spawn(|| world.run_main(""));
        peers::check_copies(&world);
        assert!(world.node(0).sync(leave::with(6)).is_err());
        assert_eq!(main.join().expect("it ends").expect("a code"), 6);
    });
}
