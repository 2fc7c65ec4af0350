//! Versions of QEMU. A QEMU older than [`MINIMUM`] lacks options that the command line of a machine
//! uses.

use std::fmt;

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

/// The version in the first line that QEMU prints for `--version`.
pub(crate) fn parse(line: &str) -> Option<Version> {
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
