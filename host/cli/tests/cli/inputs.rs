//! Everything that a user names, whatever it is, and every output, whatever it takes: each command, path and variable in a table.

use crate::common::{Vectors, image, spawn};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// In which a command that is refused ends, on a busy machine; one that waits for a writer does not.
const LIMIT: Duration = Duration::from_secs(20);

fn hamr(arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hamr"));
    command.args(arguments).env("HAMR_IMAGE", image()).stdin(Stdio::null()).stderr(Stdio::piped());
    command.stdout(Stdio::piped());
    command
}

fn ended(command: &mut Command) -> Output {
    let mut child = command.spawn().expect("the binary starts");
    let begin = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if begin.elapsed() > LIMIT {
            child.kill().expect("it runs");
            panic!("{command:?}: no end within {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("its output")
}

/// One line with these words, and exit code 2.
fn is_refused(command: &mut Command, words: &str) {
    let output = ended(command);
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{command:?}: {line}");
    assert!(line.starts_with("hamr: ") && line.contains(words), "{command:?}: {words} in {line}");
}

fn succeeds(command: &mut Command) -> Output {
    let output = ended(command);
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A word of a command line: text, `PATH`, or text in front of it.
fn line(words: &[&str], path: &Path) -> Vec<OsString> {
    let word = |word: &&str| {
        let Some(before) = word.strip_suffix("PATH") else { return word.into() };
        let mut word = OsString::from(before);
        word.push(path);
        word
    };
    words.iter().map(word).collect()
}

/// Every argument that is a path to read.
const READERS: &[&[&str]] = &[
    &["load", "PATH"],
    &["load", "--module", "PATH"],
    &["load", "hamr-demo", "--next", "PATH"],
    &["run", "PATH"],
    &["run", "--rank", "shm", "--rank", "shm=PATH", "hamr-demo"],
    &["call", "ping", "5", "--image", "PATH"],
    &["call", "ping", "5", "--module", "PATH"],
    &["call", "fill<u8>", "1", "@PATH"],
    &["debug", "ping", "5", "--image", "PATH"],
    &["debug", "fill<u8>", "1", "@PATH"],
    &["devices", "--image", "PATH"],
    &["handlers", "--image", "PATH"],
    &["serve", "inputs", "--image", "PATH"],
    &["logs", "--image", "PATH"],
    &["logs", "PATH"],
    &["inspect", "PATH"],
    &["logs", "--device", "shm:PATH"],
    &["dot", "PATH", "PATH"],
];

#[test]
fn what_is_no_file_is_refused_at_once_by_what_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pipe, socket) = (folder.path().join("pipe"), folder.path().join("socket"));
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
    let _listener = UnixListener::bind(&socket).expect("a socket");
    for (path, what) in [
        (&*pipe, "a pipe"),
        (&socket, "a socket"),
        (folder.path(), "a directory"),
        (Path::new("/dev/zero"), "a device"),
        (&folder.path().join("none"), "No such file"),
    ] {
        for reader in READERS {
            is_refused(&mut hamr(&line(reader, path)), what);
        }
        is_refused(hamr(&["call", "ping", "5"]).env("HAMR_IMAGE", path), what);
    }
    // Not only behind a `/`.
    is_refused(hamr(&["load", "pipe"]).current_dir(folder.path()), "a pipe");
    is_refused(&mut hamr(&line(&["call", "axpy", "1", "[1]", "[1]", "--save", "y=PATH"], &pipe)), "that nothing reads");
}

#[test]
fn a_file_may_have_any_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let odd = folder.path().join(OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&odd).expect("a folder");
    let (copy, elements, saved) = (odd.join("image"), odd.join("x"), odd.join("y"));
    std::fs::copy(image(), &copy).expect("room for an image");
    std::fs::write(&elements, [0; 16]).expect("room for two numbers");
    let vectors = Vectors::new(2);
    let vector = odd.join("v.npy");
    std::fs::copy(vectors.path("a64"), &vector).expect("room for a vector");
    for (words, path) in [
        (&["load", "PATH"][..], &copy),
        (&["load", "PATH", "--next", "PATH"], &copy),
        (&["call", "axpy", "2", "[1]", "[1]", "--image", "PATH"], &copy),
        (&["handlers", "--image=PATH"], &copy),
        (&["logs", "--image", "PATH"], &copy),
        (&["call", "axpy", "2", "@PATH", "[1, 2]"], &elements),
        (&["call", "axpy", "2", "[1, 2]", "[1, 2]", "--save", "y=PATH"], &saved),
        (&["dot", "PATH", "PATH"], &vector),
    ] {
        succeeds(&mut hamr(&line(words, path)));
    }
    assert_eq!(std::fs::read(&saved).expect("it was written").len(), 16);
    succeeds(hamr(&["call", "ping", "5"]).env("HAMR_IMAGE", &copy));
    // Also where another process tells its path.
    let name = format!("inputs-odd-{}", std::process::id());
    let mut kept = hamr(&line(&["serve", &name, "--json", "--image", "PATH"], &copy)).spawn().expect("it starts");
    let mut serving = String::new();
    BufReader::new(kept.stdout.take().expect("piped")).read_line(&mut serving).expect("a line");
    let shown = ended(&mut hamr(&["devices", "--device", &format!("at:{name}"), "--json"]));
    succeeds(&mut hamr(&["serve", &name, "--stop"]));
    kept.wait().expect("it ends");
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.contains("caf\u{fffd}/image"), "{shown}");
    // It is found: the image has no `main`.
    for words in [&["run", "PATH"][..], &["run", "--rank=shm=PATH", "--rank=shm", "PATH"]] {
        is_refused(&mut hamr(&line(words, &copy)), "expected a handler");
    }
}

#[test]
fn an_argument_that_is_no_text_is_named() {
    for words in [
        &["PATH"][..],
        &["load", "PATH"],
        &["load", "hamr-demo", "--device", "PATH"],
        &["run", "PATH"],
        &["run", "--rank", "PATH", "hamr-demo"],
        &["run", "hamr-demo", "PATH"],
        &["call", "PATH"],
        &["call", "ping", "PATH"],
        &["call", "axpy", "1", "[1]", "[1]", "--save", "PATH"],
        &["call", "ping", "5", "--option", "PATH"],
        &["serve", "PATH"],
        &["image", "PATH"],
        &["image", "--image", "PATH"],
        &["devices", "PATH"],
        &["help", "options", "PATH"],
    ] {
        is_refused(&mut hamr(&line(words, Path::new(OsStr::from_bytes(b"odd\xff")))), "odd");
    }
}

#[test]
fn a_variable_that_is_no_text_is_refused() {
    let help = succeeds(&mut hamr(&["help", "options"]));
    let help = String::from_utf8_lossy(&help.stdout);
    let rows = help.split_whitespace().filter(|word| word.starts_with("HAMR_"));
    let variables: Vec<&str> = rows.chain(["HAMR_DEVICE", "HAMR_DEBUG"]).collect();
    assert!(variables.len() > 20, "{variables:?}");
    for variable in variables {
        is_refused(hamr(&["call", "ping", "5"]).env(variable, OsStr::from_bytes(b"1\xff")), variable);
    }
}

#[test]
fn a_processor_that_no_machine_has_is_refused() {
    for cpu in ["1024", "18446744073709551615"] {
        let expected = "expected a processor from 0 to 1023";
        is_refused(&mut hamr(&["call", "ping", "5", "--option", &format!("cpu={cpu}")]), expected);
        is_refused(hamr(&["call", "ping", "5"]).env("HAMR_CPU", cpu), expected);
        is_refused(&mut hamr(&["run", "--cpu", cpu, "hamr-demo"]), "--cpu: expected processors");
    }
}

#[test]
fn a_number_that_is_none_says_what_was_expected() {
    for words in [
        &["run", "-n", "five", "hamr-demo"][..],
        &["call", "ping", "5", "--spin", "-1"],
        &["top", "--lines", "x"],
        &["inspect", "--lines", "1.5"],
    ] {
        is_refused(&mut hamr(words), "expected a whole number");
    }
}

/// Not behind a build of half a minute.
#[test]
fn what_starts_a_device_is_looked_for_before_an_image() {
    // A copy, because QEMU may be unpacked in the target folder that has this program.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let copy = elsewhere.path().join("hamr");
    std::fs::copy(env!("CARGO_BIN_EXE_hamr"), &copy).expect("room for a program");
    for arguments in [
        &["call", "ping", "5", "--device", "qemu:riscv64"][..],
        &["load", "no-such-image", "--device", "qemu:riscv64"],
        &["run", "--rank", "qemu:riscv64", "no-such-image"],
        &["handlers", "--device", "qemu:riscv64"],
    ] {
        let mut command = Command::new(&copy);
        command.args(arguments).current_dir(elsewhere.path()).env_remove("HAMR_IMAGE").env("PATH", elsewhere.path());
        command.env("XDG_CACHE_HOME", elsewhere.path()).stdin(Stdio::null());
        is_refused(command.stdout(Stdio::piped()).stderr(Stdio::piped()), "`qemu-system-riscv64` in PATH");
    }
}

/// What is lost is a failure, what nobody wants is none; neither is a panic (code 101).
#[test]
fn an_output_that_takes_nothing_is_no_panic() {
    let vectors = Vectors::new(2);
    let (a, b) = (vectors.path("a64"), vectors.path("b64"));
    let demo = image().display().to_string();
    let full = || File::options().write(true).open("/dev/full").expect("Linux has it");
    let unread = || std::io::pipe().expect("a pipe").1;
    for arguments in [
        &[][..],
        &["--help"],
        &["--version"],
        &["help", "options"],
        &["devices"],
        &["devices", "shm"],
        &["load", &demo],
        &["call"],
        &["call", "ping", "5"],
        &["debug", "ping", "5"],
        &["handlers"],
        &["handlers", "--host", "--json"],
        &["logs"],
        &["logs", "--follow"],
        &["inspect", "--json"],
        &["top", "--once"],
        &["serve", "inputs-full"],
        &["dot", &a, &b],
    ] {
        let output = ended(hamr(arguments).stdout(full()));
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{arguments:?}: {line}");
        let output = ended(hamr(arguments).stdout(unread()));
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*line), (Some(0), ""), "{arguments:?}");
    }
    // Of standard error the exit code is left.
    for arguments in [&["nonsense"][..], &["call", "nonsense"], &["load", "none/none"]] {
        assert_eq!(ended(hamr(arguments).stderr(full())).status.code(), Some(2), "{arguments:?}");
    }
}

/// A limit of files' sizes (`ulimit -f`) ends no program that opens a device: the system would by a signal.
#[test]
fn a_limit_below_a_window_is_an_error_of_its_opening() {
    for (limit, arguments) in [("0", "call ping 5"), ("1024", "devices"), ("1024", "run -n 2 \"$HAMR_IMAGE\"")] {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -f {limit}; exec \"$0\" {arguments}"), env!("CARGO_BIN_EXE_hamr")]);
        shell.env("HAMR_IMAGE", image()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = ended(&mut shell);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("sizing a window"), "{:?}: {said}", output.status);
    }
}

/// Of a file that may be cut off a copy is read, which is a file, too.
#[test]
fn a_limit_below_a_file_is_an_error_of_its_reading() {
    let folder = tempfile::tempdir().expect("a folder");
    let window = folder.path().join("window");
    File::create(&window).and_then(|file| file.set_len(1 << 20)).expect("written");
    for command in ["inspect", "logs"] {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -f 64; exec \"$0\" {command} \"$1\""), env!("CARGO_BIN_EXE_hamr")]);
        shell.arg(&window).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        is_refused(&mut shell, "File too large");
    }
}

/// A limit of processes (`ulimit -u`, `pids.max` of a container) refuses one process or thread of a command after the other:
/// each is its error, or it goes without.
#[test]
fn a_limit_refuses_each_process_and_thread_in_turn() {
    const USER: u32 = 61_235;
    // Such limits are of users, and not of root; this one has what it runs in a folder of its own.
    let user = [format!("--reuid={USER}"), format!("--regid={USER}"), "--clear-groups".into()];
    let is_there = Command::new("setpriv").args(&user).arg("true").stderr(Stdio::null()).status();
    if !is_there.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("HAMR_CI").is_none(), "expected to be root, and setpriv");
        return eprintln!("skipped: a user with a limit (needs root)");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let copied = |from: &Path, name: &str| {
        let to = folder.path().join(name);
        std::fs::copy(from, &to).expect("there is room");
        std::fs::set_permissions(&to, Permissions::from_mode(0o755)).expect("it is this user's");
        to
    };
    let (program, image) = (copied(Path::new(env!("CARGO_BIN_EXE_hamr")), "hamr"), copied(image(), "image"));
    let ranks = copied(Path::new(crate::run::checks()), "ranks");
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("it is this user's");
    for command in ["devices shm shm", "call ping 5", "run -n 2 \"$RANKS\""] {
        let mut code = None;
        for limit in (1..=12).chain([100]) {
            let mut shell = Command::new("setpriv");
            shell.args(&user).args(["bash", "-c", &format!("ulimit -u {limit}; exec \"$0\" {command}")]).arg(&program);
            shell.env("HAMR_IMAGE", &image).env("RANKS", &ranks);
            shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let output = ended(&mut shell);
            let said = String::from_utf8_lossy(&output.stderr);
            // Which is no error.
            let said: String = said.split_inclusive('\n').filter(|line| !line.contains(": oversubscribed: ")).collect();
            code = output.status.code();
            let is_line = code == Some(2) && said.lines().count() == 1 && said.starts_with("hamr: ");
            assert!(code == Some(0) || is_line, "{command}, {limit} processes: {}: {said}", output.status);
            assert!(!said.contains("panicked") && (limit > 1 || is_line), "{command}, {limit} processes: {said}");
        }
        assert_eq!(code, Some(0), "{command}: 100 are enough");
    }
    let is_theirs = |entry: std::fs::DirEntry| entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == USER);
    let left = || std::fs::read_dir("/proc").expect("it is mounted").flatten().any(is_theirs);
    let begin = Instant::now();
    while left() {
        assert!(begin.elapsed() < LIMIT, "a process is left");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// No further line may come: the command does not wait for one.
#[test]
fn logs_end_with_their_reader() {
    let mut logs = spawn(&["logs", "--follow"]);
    logs.hear(1);
    let end = logs.close_stdout().wait();
    assert!(end.code == Some(0) && end.took < LIMIT, "{end:?}");
    end.left_nothing();
}
