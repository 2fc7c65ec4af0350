//! `#[hamr::main]` and options from outside, as a user's program has them.

use hamr::Image;
use hamr_tests::devices;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::LazyLock;

/// Built once: a program that builds one says so.
static IMAGE: LazyLock<PathBuf> = LazyLock::new(|| {
    let target = devices::runtime().target("shm").expect("a kind").expect("it takes images");
    Image::find(devices::IMAGE).expect("a name").resolve(&target).expect("an image").path
});

/// One run of the program, with these variables.
fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hamr-starts"));
    command.env("HAMR_IMAGE", &*IMAGE).args(arguments).envs(variables.iter().copied());
    let millis = devices::START_TIMEOUT.as_millis();
    if !variables.iter().any(|(name, _)| *name == "HAMR_START_DEADLINE") {
        command.env("HAMR_START_DEADLINE", format!("{millis}ms"));
    }
    command.output().expect("it runs")
}

#[track_caller]
fn says(output: &Output, expected: &str) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!((output.status.code(), text.trim_end()), (Some(0), expected), "{output:?}");
}

/// It failed with one line that has these words, and started nothing.
#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{output:?}");
    assert!(line.starts_with("hamr-starts: ") && words.iter().all(|word| line.contains(word)), "{words:?} in {line}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn main_gets_the_device_that_its_user_names() {
    let heap = ("HAMR_HEAP", "1M");
    says(&run(&[], &[heap]), "shm of 1048576 bytes: 7 []");
    says(&run(&["--device", "loopback", "a", "-b"], &[heap]), "loopback of 1048576 bytes: 7 [\"a\", \"-b\"]");
    says(&run(&[], &[heap, ("HAMR_DEVICE", "loopback")]), "loopback of 1048576 bytes: 7 []");
    // The command line goes before the environment; an empty variable is none.
    let variables = [heap, ("HAMR_DEVICE", "loopback"), ("HAMR_DEADLINE", "")];
    says(&run(&["--device=shm", "--option=heap=2M", "c"], &variables), "shm of 2097152 bytes: 7 [\"c\"]");
    // The name of the attribute, where no file is named.
    says(&run(&[], &[heap, ("HAMR_IMAGE", "")]), "shm of 1048576 bytes: 7 []");
    let output = run(&["fail"], &[]);
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(1), &b"Error: \"as asked\"\n"[..]));
}

#[test]
fn a_start_from_bad_values_is_one_line() {
    refused(&run(&[], &[("HAMR_HEAP", "plenty")]), &["HAMR_HEAP", "bytes, or with K, M or G", "plenty"]);
    refused(&run(&[], &[("HAMR_STREAMS", "0")]), &["Options::streams", "1 to 79", "0"]);
    refused(&run(&[], &[("HAMR_DEVICE", "toaster")]), &["toaster", "loopback", "shm"]);
    refused(&run(&[], &[("HAMR_IMAGE", "/nonexistent/image")]), &["/nonexistent/image"]);
    refused(&run(&["--option", "haep=1"], &[]), &["--option", "NAME=VALUE", "heap", "haep"]);
    refused(&run(&["--device"], &[]), &["--device", "a value"]);
    refused(&run(&["--image", "/nonexistent/image"], &[]), &["/nonexistent/image"]);
    refused(&run(&[], &[("HAMR_START_DEADLINE", "1")]), &["HAMR_START_DEADLINE", "300us"]);
}
