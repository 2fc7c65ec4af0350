//! A program that runs to its end, with a deadline, and what it says.

use crate::{Error, inherit, spawner};
use rustix::fd::AsFd;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Between two looks at a child.
const PAUSE: Duration = Duration::from_millis(10);
/// How long what an ended child has said may take to be read.
const DRAIN: Duration = Duration::from_secs(5);
/// Bytes of that which are kept.
const LONGEST: u64 = 1 << 20;

/// A child in a process group of its own. It is killed when this process ends, and holds a lock for as long as it runs.
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
        command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive").process_group(0);
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        inherit::tie(&mut command, lock.as_fd().try_clone_to_owned()?);
        let child = spawner::spawn(command)?;
        let (sender, said) = channel();
        std::thread::Builder::new().name("hamr-child".into()).spawn(move || {
            let mut bytes = Vec::new();
            // A read error ends the text early; the status tells whether that matters. The rest is read for the child's sake.
            let _ = reader.by_ref().take(LONGEST).read_to_end(&mut bytes);
            let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
            let _ = io::copy(&mut reader, &mut io::sink());
        })?;
        Ok(Self { name, child, said })
    }

    /// Its end. It is ended at the deadline.
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
            // The leader of its group has not been waited for, so the number is still its own. Errors mean that it has ended.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

impl Ended {
    /// An error unless it succeeded.
    pub(crate) fn succeed(&self) -> Result<(), Error> {
        if self.status.success() {
            return Ok(());
        }
        let Self { name, status, .. } = self;
        let said = self.complaint().or_else(|| self.said.lines().last().map(str::to_owned)).unwrap_or_default();
        Err(Error::Tool { tool: name.clone(), status: *status, said })
    }

    /// The first line in which a program of apt's says what is wrong.
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
        let said = ended.succeed().expect_err("status 3").to_string();
        assert!(["`sh`", "exit status: 3", "`first`"].iter().all(|part| said.contains(part)), "{said}");
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
