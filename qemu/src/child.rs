//! Child processes that run to their end before a deadline, with the text that they print.

use crate::{Error, spawner};
use rustix::fd::AsFd;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
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
    said: Receiver<String>,
}

/// A child that has ended.
pub(crate) struct Ended {
    name: String,
    status: ExitStatus,
    said: String,
}

impl Child {
    pub(crate) fn start(mut command: Command, lock: impl AsFd) -> io::Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let (mut reader, writer) = io::pipe()?;
        command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let child = spawner::spawn(command, vec![lock.as_fd().try_clone_to_owned()?])?;
        let (sender, said) = channel();
        std::thread::Builder::new().name("hamr-child".into()).spawn(move || {
            let mut bytes = Vec::new();
            // A read error ends the text early; the exit status shows whether that matters. What
            // follows the kept bytes is read too, or the child would block on a full pipe.
            let _ = reader.by_ref().take(LONGEST).read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
            let _ = io::copy(&mut reader, &mut io::sink());
        })?;
        Ok(Self { name, child, said })
    }

    /// Waits for the end. At the deadline, the child is killed.
    pub(crate) fn wait(mut self, deadline: Instant) -> io::Result<Ended> {
        loop {
            if let Some(status) = self.child.try_wait()? {
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
        if let Ok(None) = self.child.try_wait() {
            // The leader of the group is not reaped yet, so the group's number is not in use by
            // another one. An error means that the group has ended.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

impl Ended {
    /// An error unless the child succeeded.
    pub(crate) fn succeed(&self) -> Result<(), Error> {
        if self.status.success() {
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
        Child::start(command, tempfile::tempfile()?)?.wait(Instant::now() + limit)
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
