//! Debian packages that are unpacked into a folder, and not installed.
//!
//! apt installs QEMU only where nothing that is installed is in its way, and only for root. Unpacking needs neither. apt gets a
//! state of its own: lists of packages, an empty list of what is installed, and a cache. Of the system it reads the
//! configuration, sources and keys, and changes nothing. It finds a set of packages that fit together, downloads and verifies them.
//! What an interrupted run downloaded is kept for the next one. The folder appears by one rename, so it is whole or absent.

use crate::Error;
use crate::child::{self, Child};
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// For all of it: 110 MB from a slow mirror, or another process that does the same.
const LIMIT: Duration = Duration::from_secs(1800);
/// Between two looks at the lock.
const PAUSE: Duration = Duration::from_millis(100);

/// Read after the system's own configuration: hooks of the system's state have nothing to do with this one.
const CONFIGURATION: &str =
    "#clear APT::Update;\n#clear DPkg::Post-Invoke;\n#clear Acquire::IndexTargets::deb::DEP-11;\n";

/// Packages, and where their files are.
#[derive(Clone, Debug)]
pub struct Packages {
    /// The folder with their files; beside it are a lock, and what was downloaded until now.
    pub folder: PathBuf,
    /// What they are, in messages.
    pub what: &'static str,
    /// What apt is asked for: names, or patterns that end in `$`. What these depend on comes with them.
    pub names: &'static [&'static str],
    /// Whether a package is unpacked, by its name.
    pub wanted: fn(&str) -> bool,
}

impl Packages {
    /// Makes sure that the folder is there and `check` finds nothing wrong with it: it is that of an earlier run, or that of
    /// another process which this one waits for, or it is downloaded and unpacked, which `say` is told.
    ///
    /// # Errors
    /// When this system has no apt or no network, when it takes longer than half an hour, or when `check` refuses what was
    /// unpacked.
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
        // Of an interrupted run.
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

    /// Held by at most one process, and by what it started.
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
    /// Leaves the packages in [`archives`].
    fn download(&self) -> Result<(), Error> {
        for folder in ["lists/partial", "cache/archives/partial"] {
            make(&self.work.join(folder))?;
        }
        for (name, text) in [("apt.conf", CONFIGURATION), ("status", "")] {
            let path = self.work.join(name);
            std::fs::write(&path, text).map_err(about(&path))?;
        }
        // A source of somebody else's may be out of reach. What is missing shows when packages are asked for; why, is said here.
        let updated = self.get(&["update"])?;
        let Packages { what, names, .. } = self.packages;
        let packages = [&["install", "--download-only", "--no-install-recommends"], *names].concat();
        let installed = self.get(&packages)?;
        if let Err(error) = installed.succeed() {
            let why = updated.complaint().or(installed.complaint());
            return Err(why.map_or(error, |said| Error::Download { what, said }));
        }
        // What an interrupted run downloaded of versions that have been replaced since.
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
        // As root, downloads run as another user, who may not be allowed to reach this folder.
        for option in
            ["APT::Sandbox::User=", "Acquire::Languages=none", "Acquire::Retries=3", "Acquire::http::Timeout=20"]
        {
            command.args(["-o", option]);
        }
        command.args(["-o", "Acquire::https::Timeout=20", "--quiet", "--assume-yes"]).args(arguments);
        run(command, self.lock, self.deadline)
    }
}

/// Runs a program of Debian's.
fn run(command: Command, lock: &File, deadline: Instant) -> Result<child::Ended, Error> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let child = Child::start(command, lock).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::NoApt { tool: tool.clone() },
        _ => Error::os(format!("running `{tool}`"))(e),
    })?;
    child.wait(deadline).map_err(Error::os(format!("waiting for `{tool}`, which all in all had {LIMIT:?}")))
}

/// What apt downloaded: packages' names and files.
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
    // Always the same order, should two packages have one file.
    found.sort();
    Ok(found)
}

/// The package that a file of apt's cache is: `NAME_VERSION_ARCHITECTURE.deb`.
fn package(file: &str) -> Option<&str> {
    file.strip_suffix(".deb")?.split_once('_').map(|(name, _)| name)
}

fn make(folder: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(about(folder))
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
    fn packages_are_told_from_other_files() {
        assert_eq!(package("libc6_2.36-9+deb12u13_amd64.deb"), Some("libc6"));
        assert_eq!(package("qemu-system-x86_1%3a7.2+dfsg-7_amd64.deb"), Some("qemu-system-x86"));
        assert_eq!(
            (package("lock"), package("partial"), package("a.deb"), package("a_1_all.deb.tmp")),
            (None, None, None, None)
        );
    }

    /// Also while another process works: what is whole needs no lock.
    #[test]
    fn what_is_there_is_not_downloaded_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let packages = Packages { folder: dir.path().join("files"), what: "nothing", names: &[], wanted: |_| false };
        let held = packages.lock(Instant::now()).expect("nobody has it");
        packages.provide(|_| Ok(()), |said| panic!("{said}")).expect("it is there");
        // Another description of the same file, as another process has.
        assert!(packages.lock(Instant::now()).is_err());
        drop(held);
        packages.lock(Instant::now()).expect("free again");
    }

    /// The process before this one unpacked it while this one waited for the lock.
    #[test]
    fn what_another_process_unpacked_is_used() {
        let dir = tempfile::tempdir().expect("a folder");
        let packages = Packages { folder: dir.path().join("files"), what: "nothing", names: &[], wanted: |_| false };
        let looks = std::cell::Cell::new(0);
        let check = |_: &Path| {
            looks.set(looks.get() + 1);
            if looks.get() == 1 { Err(Error::Incomplete { what: "anything" }) } else { Ok(()) }
        };
        packages.provide(check, |said| panic!("{said}")).expect("it is there");
        assert_eq!(looks.get(), 2);
    }
}
