//! The tasks as they are typed.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Tasks that pass `--help` on to a program that is built for it.
const PASSED: [&str; 3] = ["bench", "credits", "put-out"];

fn xtask(arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it to its end: a task that does not know `--help` may build for minutes.
fn ended(command: &mut Command) -> Output {
    let mut child = command.spawn().expect("it starts");
    let begin = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if begin.elapsed() > Duration::from_secs(20) {
            child.kill().expect("it runs");
            panic!("{command:?}: no end within 20 s");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("its output")
}

fn names() -> Vec<String> {
    let list = ended(&mut xtask(&[""; 0]));
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let tasks = list.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    tasks.map(str::to_owned).collect()
}

#[test]
fn each_task_answers_help() {
    let names = names();
    assert!(names.len() > 15 && PASSED.iter().all(|passed| names.iter().any(|name| name == passed)), "{names:?}");
    for name in names.iter().filter(|name| !PASSED.contains(&name.as_str())) {
        for arguments in [&[name, "--help"][..], &[name, "x", "-h"]] {
            let output = ended(&mut xtask(arguments));
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.starts_with(&format!("cargo xtask {name}: ")), "{name}: {text}");
        }
    }
}

#[test]
fn an_argument_that_is_no_text_is_one_line() {
    let odd = OsStr::from_bytes(b"\xff");
    for arguments in [&[odd][..], &[OsStr::new("new"), odd], &[OsStr::new("bench"), odd]] {
        let output = ended(&mut xtask(arguments));
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*line), (Some(2), "xtask: expected text in UTF-8, got `\\xff`\n"));
    }
}

#[test]
fn an_output_that_takes_nothing_is_no_panic() {
    let full = || File::options().write(true).open("/dev/full").expect("Linux has it");
    for arguments in [&[][..], &["help"], &["new", "--help"], &["test", "--list"]] {
        let output = ended(xtask(arguments).stdout(full()));
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{arguments:?}: {line}");
        let output = ended(xtask(arguments).stdout(std::io::pipe().expect("a pipe").1));
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{arguments:?}");
    }
    assert_eq!(ended(xtask(&["nonsense"]).stderr(full())).status.code(), Some(2));
}
