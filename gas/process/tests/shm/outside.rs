//! Ranks, each a process, and memory of them that is in no segment.

use hamr_gas_process::{AttachError, Peer};
use std::process::{Command, Stdio};

fn run(ranks: &str, how: &str) -> Option<i32> {
    let program = Command::new(env!("CARGO_BIN_EXE_hamr-outside")).args([ranks, how]).output().expect("it starts");
    print!("{}{}", String::from_utf8_lossy(&program.stdout), String::from_utf8_lossy(&program.stderr));
    program.status.code()
}

#[test]
fn bytes_arrive_outside_of_segments_by_copies() {
    // Does the system let a process look into its child, and into one beside it?
    let mut child = Command::new("sleep").arg("100").stdin(Stdio::null()).spawn().expect("it starts");
    let is_forbidden = match Peer::attach(child.id(), 0) {
        Err(AttachError::Refused(why)) => why.raw_os_error() == Some(1),
        _ => false,
    };
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let wanted = if is_forbidden || !matches!(scope.trim(), "" | "0") { 7 } else { 0 };
    assert_eq!(run("2", "copies"), Some(wanted));
    assert_eq!(run("3", "copies"), Some(wanted));
}

#[test]
fn bytes_arrive_outside_of_segments_in_messages() {
    for ranks in ["1", "2", "3"] {
        assert_eq!(run(ranks, "messages"), Some(7));
    }
}
