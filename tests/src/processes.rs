//! Reads the state of other processes, for tests of what is left behind.

use crate::conformance::Gate;
use hamr::Node;
use hamr_tests_kernels::wait_at;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Every process of this machine, as its folder in /proc.
pub fn processes() -> impl Iterator<Item = PathBuf> {
    let all = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    all.filter(|e| e.file_name().to_str().is_some_and(|n| n.parse::<u32>().is_ok())).map(|e| e.path())
}

/// Every descriptor of `process` that is a window, as its path under /proc.
pub fn windows_of(process: &Path) -> Vec<PathBuf> {
    let fds = std::fs::read_dir(process.join("fd")).into_iter().flatten().filter_map(Result::ok);
    let is_window =
        |fd: &PathBuf| std::fs::read_link(fd).is_ok_and(|to| to.to_string_lossy().starts_with("/memfd:hamr:"));
    fds.map(|e| e.path()).filter(is_window).collect()
}

/// Has the process ended? A zombie counts as ended.
pub fn has_ended(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Err(_) => true,
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X'])),
    }
}

/// The processes that `parent` started and that have not ended.
pub fn children(parent: u32) -> Vec<u32> {
    let id = |process: &PathBuf| process.file_name()?.to_str()?.parse().ok();
    let is_child = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        fields.nth(1) == Some(&parent.to_string())
    };
    processes().filter_map(|p| id(&p)).filter(|p| is_child(p) && !has_ended(*p)).collect()
}

/// Bytes of this program in memory.
///
/// # Panics
/// Where the system does not say so.
pub fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

/// The command that runs this test program again, for one ignored test: by its path, or beside the calling one.
///
/// # Panics
/// When it is not called by a test's own thread, whose name has the module.
pub fn again(test: &str) -> Command {
    let me = std::thread::current();
    let module = me.name().expect("a test's thread").rsplit_once("::").map_or("", |(module, _)| module);
    let test = if module.is_empty() || test.contains("::") { test.to_owned() } else { format!("{module}::{test}") };
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", &test, "--ignored", "--nocapture"]);
    command
}

/// Starts this test program again, for one ignored test that acts as a host when the variable has
/// this value, and prints `device PID` on a line of its own when a call is in flight. Returns both
/// processes.
///
/// # Panics
/// When it prints no such line.
pub fn host_in_a_call(test: &str, variable: &str, value: &str) -> (Child, u32) {
    let mut host = again(test)
        .env(variable, value)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts this test again");
    let lines = std::io::BufReader::new(host.stdout.take().expect("piped")).lines();
    let device = lines.map_while(Result::ok).find_map(|l| l.strip_prefix("device ").and_then(|pid| pid.parse().ok()));
    (host, device.expect("the helper prints its device's process"))
}

/// What the helper test of [`host_in_a_call`] does: a call that does not end, and the line with the device's process.
///
/// # Panics
/// The device does not take the call.
pub fn waits_in_a_call(node: &Node, device: u32) {
    let gate = Gate::new(node);
    let _call = node.offload(wait_at::with(gate.ptr(), 1)).expect("sent");
    gate.wait_for(1);
    println!("\ndevice {device}");
    // Until it is killed; if that does not happen, the test runner must not wait for ever.
    std::thread::sleep(Duration::from_secs(60));
}

/// What a program wrote to standard error, without the line that this machine has fewer processors than ranks.
pub fn said(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    text.split_inclusive('\n').filter(|line| !line.starts_with("hamr: oversubscribed: ")).collect()
}
