//! Debian packages that are unpacked into a folder, and not installed.
//!
//! To install QEMU, apt needs root, and an installed package may conflict. Unpacking needs neither.
//! apt gets a state of its own: lists of packages, an empty list of what is installed, and a cache.
//! It reads the system's configuration, sources and keys and changes nothing there. It finds a set
//! of packages that fit together, downloads and verifies them. What an interrupted run downloaded
//! is kept for the next one. The folder appears by one rename, so it is whole or absent.

use crate::Error;
use crate::child::{self, Child};
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The time for everything: 110 MB from a slow mirror, or another process that does the same.
const LIMIT: Duration = Duration::from_secs(1800);
/// Time between two attempts to lock.
const PAUSE: Duration = Duration::from_millis(100);

/// apt reads this after the system's configuration: the hooks there belong to the system's state.
const CONFIGURATION: &str =
    "#clear APT::Update;\n#clear DPkg::Post-Invoke;\n#clear Acquire::IndexTargets::deb::DEP-11;\n";

/// A set of packages, and the folder for their files.
#[derive(Clone, Debug)]
pub struct Packages {
    /// The folder with their files. Beside it are a lock and unfinished downloads.
    pub folder: PathBuf,
    /// What the packages are, for messages.
    pub what: &'static str,
    /// The arguments for apt: names, or patterns that end in `$`. Dependencies come with them.
    pub names: &'static [&'static str],
    /// Whether a package is unpacked, by its name.
    pub wanted: fn(&str) -> bool,
}

impl Packages {
    /// Makes sure that the folder exists and passes `check`. An earlier run may have made it, or
    /// another process for which this one waits; otherwise the packages are downloaded and
    /// unpacked, and `say` is called with a line about it.
    ///
    /// # Errors
    /// When this system has no apt or no network, when it takes longer than half an hour, or when
    /// `check` refuses what was unpacked.
    pub fn provide(&self, check: impl Fn(&Path) -> Result<(), Error>, say: impl FnOnce(&str)) -> Result<(), Error> {
        if check(&self.folder).is_ok() {
            return Ok(());
        }
        let deadline = Instant::now() + LIMIT;
        let lock = self.lock(deadline)?;
        if check(&self.folder).is_ok() {
            return Ok(());
        }
        say(&format!("downloading {} to {}", self.what, self.folder.display()));
        let work = self.beside("work");
        let unpacked = work.join("files");
        Apt { work: &work, packages: self, lock: &lock, deadline }.download()?;
        // An interrupted run may have left files.
        remove(&unpacked)?;
        make(&unpacked)?;
        for (name, file) in archives(&work)? {
            if (self.wanted)(&name) {
                let mut unpack = Command::new("dpkg-deb");
                unpack.arg("--extract").args([&file, &unpacked]);
                run(unpack, &lock, deadline)?.succeed()?;
            }
        }
        check(&unpacked)?;
        remove(&self.folder)?;
        std::fs::rename(&unpacked, &self.folder).map_err(about(&self.folder))?;
        remove(&work)
    }

    /// The lock belongs to at most one process and the programs that it started.
    fn lock(&self, deadline: Instant) -> Result<File, Error> {
        let path = self.beside("lock");
        make(path.parent().unwrap_or(Path::new(".")))?;
        let file = File::create(&path).map_err(about(&path))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(PAUSE),
                Err(e) => return Err(about(&path)(e.into())),
            }
        }
    }

    fn beside(&self, extension: &str) -> PathBuf {
        self.folder.with_added_extension(extension)
    }
}

/// apt with a state of its own.
struct Apt<'a> {
    work: &'a Path,
    packages: &'a Packages,
    lock: &'a File,
    deadline: Instant,
}

impl Apt<'_> {
    /// Downloads the packages; [`archives`] lists them.
    fn download(&self) -> Result<(), Error> {
        for folder in ["lists/partial", "cache/archives/partial"] {
            make(&self.work.join(folder))?;
        }
        for (name, text) in [("apt.conf", CONFIGURATION), ("status", "")] {
            let path = self.work.join(name);
            std::fs::write(&path, text).map_err(about(&path))?;
        }
        // Another source in the system's list may be out of reach, so a failed update is no error
        // yet. The install step shows what is missing; the update's message says why.
        let updated = self.get(&["update"])?;
        let Packages { what, names, .. } = self.packages;
        let packages = [&["install", "--download-only", "--no-install-recommends"], *names].concat();
        let installed = self.get(&packages)?;
        if let Err(error) = installed.succeed() {
            let why = updated.complaint().or(installed.complaint());
            return Err(why.map_or(error, |said| Error::Download { what, said }));
        }
        // Removes what an interrupted run downloaded of versions that have been replaced since.
        self.get(&["autoclean"])?.succeed()
    }

    fn get(&self, arguments: &[&str]) -> Result<child::Ended, Error> {
        let mut command = Command::new("apt-get");
        command.arg("--config-file").arg(self.work.join("apt.conf"));
        for (name, path) in [
            ("Dir::State", "."),
            ("Dir::State::lists", "lists/"),
            ("Dir::State::status", "status"),
            ("Dir::Cache", "cache"),
        ] {
            let mut option = OsString::from(format!("{name}="));
            option.push(self.work.join(path));
            command.arg("-o").arg(option);
        }
        // As root, apt downloads as another user, which may have no access to this folder.
        for option in
            ["APT::Sandbox::User=", "Acquire::Languages=none", "Acquire::Retries=3", "Acquire::http::Timeout=20"]
        {
            command.args(["-o", option]);
        }
        command.args(["-o", "Acquire::https::Timeout=20", "--quiet", "--assume-yes"]).args(arguments);
        run(command, self.lock, self.deadline)
    }
}

/// Runs a program of Debian's packaging tools.
fn run(command: Command, lock: &File, deadline: Instant) -> Result<child::Ended, Error> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let child = Child::start(command, Some(lock), |_| false).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::NoApt { tool: tool.clone() },
        _ => Error::os(format!("running `{tool}`"))(e),
    })?;
    child.wait(deadline).map_err(Error::os(format!("waiting for `{tool}`, with a limit for everything of {LIMIT:?}")))
}

/// The packages that apt downloaded: names and files.
fn archives(work: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let folder = work.join("cache/archives");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(about(&folder))? {
        let path = entry.map_err(about(&folder))?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some(name) = package(&file) {
            found.push((name.to_owned(), path));
        }
    }
    // The same order in each run, should two packages have one file.
    found.sort();
    Ok(found)
}

/// The package's name, from a file of apt's cache: `NAME_VERSION_ARCHITECTURE.deb`.
fn package(file: &str) -> Option<&str> {
    file.strip_suffix(".deb")?.split_once('_').map(|(name, _)| name)
}

fn make(folder: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(|source| Error::Folder { folder: folder.into(), source })
}

fn remove(folder: &Path) -> Result<(), Error> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(about(folder)(e)),
        _ => Ok(()),
    }
}

fn about(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    Error::os(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_distinguished_from_other_files() {
        assert_eq!(package("libc6_2.36-9+deb12u13_amd64.deb"), Some("libc6"));
        assert_eq!(package("qemu-system-x86_1%3a7.2+dfsg-7_amd64.deb"), Some("qemu-system-x86"));
        assert_eq!(
            (package("lock"), package("partial"), package("a.deb"), package("a_1_all.deb.tmp")),
            (None, None, None, None)
        );
    }

    /// Also while another process has the lock: a complete folder needs none.
    #[test]
    fn complete_packages_are_not_downloaded_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let packages = Packages { folder: dir.path().join("files"), what: "nothing", names: &[], wanted: |_| false };
        let lock = packages.lock(Instant::now()).expect("the lock is free");
        packages.provide(|_| Ok(()), |line| panic!("{line}")).expect("it is there");
        // A second open file description, as another process has one.
        assert!(packages.lock(Instant::now()).is_err());
        drop(lock);
        packages.lock(Instant::now()).expect("free again");
    }

    /// The process that had the lock before unpacked the packages while this one waited.
    #[test]
    fn packages_of_another_process_are_used() {
        let dir = tempfile::tempdir().expect("a folder");
        let packages = Packages { folder: dir.path().join("files"), what: "nothing", names: &[], wanted: |_| false };
        let looks = std::cell::Cell::new(0);
        let check = |_: &Path| {
            looks.set(looks.get() + 1);
            if looks.get() == 1 { Err(Error::Incomplete { what: "anything" }) } else { Ok(()) }
        };
        packages.provide(check, |line| panic!("{line}")).expect("it is there");
        assert_eq!(looks.get(), 2);
    }
}
