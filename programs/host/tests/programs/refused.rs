//! What a user can get wrong with the programs is one line, and exit code 2, before a device is started.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_wrong_argument_is_one_line() {
    let (himeno, local) = (env!("CARGO_BIN_EXE_himeno"), env!("CARGO_BIN_EXE_himeno_local"));
    let (cg, laplace, stream) = (env!("CARGO_BIN_EXE_cg"), env!("CARGO_BIN_EXE_laplace"), env!("CARGO_BIN_EXE_stream"));
    let folder = std::env::temp_dir().display().to_string();
    let pipe = std::env::temp_dir().join(format!("hamr-programs-pipe-{}", std::process::id())).display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
    let cases: &[(&str, &[&str], &str)] = &[
        (himeno, &[], "usage: himeno "),
        (himeno, &["--nope"], "got --nope"),
        (himeno, &["XXS", "2", "1"], "got XXS"),
        (himeno, &["XS", "2", "x"], "got x"),
        (himeno, &["XS", "0", "1"], "expected 1 to 64 devices, got 0 x 1"),
        (himeno, &["XS", "65", "1"], "got 65 x 1"),
        (himeno, &["XS", "65536", "65536"], "got 65536 x 65536"),
        (himeno, &["XS", "2", "1", "none"], "no device is named `none`"),
        (himeno, &["XS", "2", "1", "qemu:none"], "no device is named `qemu:none`"),
        (himeno, &["XS", "2", "1", "loopback"], "takes no image: expected shm, qemu or thread"),
        (himeno, &["XS", "2", "1", "shm", "more"], "got more"),
        (himeno, &["XS", "2", "1", "--svg"], "--svg needs a file"),
        (himeno, &["XS", "2", "1", "--from", "/none.npy"], "/none.npy: No such file"),
        (himeno, &["XS", "2", "1", "--from", &folder], "expected a file, got a directory"),
        (himeno, &["XS", "2", "1", "--from", "/dev/zero"], "expected a file, got a device"),
        (himeno, &["XS", "2", "1", "--from", &pipe], "expected a file, got a pipe"),
        (himeno, &["XS", "2", "1", "--npy", "a", "--svg", "./a"], "got one for --npy and --svg"),
        (himeno, &["XS", "2", "1", "--npy", "a", "--npy", "b"], "expected --npy once"),
        (himeno, &["XS", "2", "1", "--from", himeno], "is no .npy file of version 1"),
        (himeno, &["XS", "2", "1", "--npy", "/none/field.npy"], "/none/field.npy: no file can be there"),
        (local, &["XS", "2", "1", "--svg", "a"], "expected no option, got --svg"),
        (cg, &["Q", "1", "1"], "got Q"),
        (cg, &["E", "1", "1"], "bytes on each device"),
        (laplace, &["0", "1", "1", "10"], "expected at least 1 element, got 0"),
        (laplace, &["-5", "1", "1", "10"], "got -5"),
        (laplace, &["10000000000000", "1", "1", "10"], "too many"),
        (laplace, &["100000", "1", "1", "10"], "bytes on each device"),
        (stream, &["2", "0"], "got 0"),
        (stream, &["2", "99999999999999"], "bytes on each device"),
        (stream, &["2", "--nope"], "got --nope"),
    ];
    for (program, arguments, words) in cases {
        let output = ended(Command::new(program).args(*arguments));
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{arguments:?}: {line}");
        assert!(line.contains(words) && output.stdout.is_empty(), "{arguments:?}: {line}");
    }
    std::fs::remove_file(pipe).expect("it is there");
}

const PROGRAMS: [&str; 6] = [
    env!("CARGO_BIN_EXE_cg"),
    env!("CARGO_BIN_EXE_cg_local"),
    env!("CARGO_BIN_EXE_himeno"),
    env!("CARGO_BIN_EXE_himeno_local"),
    env!("CARGO_BIN_EXE_laplace"),
    env!("CARGO_BIN_EXE_stream"),
];

/// Runs a command to its end, for a minute at most.
fn ended(command: &mut Command) -> Output {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    ended_with(piped)
}

/// As [`ended`], with the standard streams that the command has.
fn ended_with(command: &mut Command) -> Output {
    let mut child = command.spawn().expect("it starts");
    let begin = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if begin.elapsed() > Duration::from_secs(60) {
            child.kill().expect("it runs");
            panic!("{command:?}: no end within a minute");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("its output")
}

fn one_line(output: &Output) -> (Option<i32>, usize) {
    (output.status.code(), output.stderr.iter().filter(|byte| **byte == b'\n').count())
}

#[test]
fn help_names_the_arguments_of_every_program() {
    for program in PROGRAMS {
        let plain = ended(Command::new(program).arg("--help"));
        let text = String::from_utf8_lossy(&plain.stdout);
        assert!(text.starts_with("usage: ") && text.contains("DEVICES are"), "{program}: {text}");
        assert_eq!((plain.status.code(), plain.stderr.len()), (Some(0), 0), "{program}");
        let none = ended(&mut Command::new(program));
        assert_eq!(one_line(&none), (Some(2), 1), "{program}");
        assert!(
            text.contains(String::from_utf8_lossy(&none.stderr).split("usage: ").nth(1).expect("the usage").trim())
        );
    }
}

#[test]
fn an_argument_that_is_no_text_is_one_line() {
    let odd = OsStr::from_bytes(b"\xff");
    for program in PROGRAMS {
        for arguments in [&[odd][..], &[odd, OsStr::new("1"), OsStr::new("1"), OsStr::new("10")]] {
            let output = ended(Command::new(program).args(arguments));
            assert_eq!(one_line(&output), (Some(2), 1), "{program}");
            assert!(String::from_utf8_lossy(&output.stderr).contains("got `\\xff`"), "{program}");
        }
    }
}

#[test]
fn a_file_may_have_any_name() {
    let file = std::env::temp_dir().join(OsStr::from_bytes(b"hamr-\xff.npy"));
    let himeno = |option: &str| ended(Command::new(PROGRAMS[2]).args(["XS", "1", "1", "thread", option]).arg(&file));
    let (written, read) = (himeno("--npy"), himeno("--from"));
    let is_there = std::fs::remove_file(&file).is_ok();
    let codes = (written.status.code(), read.status.code(), is_there);
    assert_eq!(codes, (Some(0), Some(0), true), "{}", String::from_utf8_lossy(&written.stderr));
}

/// Results that are lost are an error, results that nobody wants are none; neither is a panic (code 101).
#[test]
fn an_output_that_takes_nothing_is_no_panic() {
    let full = || File::options().write(true).open("/dev/full").expect("Linux has it");
    let unread = || std::io::pipe().expect("a pipe").1;
    let stream: [&str; 3] = ["1", "1000", "thread"];
    let runs = PROGRAMS.iter().map(|program| (*program, &["--help"][..])).chain([(PROGRAMS[5], &stream[..])]);
    for (program, arguments) in runs {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stderr(Stdio::piped());
        let output = ended_with(command.stdout(full()));
        assert_eq!(one_line(&output), (Some(2), 1), "{program} {arguments:?}");
        let output = ended_with(command.stdout(unread()));
        assert_eq!(one_line(&output), (Some(0), 0), "{program} {arguments:?}");
    }
    for program in PROGRAMS {
        let mut command = Command::new(program);
        let output = ended_with(command.arg("x").stdin(Stdio::null()).stdout(Stdio::null()).stderr(full()));
        assert_eq!(output.status.code(), Some(2), "{program}");
    }
}
