//! What can go wrong before a machine runs, each with what was expected, what came, and what to do.

use crate::version::{MINIMUM, Version};

/// Why a machine was not started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program is not installed.
    #[error(
        "expected `{program}` in PATH, found none; install it with `apt-get install {package}` or `cargo xtask setup`"
    )]
    Absent {
        /// Its name.
        program: &'static str,
        /// The package that has it.
        package: &'static str,
    },
    /// The program is older than [`MINIMUM`].
    #[error("expected `{program}` of version {MINIMUM} or later, found {found}; install a newer `{package}`")]
    TooOld {
        /// Its name.
        program: &'static str,
        /// What it says it is.
        found: Version,
        /// The package that has it.
        package: &'static str,
    },
    /// The program does not say which version it is.
    #[error("expected `{program} --version` to say `QEMU emulator version …`, it said `{said}`")]
    Unversioned {
        /// Its name.
        program: &'static str,
        /// Its first line.
        said: String,
    },
    /// The program does not answer.
    #[error(
        "expected `{program} --version` to answer within {limit:?}, it did not, and was ended; is it the QEMU that you meant?"
    )]
    Silent {
        /// Its name.
        program: &'static str,
        /// How long it had.
        limit: std::time::Duration,
    },
    /// An argument of a machine's row would undo what shared memory relies on.
    #[error("machine {machine}: `{argument}` is not for a row to say: {why}")]
    Forbidden {
        /// The row's name.
        machine: &'static str,
        /// What was found in it.
        argument: String,
        /// What it would undo.
        why: &'static str,
    },
    /// A size that no PCI card's memory can have.
    #[error("expected a power of two of at least 4096 bytes as a card's memory, got {0}")]
    Memory(u64),
    /// The operating system said no.
    #[error("{what}: {source}")]
    Os {
        /// What was tried.
        what: String,
        /// What it said.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn os<E: Into<std::io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |e| Self::Os { what, source: e.into() }
    }
}
