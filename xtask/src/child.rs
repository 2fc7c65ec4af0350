//! Children with a time limit. Each gets a process group, so that everything it started can be
//! ended with it, and a guard process that ends the group if this process is killed or interrupted
//! first.

use crate::Error;
use crate::process::{self, Process, Signal};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long a child may take to follow a polite signal. Test runners need it to end their tests,
/// which have process groups of their own.
const GRACE: Duration = Duration::from_secs(10);
/// How long an ended child's output may stay open. Only a process that the child left behind keeps
/// it open longer.
const DRAIN: Duration = Duration::from_secs(10);

/// The cargo that runs this task.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(crate::root());
    command
}

/// Whether a program of this name is in `PATH` or in cargo's folder.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let cargo_home = std::env::var_os("CARGO_HOME").map(Into::into).or(home);
    let cargo_bin = cargo_home.map(|folder| folder.join("bin"));
    std::env::split_paths(&path).chain(cargo_bin).any(|folder| folder.join(program).is_file())
}

/// Runs a child with this process's output; an error names the child and how it ended.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Result<(), Error> {
    let status = status(command, limit)?;
    judge(command, status)
}

/// [`run`] of a program of this workspace, which ends with 2 where it has said in a line why it does not do what it was asked;
/// cargo, which may build it first, does not.
pub(crate) fn run_ours(command: &mut Command, limit: Duration) -> Result<(), Error> {
    let status = status(command, limit)?;
    if status.code() == Some(2) { Err(Error::Said) } else { judge(command, status) }
}

/// Runs a child; how it ended. An error: it did not start, or not end in time.
pub(crate) fn status(command: &mut Command, limit: Duration) -> Result<ExitStatus, Error> {
    let child = spawn(command)?;
    wait(child, command, limit)
}

/// Like [`run`], and returns what the child wrote to its standard output.
pub(crate) fn capture(command: &mut Command, limit: Duration) -> Result<String, Error> {
    let mut child = spawn(command.stdout(Stdio::piped()))?;
    let (sender, receiver) = mpsc::channel();
    if let Some(mut pipe) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // A read error ends the text early; the exit status shows whether that matters.
            let _ = pipe.read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
        });
    }
    let status = wait(child, command, limit)?;
    judge(command, status)?;
    receiver.recv_timeout(DRAIN).map_err(|_| Error::Failed(format!("{}: output stayed open", name(command))))
}

/// Like [`run`]. Also passes the child's standard error on, and returns its lines that `keep`
/// accepts.
pub(crate) fn run_keeping(
    command: &mut Command,
    limit: Duration,
    keep: fn(&str) -> bool,
) -> (Result<(), Error>, Vec<String>) {
    let mut child = match spawn(command.stderr(Stdio::piped())) {
        Ok(child) => child,
        Err(error) => return (Err(error), Vec::new()),
    };
    let (sender, receiver) = mpsc::channel();
    if let Some(pipe) = child.stderr.take() {
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                eprintln!("{line}");
                if keep(&line) {
                    kept.push(line);
                }
            }
            let _ = sender.send(kept);
        });
    }
    let result = wait(child, command, limit).and_then(|status| judge(command, status));
    (result, receiver.recv_timeout(DRAIN).unwrap_or_default())
}

fn spawn(command: &mut Command) -> Result<Child, Error> {
    command.stdin(Stdio::null()).process_group(0).env(process::MARK, process::mark());
    command.spawn().map_err(|error| Error::Failed(format!("{}: cannot be started: {error}", name(command))))
}

fn wait(mut child: Child, command: &Command, limit: Duration) -> Result<ExitStatus, Error> {
    let guard = Guard::new(child.id());
    let ended = wait_until(&mut child, Instant::now() + limit);
    if let Ok(None) = ended {
        end(&mut child);
    }
    if let Some(guard) = guard {
        guard.release();
    }
    match ended {
        Ok(Some(status)) => Ok(status),
        Ok(None) => Err(Error::Failed(format!("{}: not done after {} s, ended", name(command), limit.as_secs()))),
        Err(error) => Err(Error::Failed(format!("{}: cannot be waited for: {error}", name(command)))),
    }
}

fn wait_until(child: &mut Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Ends the child and all its descendants: first by a signal that they may handle, then by one that
/// they cannot. The list of them is made before, because a process that loses its parent can no
/// longer be found from here.
fn end(child: &mut Child) {
    let mut found: Vec<Process> = Process::find(child.id()).into_iter().collect();
    found.extend(process::below(&[child.id()]));
    process::signal_group(Signal::TERM, child.id());
    let _ = wait_until(child, Instant::now() + GRACE);
    // A running process may start more, which could not be found once it is gone. A stopped process
    // starts none.
    process::signal_group(Signal::STOP, child.id());
    let mut stopped = 0;
    while stopped < found.len() {
        for process in found[stopped..].iter().filter(|process| process.runs()) {
            process::signal(Signal::STOP, process.id);
        }
        stopped = found.len();
        let parents: Vec<u32> = found.iter().filter(|process| process.runs()).map(|process| process.id).collect();
        let mut below = process::below(&parents);
        below.retain(|new| !found.iter().any(|old| old.is(*new)));
        found.append(&mut below);
    }
    // The youngest first: the system continues a stopped group when its last parent outside ends.
    for process in found.into_iter().rev().filter(|process| process.runs()) {
        process::signal(Signal::KILL, process.id);
    }
    process::signal_group(Signal::KILL, child.id());
    let _ = child.wait();
}

fn judge(command: &Command, status: ExitStatus) -> Result<(), Error> {
    if status.success() { Ok(()) } else { Err(Error::Failed(format!("{}: {status}", name(command)))) }
}

/// A child that runs beside this program until it is dropped.
pub(crate) struct Background {
    child: Child,
    guard: Option<Guard>,
    name: String,
}

impl Background {
    /// Starts it with this run's mark, in a group of its own.
    pub(crate) fn start(command: &mut Command) -> Result<Self, Error> {
        let child = spawn(command)?;
        let guard = Guard::new(child.id());
        Ok(Self { child, guard, name: name(command) })
    }

    /// Its standard output, if that is piped; once.
    pub(crate) fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its exit status, if it ends before the deadline.
    pub(crate) fn wait(&mut self, deadline: Instant) -> Result<ExitStatus, Error> {
        match wait_until(&mut self.child, deadline) {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err(Error::Failed(format!("{}: still runs", self.name))),
            Err(error) => Err(Error::Failed(format!("{}: cannot be waited for: {error}", self.name))),
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(guard) = self.guard.take() {
            guard.release();
        }
    }
}

/// The command as a person would type it.
fn name(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Ends the child's group if this process ends without a message that the child is done. An
/// interrupt from the terminal reaches only this process's group, not the child's, and a signal
/// handler would need `unsafe`. A shell that reads from a pipe notices any end of this process.
struct Guard {
    shell: Child,
    pipe: ChildStdin,
}

impl Guard {
    fn new(group: u32) -> Option<Self> {
        let script = "read -r done || { kill -s TERM -- \"-$1\"; sleep 5; kill -s KILL -- \"-$1\"; }";
        let mut shell = Command::new("sh")
            .args(["-c", script, "sh", &group.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .ok()?;
        let pipe = shell.stdin.take()?;
        Some(Self { shell, pipe })
    }

    fn release(mut self) {
        let _ = self.pipe.write_all(b"done\n");
        drop(self.pipe);
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_is_captured_and_failure_named() {
        assert_eq!(capture(&mut shell("echo four"), Duration::from_secs(10)).expect("echo"), "four\n");
        let error = run(&mut shell("exit 3"), Duration::from_secs(10)).expect_err("it exits with 3");
        assert!(error.to_string().contains("exit status: 3"), "{error}");
        let ours = |code: i32| run_ours(&mut shell(&format!("exit {code}")), Duration::from_secs(10));
        assert!(matches!([ours(0), ours(1), ours(2)], [Ok(()), Err(Error::Failed(_)), Err(Error::Said)]));
    }

    #[test]
    fn a_late_child_is_ended_with_all_it_started() {
        // The grandchild ignores the polite signal and has left the group: only the list of ids
        // finds it. What it starts is younger than any one list.
        let script = "setsid sh -c 'trap \"\" TERM; while :; do sleep 61.5 & sleep 0.02; done' & sleep 60";
        let started = Instant::now();
        let error = run(&mut shell(script), Duration::from_millis(500)).expect_err("it sleeps too long");
        assert!(error.to_string().contains("not done after"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(30));
        // Concurrent tests of this process have children of their own, so the test finds its own by
        // their command line.
        let left = || -> Vec<String> {
            let left = process::all().into_iter().filter(|process| process.is_marked()).map(Process::command_line);
            left.filter(|line| line.contains("trap") || line.contains("61.5")).collect()
        };
        // They have received the signal, and end when the scheduler runs them.
        let deadline = Instant::now() + Duration::from_secs(10);
        while !left().is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(left(), Vec::<String>::new());
    }

    #[test]
    fn the_kept_lines_of_stderr_are_returned() {
        let mut command = shell("echo 'Summary 1' >&2; echo other >&2; echo 'Summary 2' >&2");
        let (result, kept) = run_keeping(&mut command, Duration::from_secs(10), |line| line.contains("Summary"));
        assert!(result.is_ok());
        assert_eq!(kept, ["Summary 1", "Summary 2"]);
    }
}
