//! Which QEMU this is. Older ones lack what the command line says, and would answer with a usage error of their own.

use crate::{Error, Machine};
use std::fmt;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The oldest QEMU that is accepted.
pub const MINIMUM: Version = Version { major: 7, minor: 0 };

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

/// Programs that were asked and are new enough: asking costs some 20 ms, a third of a device's start.
static ACCEPTED: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// Refuses an absent or too old program.
pub(crate) fn check(machine: &Machine) -> Result<(), Error> {
    let Machine { program, package, .. } = *machine;
    if ACCEPTED.lock().unwrap_or_else(PoisonError::into_inner).contains(&program) {
        return Ok(());
    }
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = output.map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::Absent { program, package },
        _ => Error::os(format!("running `{program} --version`"))(e),
    })?;
    let said = String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned();
    match parse(&said) {
        None => Err(Error::Unversioned { program, said }),
        Some(found) if found < MINIMUM => Err(Error::TooOld { program, found, package }),
        Some(_) => {
            ACCEPTED.lock().unwrap_or_else(PoisonError::into_inner).push(program);
            Ok(())
        }
    }
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
