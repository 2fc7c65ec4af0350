//! What can go wrong before a machine runs, each with what was expected, what came, and what to do.

use crate::version::{MINIMUM, Version};

/// Why a machine was not started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such program.
    #[error("expected `{program}` in PATH or unpacked as {places}, found none; {command} unpacks it")]
    Absent {
        /// Its name.
        program: &'static str,
        /// Where it is looked for beside `PATH`.
        places: String,
        /// What brings it.
        command: SetupCommand,
    },
    /// The program is older than [`MINIMUM`].
    #[error("expected `{program}` of version {MINIMUM} or later, found {found}; {command} unpacks a newer one")]
    TooOld {
        /// Its name or file.
        program: String,
        /// What it says it is.
        found: Version,
        /// What brings a newer one.
        command: SetupCommand,
    },
    /// The program does not say which version it is.
    #[error("expected `{program} --version` to say `QEMU emulator version …`, it said `{said}`")]
    Unversioned {
        /// Its name or file.
        program: String,
        /// Its first line.
        said: String,
    },
    /// The program does not answer.
    #[error(
        "expected `{program} --version` to answer within {limit:?}, it did not, and was ended; is it the QEMU that you meant?"
    )]
    Timeout {
        /// Its name or file.
        program: String,
        /// How long it had.
        limit: std::time::Duration,
    },
    /// This system's packages are not Debian's.
    #[error(
        "expected `{tool}` in PATH, as Debian and Ubuntu have it, found none; install QEMU {MINIMUM} or later with this system's \
         package manager, so that its programs `qemu-system-…` are in PATH"
    )]
    NoApt {
        /// The program that is missing.
        tool: String,
    },
    /// There is nowhere to unpack to.
    #[error("expected XDG_CACHE_HOME or HOME to name an absolute folder to unpack QEMU in, found neither; set one")]
    NoFolder,
    /// apt cannot have the packages.
    #[error("expected to download {what} with apt-get, which said `{said}`; try again with network")]
    Download {
        /// The packages.
        what: &'static str,
        /// What is wrong.
        said: String,
    },
    /// Packages do not hold what they should.
    #[error("expected {what} in Debian's packages, found none")]
    Incomplete {
        /// What is missing.
        what: &'static str,
    },
    /// A program that is needed for packages failed.
    #[error("expected `{tool}` to succeed, it ended with {status} and said `{said}`")]
    Tool {
        /// Its name.
        tool: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it said last.
        said: String,
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

/// The command that brings QEMU ([`crate::setup`]), as a person types it. The `hamr` that runs may not be in `PATH`, so it is
/// named by its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetupCommand;

impl std::fmt::Display for SetupCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let program = std::env::current_exe().unwrap_or_default();
        match program.file_name().and_then(|name| name.to_str()) {
            Some("hamr") => write!(f, "`{} setup`", program.display()),
            Some("xtask") => f.write_str("`cargo xtask setup`"),
            _ => f.write_str("`hamr setup`"),
        }
    }
}
