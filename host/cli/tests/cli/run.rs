//! `hamr run`: worlds from the command line.

use crate::common::{Run, hamr, signal, spawn, until};
use crate::refused;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// The image whose `main` does what its arguments say (`tests/kernels/src/worlds.rs`).
pub(crate) fn checks() -> &'static str {
    static IMAGE: OnceLock<String> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let output = Command::new(env!("CARGO_BIN_EXE_hamr")).args(["image", "hamr-checks"]).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    })
}

fn run(options: &[&str], arguments: &[&str]) -> Run {
    hamr(&[&["run"], options, &[checks()], arguments].concat())
}

/// It ended with the ranks' own code, and printed nothing.
fn ended(run: &Run, code: i32) {
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (Some(code), "", ""), "{run:?}");
    run.left_nothing();
}

#[test]
fn the_ranks_exit_code_is_the_commands() {
    ended(&run(&[], &[]), 0);
    ended(&run(&["-n", "3", "--segment", "64K"], &[]), 0);
    ended(&run(&["-n", "3"], &["code", "1"]), 7);
    ended(&run(&["--rank", "shm*2", "--rank", "shm", "-n", "3"], &["code", "2"]), 7);
    // The others never return.
    ended(&run(&["-n", "3"], &["exit", "2!"]), 9);
    let allowed = rustix::thread::sched_getaffinity(None).expect("this thread's processors");
    let cpu = (0..).find(|cpu| allowed.is_set(*cpu)).expect("one").to_string();
    ended(&run(&["-n", "2", "--cpu", &cpu], &["exit", "0!"]), 9);
}

/// Ranks that wait for each other need a `main` that may wait.
#[test]
fn a_main_can_be_a_task() {
    let built = hamr(&["image", "hamr-checks-other"]);
    for (ranks, code) in [("1", "0"), ("3", "5")] {
        ended(&hamr(&["run", "-n", ranks, built.stdout.trim_end(), code]), code.parse().expect("a code"));
    }
}

#[test]
fn a_rank_that_fails_is_named() {
    for (what, words) in [
        ("fail", &["rank 1 (shm)", "main", "as asked"][..]),
        ("panic", &["rank 1 (shm)", "main", "rank 1 was asked to panic", "worlds.rs:"]),
        ("null", &["rank 1 (shm)", "segmentation fault"]),
    ] {
        refused(&run(&["-n", "3"], &[what, "1!"]), words);
    }
}

#[test]
fn ranks_that_run_too_long_are_ended() {
    let run = run(&["-n", "2", "--timeout", "0.3"], &["spin", "0!"]);
    assert!(run.took < Duration::from_secs(10), "{run:?}");
    refused(&run, &["(shm)", "--timeout"]);
}

#[test]
fn an_interrupted_command_leaves_no_rank() {
    for name in ["INT", "TERM", "KILL"] {
        let running = spawn(&["run", "-n", "3", checks(), "spin", "0!"]);
        let tasks = PathBuf::from(format!("/proc/{}/task/{}/children", running.id(), running.id()));
        until("three ranks run", || {
            let children = std::fs::read_to_string(&tasks).unwrap_or_default();
            (children.split_whitespace().count() == 3).then_some(())
        });
        signal(running.id(), name);
        let run = running.wait();
        assert_eq!(run.code, None, "it ended by the signal: {run:?}");
        run.left_nothing();
    }
}

#[test]
fn bad_input_is_one_clear_line() {
    for (options, words) in [
        (&["-n", "0"][..], &["-n: expected 1 to 4095 ranks, got 0"][..]),
        (&["-n", "4096"], &["-n: expected 1 to 4095 ranks, got 4096"]),
        (&["-n", "two"], &["two", "hamr --help"]),
        (&["--rank", "shm*4096"], &["--rank shm*4096"]),
        (&["--rank", "shm*0"], &["--rank shm*0"]),
        (&["--rank", "shm*4095", "--rank", "shm"], &["at most 4095", "got 4096"]),
        (&["--rank", "shm*2", "-n", "3"], &["the 3 ranks of -n, got 2"]),
        (&["--rank", "shm", "--device", "shm"], &["--rank or `--device shm`"]),
        (&["--rank", "toaster"], &["`toaster`", "shm"]),
        (&["--rank", "loopback"], &["loopback takes no image"]),
        (&["--segment", "1"], &["--segment: expected a multiple of 4096"]),
        (&["--segment", "much"], &["--segment: expected a number of bytes"]),
        (&["--segment", "64G"], &["--segment: expected a multiple of 4096 below"]),
        (&["--cpu", "1-0"], &["--cpu: expected processors"]),
        (&["--timeout", "0"], &["--timeout: expected seconds"]),
        (&["--image", "hamr-demo"], &["expected one image"]),
    ] {
        refused(&run(options, &[]), words);
    }
    refused(&run(&[], &["x".repeat(5000).as_str()]), &["at most 4096 bytes of arguments, got 5000"]);
    refused(&hamr(&["run", "/nowhere/image"]), &["/nowhere/image"]);
    let demo = crate::common::image().display().to_string();
    refused(&hamr(&["run", "-n", "2", &demo]), &["#[offload(name = \"main\")]", "found none"]);
    refused(&hamr(&["run", "-n", "2", "/bin/true"]), &["/bin/true"]);
}
