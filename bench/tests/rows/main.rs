//! `hamr-bench` as contributors run it.

mod alone;
#[expect(dead_code, reason = "shared with the tests of `hamr`, which use all of it")]
#[path = "../../../host/cli/tests/common/mod.rs"]
mod common;

use common::hamr;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

/// What is tested.
const PROGRAM: &str = env!("CARGO_BIN_EXE_hamr-bench");

fn refused(arguments: &[&str], words: &[&str]) {
    hamr(arguments).was_refused("hamr-bench", words);
}

#[test]
fn bad_usage_is_one_clear_line() {
    refused(&["rows", "--onyl", "start"], &["'--onyl' found; a similar", "--help"]);
    refused(&["rows", "--only", "nonsense"], &["nonsense", "call_empty"]);
    refused(&["rows", "--launches", "0"], &["--launches", "0"]);
}

#[test]
fn an_argument_that_is_no_text_is_named() {
    let output = Command::new(PROGRAM).args(["rows", "--only"]).arg(OsStr::from_bytes(b"odd\xff")).output();
    let output = output.expect("the binary runs");
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{line}");
    assert!(line.starts_with("hamr-bench: ") && line.contains("odd"), "{line}");
}

#[test]
fn what_is_no_image_is_refused_at_once_by_what_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
    let _listener = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).expect("a socket");
    for (path, what) in [
        (&*pipe, "a pipe"),
        (&folder.path().join("socket"), "a socket"),
        (folder.path(), "a directory"),
        (Path::new("/dev/zero"), "a device"),
        (&folder.path().join("none"), "No such file"),
    ] {
        refused(&["rows", "--only", "call_empty", "--image", &path.display().to_string()], &[what]);
    }
}

#[test]
fn an_image_without_the_handlers_is_refused_before_a_launch() {
    let demo = hamr(&["image", "hamr-demo"]).stdout.trim().to_owned();
    let words = [&*demo, "expected an image with the handlers", "bench_handlers!"];
    refused(&["rows", "--only", "call_empty", "--image", &demo], &words);
}
