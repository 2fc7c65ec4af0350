//! Red team, round 2, part B: `hamr` as users run it. Each test fails on eabe526c.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const MARK: &str = "HAMR_REDTEAM";

/// The demo image, built once; or what is named.
fn image() -> &'static Path {
    static IMAGE: OnceLock<PathBuf> = OnceLock::new();
    IMAGE.get_or_init(|| {
        if let Some(image) = std::env::var_os("HAMR_IMAGE") {
            return image.into();
        }
        let output = Command::new(env!("CARGO_BIN_EXE_hamr")).arg("image").output().expect("the binary runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        PathBuf::from(String::from_utf8_lossy(&output.stdout).trim_end())
    })
}

fn hamr(arguments: &[&str], mark: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hamr"));
    command.args(arguments).env("HAMR_IMAGE", image()).env(MARK, mark).stdin(Stdio::null());
    command
}

/// In at most this time; then it is killed.
fn within(limit: Duration, mut command: Command) -> Option<Output> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let begin = Instant::now();
    while begin.elapsed() < limit {
        if child.try_wait().expect("a child").is_some() {
            return Some(child.wait_with_output().expect("its output"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    None
}

fn is_refused(command: Command) {
    let shown = format!("{command:?}");
    let output = within(Duration::from_secs(5), command).unwrap_or_else(|| panic!("no end within 5 s: {shown}"));
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{shown}: {line}");
}

#[test]
fn c1_a_processor_that_no_machine_has_is_one_line() {
    for cpu in ["1024", "18446744073709551615"] {
        is_refused(hamr(&["call", "ping", "5", "--option", &format!("cpu={cpu}")], "c1"));
    }
    let mut command = hamr(&["call", "ping", "5"], "c1");
    command.env("HAMR_CPU", "1024");
    is_refused(command);
}

#[test]
fn c2_a_pipe_or_a_device_is_no_file_to_read() {
    let pipe = std::env::temp_dir().join(format!("hamr-redteam-{}", std::process::id()));
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
    let pipe = pipe.to_str().expect("text");
    let at = format!("@{pipe}");
    let demo = image().to_str().expect("text");
    for arguments in [
        &["load", pipe][..],
        &["run", pipe],
        &["call", "ping", "5", "--image", pipe],
        &["call", "fill<u8>", "1", &at],
        &["load", demo, "--next", pipe],
        &["load", demo, "--module", pipe],
    ] {
        let shown = std::panic::catch_unwind(|| is_refused(hamr(arguments, "c2")));
        if shown.is_err() {
            std::fs::remove_file(pipe).expect("it is there");
            panic!("{arguments:?}");
        }
    }
    std::fs::remove_file(pipe).expect("it is there");
}

#[test]
fn c4_a_device_in_the_environment_that_is_no_text_is_refused() {
    let mut command = hamr(&["call", "ping", "5"], "c4");
    command.env("HAMR_DEVICE", OsStr::from_bytes(b"loopback\xff"));
    is_refused(command);
}
