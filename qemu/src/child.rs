//! Child processes that run to their end before a deadline, with the text that they print.

use crate::{Error, spawner};
use hamr_linker::child::{ended, poll_end};
use rustix::fd::AsFd;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Time between two polls of a child.
const PAUSE: Duration = Duration::from_millis(10);
/// How long the reading of an ended child's output may take.
const DRAIN: Duration = Duration::from_secs(5);
/// The most bytes of output that are kept.
const LONGEST: u64 = 1 << 20;

/// A child in a process group of its own. The system kills it when this process ends. The child
/// inherits a lock and so keeps it locked until it ends.
pub(crate) struct Child {
    name: String,
    child: std::process::Child,
    /// The exit status was taken.
    has_ended: bool,
    said: Receiver<String>,
}

/// A child that has ended.
pub(crate) struct Ended {
    name: String,
    /// `None`: this program, or the system for it, took it.
    status: Option<ExitStatus>,
    said: String,
}

impl Child {
    /// Its text is complete at the end, or behind a line that is the last one.
    pub(crate) fn start(mut command: Command, lock: Option<&File>, is_last: fn(&str) -> bool) -> io::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let (reader, writer) = io::pipe()?;
        command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let lock = lock.map(|lock| lock.as_fd().try_clone_to_owned()).transpose()?;
        let child = spawner::spawn(command, lock.into_iter().collect())?;
        let (sender, said) = channel();
        let child = Self { name, child, has_ended: false, said };
        std::thread::Builder::new().name("hamr-child".into()).spawn(move || {
            let (mut text, mut from, mut reader) = (Vec::new(), 0, BufReader::new(reader).take(LONGEST));
            // A read error ends the text early; the exit status shows whether that matters.
            while reader.read_until(b'\n', &mut text).is_ok_and(|read| read > 0) {
                if is_last(String::from_utf8_lossy(text.get(from..).unwrap_or_default()).trim_end()) {
                    break;
                }
                from = text.len();
            }
            let _ = sender.send(String::from_utf8_lossy(&text).into_owned());
            // What follows the kept bytes is read too, or the child would block on a full pipe.
            let _ = io::copy(&mut reader.into_inner(), &mut io::sink());
        })?;
        Ok(child)
    }

    /// Waits for its text; then it is killed.
    pub(crate) fn said(self, limit: Duration) -> io::Result<String> {
        self.said.recv_timeout(limit).map_err(|_| io::ErrorKind::TimedOut.into())
    }

    /// Waits for the end. At the deadline, the child is killed.
    pub(crate) fn wait(mut self, deadline: Instant) -> io::Result<Ended> {
        loop {
            if let Poll::Ready(status) = poll_end(&mut self.child)? {
                self.has_ended = true;
                let said = self.said.recv_timeout(DRAIN).unwrap_or_default();
                return Ok(Ended { name: std::mem::take(&mut self.name), status, said });
            }
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        // As long as the leader of the group is not reaped, the group's number is not in use by another one. A program
        // that reaps all its children, or has the system do that (SIGCHLD ignored), may have taken it: an error.
        let leader = Pid::from_child(&self.child);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        if waitid(WaitId::Pid(leader), options).is_ok() {
            let _ = kill_process_group(leader, Signal::KILL);
        }
        // Likewise.
        let _ = ended(&mut self.child);
    }
}

impl Ended {
    /// An error unless the child succeeded. Without an exit status, what it printed counts; what it was to make is
    /// checked besides.
    pub(crate) fn succeed(&self) -> Result<(), Error> {
        let is_error = |line: &str| line.starts_with("E: ") || line.contains(": error: ");
        if self.status.map_or(!self.said.lines().any(is_error), |status| status.success()) {
            return Ok(());
        }
        let Self { name, status, .. } = self;
        let said = self.complaint().or_else(|| self.said.lines().last().map(str::to_owned)).unwrap_or_default();
        Err(Error::Tool { tool: name.clone(), status: *status, said })
    }

    /// The first warning or error of an apt program.
    pub(crate) fn complaint(&self) -> Option<String> {
        let mut lines = self.said.lines();
        lines.find_map(|line| line.strip_prefix("E: ").or(line.strip_prefix("W: "))).map(|line| line.trim().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> io::Result<Ended> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Child::start(command, Some(&tempfile::tempfile()?), |_| false)?.wait(Instant::now() + limit)
    }

    #[test]
    fn the_first_complaint_is_kept() {
        let ended = shell("echo fine; echo 'W: first' >&2; echo 'E: second' >&2; exit 3", Duration::from_secs(60))
            .expect("it ends");
        assert_eq!(ended.complaint().as_deref(), Some("first"));
        let message = ended.succeed().expect_err("status 3").to_string();
        assert!(["`sh`", "exit status: 3", "`first`"].iter().all(|part| message.contains(part)), "{message}");
        assert!(shell("exit 0", Duration::from_secs(60)).expect("it ends").succeed().is_ok());
    }

    #[test]
    fn a_late_child_is_ended_with_its_group() {
        let begin = Instant::now();
        let error = shell("sleep 60 & sleep 60", Duration::from_millis(200)).err().expect("it is late");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begin.elapsed() < Duration::from_secs(30));
    }
}
