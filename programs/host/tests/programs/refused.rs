//! What a user can get wrong with the programs is one line, and exit code 2, before a device is started.

use std::process::Command;

#[test]
fn a_wrong_argument_is_one_line() {
    let (himeno, local) = (env!("CARGO_BIN_EXE_himeno"), env!("CARGO_BIN_EXE_himeno_local"));
    let (cg, laplace, stream) = (env!("CARGO_BIN_EXE_cg"), env!("CARGO_BIN_EXE_laplace"), env!("CARGO_BIN_EXE_stream"));
    let folder = std::env::temp_dir().display().to_string();
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
        (himeno, &["XS", "2", "1", "--from", &folder], "Is a directory"),
        (himeno, &["XS", "2", "1", "--from", himeno], "is no .npy file of version 1"),
        (himeno, &["XS", "2", "1", "--npy", "/none/field.npy"], "/none/field.npy: no file can be there"),
        (local, &["XS", "2", "1", "--svg", "a"], "--svg is an option of himeno"),
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
        let output = Command::new(program).args(*arguments).output().expect("it runs");
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{arguments:?}: {line}");
        assert!(line.contains(words) && output.stdout.is_empty(), "{arguments:?}: {line}");
    }
}
