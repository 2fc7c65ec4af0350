//! Which QEMU this is. Older ones lack what the command line says, and would answer with a usage error of their own.

use crate::{Error, Program};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fmt;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

/// The oldest QEMU that is accepted.
pub const MINIMUM: Version = Version { major: 7, minor: 0 };

/// How long a program may take to say its version, on a loaded machine.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of what it says that are looked at.
const LONGEST: u64 = 1024;

/// A version of QEMU, without its patch level.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// What a program says it is; `None` when there is none that may be run.
pub(crate) fn version(program: &Program) -> Result<Option<Version>, Error> {
    let name = || program.path.display().to_string();
    let said = match first_line(program) {
        Ok(said) => said,
        // No permission is also the reply when one of PATH's folders may not be looked into, and no other has the program.
        Err(e) if [ErrorKind::NotFound, ErrorKind::PermissionDenied].contains(&e.kind()) => return Ok(None),
        Err(e) if e.kind() == ErrorKind::TimedOut => {
            return Err(Error::Timeout { program: name(), limit: PROBE_TIMEOUT });
        }
        Err(e) => return Err(Error::os(format!("running `{} --version`", name()))(e)),
    };
    match parse(&said) {
        None => Err(Error::Unversioned { program: name(), said }),
        found => Ok(found),
    }
}

/// What a program says to `--version`, within [`PROBE_TIMEOUT`]. It is ended then, with what it may have started.
fn first_line(program: &Program) -> std::io::Result<String> {
    let mut command = program.command();
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn()?;
    let (sender, receiver) = mpsc::channel();
    let pipe = child.stdout.take();
    let reader = std::thread::Builder::new().name("hamr-version".into()).spawn(move || {
        let mut line = Vec::new();
        // What cannot be read says no version.
        let _ = pipe.map(|pipe| BufReader::new(pipe.take(LONGEST)).read_until(b'\n', &mut line));
        let _ = sender.send(String::from_utf8_lossy(&line).trim_end().to_owned());
    });
    let said = match reader {
        Ok(_) => receiver.recv_timeout(PROBE_TIMEOUT).map_err(|_| std::io::ErrorKind::TimedOut.into()),
        Err(e) => Err(e),
    };
    // The leader of its group has not been waited for, so the number is still its own.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    child.wait()?;
    said
}

fn parse(line: &str) -> Option<Version> {
    let numbers = line.strip_prefix("QEMU emulator version ")?;
    let mut numbers = numbers.split(|c: char| !c.is_ascii_digit());
    Some(Version { major: numbers.next()?.parse().ok()?, minor: numbers.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_ordered() {
        let debian = parse("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)");
        assert_eq!(debian, Some(Version { major: 7, minor: 2 }));
        assert_eq!(parse("QEMU emulator version 10.0"), Some(Version { major: 10, minor: 0 }));
        assert!(parse("QEMU emulator version 10.0") > Some(MINIMUM));
        assert!(parse("QEMU emulator version 6.9.9") < Some(MINIMUM));
        for other in ["", "QEMU emulator version ", "QEMU emulator version x.y", "bash 5.2", "QEMU emulator version 7"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
