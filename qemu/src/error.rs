//! What can go wrong before a machine runs. Each message has what was expected, what was found, and
//! what to do.

use crate::version::{MINIMUM, Version};

/// Why a machine was not started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such program.
    #[error(
        "expected `{program}` in PATH{}", if places.is_empty() {
            format!(", found none, nor a folder to unpack it in; set HOME or XDG_CACHE_HOME, then {command} unpacks it")
        } else {
            format!(" or unpacked as {places}, found none; {command} unpacks it")
        }
    )]
    Absent {
        /// The program's name.
        program: &'static str,
        /// Where it was searched beside `PATH`; empty where no folder is known.
        places: String,
        /// The command that brings it.
        command: SetupCommand,
    },
    /// The program is older than [`MINIMUM`].
    #[error("expected `{program}` of version {MINIMUM} or later, found {found}; {command} unpacks a newer one")]
    TooOld {
        /// The program's name or file.
        program: String,
        /// The version that it prints.
        found: Version,
        /// The command that brings a newer one.
        command: SetupCommand,
    },
    /// The program prints no version.
    #[error("expected `{program} --version` to print `QEMU emulator version …`, got `{said}`")]
    Unversioned {
        /// The program's name or file.
        program: String,
        /// The first line that it printed, or wrote to standard error.
        said: String,
    },
    /// The program does not print its version in time.
    #[error(
        "expected `{program} --version` to print a version within {limit:?}, got none and ended it; check that this is the QEMU that you meant"
    )]
    Timeout {
        /// The program's name or file.
        program: String,
        /// The time limit.
        limit: std::time::Duration,
    },
    /// This system does not use Debian's packages.
    #[error(
        "expected `{tool}` in PATH, as Debian and Ubuntu have it, found none; install QEMU {MINIMUM} or later with this system's \
         package manager, so that its programs `qemu-system-…` are in PATH"
    )]
    NoApt {
        /// The program that is missing.
        tool: String,
    },
    /// The folder to unpack to cannot be made.
    #[error("{}: cannot make this folder to unpack QEMU in: {source}; set XDG_CACHE_HOME or HOME to one that can be written", folder.display())]
    Folder {
        /// The folder.
        folder: std::path::PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// There is no folder to unpack to.
    #[error("expected XDG_CACHE_HOME or HOME to name an absolute folder to unpack QEMU in, found neither; set one")]
    NoFolder,
    /// apt cannot download the packages.
    #[error("expected to download {what} with apt-get, got `{said}`; try again with network")]
    Download {
        /// The packages.
        what: &'static str,
        /// What apt reports.
        said: String,
    },
    /// The packages lack a file that they should contain.
    #[error("expected {what} in Debian's packages, found none")]
    Incomplete {
        /// What is missing.
        what: &'static str,
    },
    /// A program that unpacks packages failed.
    #[error("expected `{tool}` to succeed, it {} and printed `{said}`", how(*status))]
    Tool {
        /// The program's name.
        tool: String,
        /// How it ended; `None` where this program, or the system for it, took the exit status.
        status: Option<std::process::ExitStatus>,
        /// The last line that it printed.
        said: String,
    },
    /// An argument in a machine's row would break what shared memory needs.
    #[error("machine {machine}: `{argument}` must not be in a row: {why}")]
    Forbidden {
        /// The row's name.
        machine: &'static str,
        /// The argument.
        argument: String,
        /// What it would break.
        why: &'static str,
    },
    /// A size that no PCI card's memory can have.
    #[error("expected a power of two of at least 4096 bytes as a card's memory, got {0}")]
    Memory(u64),
    /// The operating system refused.
    #[error("{what}: {source}")]
    Os {
        /// The operation.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn os<E: Into<std::io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |e| Self::Os { what, source: e.into() }
    }
}

/// The command that brings QEMU ([`crate::setup`]), as a person types it. It names the running
/// `hamr` by its file, which may not be in `PATH`; another program's user runs that of the checkout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetupCommand;

impl std::fmt::Display for SetupCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let program = std::env::current_exe().unwrap_or_default();
        match program.file_name().and_then(|name| name.to_str()) {
            Some("hamr") => write!(f, "`{} setup`", program.display()),
            Some("xtask") => f.write_str("`cargo xtask setup`"),
            _ => match crate::folders::checkout() {
                Some(checkout) => write!(f, "`cargo run -- setup` in {}", checkout.display()),
                None => f.write_str("`hamr setup`"),
            },
        }
    }
}

fn how(status: Option<std::process::ExitStatus>) -> String {
    status.map_or_else(|| "failed".into(), |status| format!("ended with {status}"))
}
