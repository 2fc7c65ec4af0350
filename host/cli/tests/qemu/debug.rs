//! `hamr debug`: gdb runs the command that it prints, stops in the handler, and lets it go on. Over
//! shared memory and on each machine. Needs gdb-multiarch and gdbserver, which `cargo xtask setup`
//! brings.

use super::common::{hamr, spawn, until};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    let in_ci = std::env::var_os("HAMR_CI").is_some_and(|value| value == "1");
    assert!(found || !in_ci, "{program} is missing: `cargo xtask setup` installs it");
    found
}

fn stops_in_the_handler(device: &str) {
    if !is_installed("gdb-multiarch") || device == "shm" && !is_installed("gdbserver") {
        eprintln!("skipped: gdb (install with: apt-get install gdb-multiarch gdbserver)");
        return;
    }
    let call = ["debug", "axpy", "2", "[1, 2]", "[10, 20]", "--device", device, "--image", "hamr-demo"];
    let mut run = spawn(&call);
    let attach = run.hear(1);
    let attach = attach.trim_end();
    assert!(attach.starts_with("gdb-multiarch '/") && attach.contains("'target remote 127.0.0.1:"), "{attach}");
    stop_once(attach);
    let run = run.wait();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.ends_with("\n()\ny = [12.0, 24.0]\n"), "{run:?}");
    run.left_nothing();
}

/// Attaches gdb, which stops in the handler and then lets everything run.
fn stop_once(attach: &str) {
    let gdb = Command::new("timeout")
        .args(["60", "sh", "-c", &format!("{attach} -batch -ex 'bt 1' -ex delete -ex detach")])
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    let said = [gdb.stdout, gdb.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("#0  hamr_kernels::demo::axpy"), "{said}");
    assert!(said.contains("kernels/src/demo.rs:"), "{said}");
}

/// A program that knows nothing of debuggers: here another `hamr`, whose deadline is short.
fn stops_in_a_programs_call(device: &str) {
    if !is_installed("gdb-multiarch") || device == "shm" && !is_installed("gdbserver") {
        eprintln!("skipped: gdb (install with: apt-get install gdb-multiarch gdbserver)");
        return;
    }
    // Its standard error, with the command, comes where this test reads lines.
    let call = "exec \"$0\" call axpy 2 '[1, 2]' '[10, 20]' --image hamr-demo --option deadline=1ms 2>&1";
    let program = ["sh", "-c", call, env!("CARGO_BIN_EXE_hamr")];
    let mut run = spawn(&[&["debug", "demo::axpy", "--device", device, "--"][..], &program].concat());
    let mut heard = run.hear(1);
    if heard.contains("building image") {
        heard = run.hear(2);
    }
    let command = format!("hamr: device {device} waits for gdb: ");
    let attach = heard.lines().last().and_then(|line| line.strip_prefix(&command));
    stop_once(attach.unwrap_or_else(|| panic!("expected a command, got {heard}")));
    let run = run.wait();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.ends_with("\n()\ny = [12.0, 24.0]\n"), "{run:?}");
    run.left_nothing();
}

#[test]
fn a_program_on_shm() {
    stops_in_a_programs_call("shm");
}

#[test]
fn a_program_on_aarch64() {
    stops_in_a_programs_call("qemu:aarch64");
}

#[test]
fn shm() {
    stops_in_the_handler("shm");
}

#[test]
fn x86_64() {
    stops_in_the_handler("qemu:x86_64");
}

#[test]
fn aarch64() {
    stops_in_the_handler("qemu:aarch64");
}

#[test]
fn riscv64() {
    stops_in_the_handler("qemu:riscv64");
}

#[test]
fn what_cannot_be_debugged_is_one_clear_line() {
    for (arguments, words) in [
        (&["debug", "isa", "--device", "loopback"][..], "shm or qemu:NAME"),
        (&["debug"], "a handler and its values"),
        (&["debug", "nothing"], "`nothing`"),
        (&["debug", "isa", "1"], "0 values, got 1"),
        (&["debug", "isa", "1", "--", "true"], "got values"),
        (&["debug", "--", "/nothing"], "/nothing"),
    ] {
        let run = hamr(arguments);
        assert!(run.code == Some(2) && run.stdout.is_empty() && run.stderr.lines().count() == 1, "{run:?}");
        assert!(run.stderr.starts_with("hamr: ") && run.stderr.contains(words), "{run:?}");
        run.left_nothing();
    }
}

/// Processes with this variable in their environment, with their names.
fn marked(mark: &str) -> Vec<(u32, String)> {
    let wanted = format!("{MARK}={mark}");
    let has = |path: &Path| {
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let all = std::fs::read_dir("/proc").expect("a /proc").flatten().map(|entry| entry.path());
    let name = |path: PathBuf| {
        let pid = path.file_name()?.to_str()?.parse().ok()?;
        Some((pid, std::fs::read_to_string(path.join("comm")).unwrap_or_default()))
    };
    all.filter(|path| has(path)).filter_map(name).collect()
}

/// Of a process; empty when it has ended.
fn status(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default()
}

const MARK: &str = "HAMR_TEST_DEBUGGED";

/// It waits in front of its first instruction, and nothing of it has been set up yet.
#[test]
fn a_debugged_device_ends_with_its_host() {
    if !is_installed("gdbserver") {
        eprintln!("skipped: gdbserver (install with: apt-get install gdbserver)");
        return;
    }
    for signal in ["KILL", "TERM", "INT"] {
        let mark = format!("{}-{signal}", std::process::id());
        let mut host = Command::new(env!("CARGO_BIN_EXE_hamr"));
        host.args(["debug", "axpy", "2", "[1, 2]", "[10, 20]", "--image", "hamr-demo"]).env(MARK, &mark);
        let mut host = host.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
        let mut line = String::new();
        BufReader::new(host.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        assert!(line.contains("gdb"), "{line}");
        // Before, it is a fork of gdbserver that has no tracer yet (docs/devices.md).
        let waits = |(pid, name): &(u32, String)| name.trim_end() == "hamr-demo" && status(*pid).contains("State:\tt");
        until("the device waits", || marked(&mark).iter().any(waits).then_some(()));
        crate::common::signal(host.id(), signal);
        host.wait().expect("it ends");
        let begin = Instant::now();
        // One that takes the place of its program has no environment for a moment.
        let mut looks_without = 0;
        while looks_without < 10 && begin.elapsed() < Duration::from_secs(3) {
            std::thread::sleep(Duration::from_millis(10));
            looks_without = if marked(&mark).is_empty() { looks_without + 1 } else { 0 };
        }
        let left = marked(&mark);
        let states: Vec<String> = left.iter().map(|(pid, _)| status(*pid)).collect();
        left.iter().for_each(|(pid, _)| crate::common::signal(*pid, "KILL"));
        assert!(left.is_empty(), "3 s after SIG{signal}: {left:?}\n{}", states.join("\n"));
    }
}
