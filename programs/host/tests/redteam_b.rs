//! Red team, round 2, part B: the programs as users run them. Each test fails on eabe526c.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

#[test]
fn g1_an_argument_that_is_no_text_is_one_line() {
    let words = OsStr::from_bytes(b"\xff");
    for arguments in [&[words, OsStr::new("1"), OsStr::new("1"), OsStr::new("10")][..], &[words]] {
        let output = Command::new(env!("CARGO_BIN_EXE_laplace")).args(arguments).output().expect("it runs");
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{line}");
    }
}

#[test]
fn g1_a_file_may_have_any_name() {
    let file = std::env::temp_dir().join(OsStr::from_bytes(b"hamr-\xff.npy"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_himeno"));
    let output = command.args(["XS", "1", "1", "thread", "--npy"]).arg(&file).output().expect("it runs");
    let (code, line) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
    let is_there = std::fs::remove_file(&file).is_ok();
    assert_eq!((code, is_there), (Some(0), true), "{line}");
}

#[test]
fn g2_an_output_that_takes_nothing_is_no_panic() {
    for (arguments, expected) in [(&["1", "1000", "thread"][..], 2), (&["x"], 2)] {
        let full = || File::options().write(true).open("/dev/full").expect("Linux has it");
        let mut command = Command::new(env!("CARGO_BIN_EXE_stream"));
        command.args(arguments).stdout(full());
        if arguments.len() == 1 {
            command.stdout(Stdio::null()).stderr(full());
        }
        assert_eq!(command.status().expect("it runs").code(), Some(expected), "{arguments:?}");
    }
}

#[test]
fn g3_a_file_is_written_once() {
    let file = std::env::temp_dir().join(format!("hamr-redteam-{}.npy", std::process::id()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_himeno"));
    command.args(["XS", "1", "1", "thread", "--npy"]).arg(&file).arg("--svg").arg(&file);
    let output = command.output().expect("it runs");
    let _ = std::fs::remove_file(&file);
    assert_eq!(output.status.code(), Some(2), "one file for two pictures of the field");
}
