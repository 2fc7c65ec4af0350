//! The program that runs a machine: the QEMU in `PATH`, else one that was unpacked.

use crate::child::Child;
use crate::folders::folders;
use crate::packages::Packages;
use crate::version::{self, MINIMUM, Version};
use crate::{Error, Machine, SetupCommand};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Debian's packages of the machines' programs. RISC-V's is in `misc` before Debian 13 and in
/// `riscv` since.
const PACKAGES: &[&str] = &["qemu-system-x86", "qemu-system-arm", "qemu-system-(misc|riscv)$"];

/// How long a program may take to print its version, on a loaded machine.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// A QEMU that can be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// Its file, or its name when it is in `PATH`.
    pub path: PathBuf,
    /// Its libraries' folders, when these are not the system's.
    libraries: Option<OsString>,
}

/// Programs that are new enough, by name. To run one for its version costs some 20 ms, a third of a
/// device's start, so each is run once.
static ACCEPTED: Mutex<Vec<(&'static str, Program)>> = Mutex::new(Vec::new());

impl Program {
    /// The program of a machine: the one in `PATH`, or where that is absent or older than
    /// [`MINIMUM`], one that [`setup`] unpacked.
    ///
    /// # Errors
    /// When there is none, or one prints no version.
    pub fn find(machine: &Machine) -> Result<Self, Error> {
        let accepted = || ACCEPTED.lock().unwrap_or_else(PoisonError::into_inner);
        let known = accepted().iter().find(|(name, _)| *name == machine.program).map(|(_, program)| program.clone());
        if let Some(program) = known {
            return Ok(program);
        }
        // Without the lock: a program that does not answer holds up no other device. Two threads may ask one twice.
        let program = choose(machine.program, candidates(machine.program, &folders()), version)?;
        accepted().push((machine.program, program.clone()));
        Ok(program)
    }

    /// The version that it prints.
    ///
    /// # Errors
    /// When it prints none any more.
    pub fn version(&self) -> Result<Version, Error> {
        let absent = || Error::Unversioned { program: self.path.display().to_string(), said: String::new() };
        version(self)?.ok_or_else(absent)
    }

    /// A command for the program, without arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        if let Some(libraries) = &self.libraries {
            // For this child alone. The program finds its other files relative to its own.
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command
    }

    fn installed(name: &str) -> Self {
        Self { path: name.into(), libraries: None }
    }

    /// The program in a folder of unpacked packages.
    fn unpacked(files: &Path, name: &str) -> Self {
        let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
        let mut libraries = OsString::from(files.join("usr/lib").join(&triple));
        libraries.push(":");
        libraries.push(files.join("lib").join(&triple));
        Self { path: files.join("usr/bin").join(name), libraries: Some(libraries) }
    }
}

/// The places of a program: `PATH`, then folders of unpacked packages.
fn candidates(name: &str, folders: &[PathBuf]) -> impl Iterator<Item = Program> {
    let unpacked = folders.iter().map(move |folder| Program::unpacked(&files_in(folder), name));
    std::iter::once(Program::installed(name)).chain(unpacked)
}

/// The first candidate that is new enough. A candidate that prints no version ends the search with
/// an error: it exists and is broken.
fn choose(
    name: &'static str,
    candidates: impl Iterator<Item = Program>,
    version: impl Fn(&Program) -> Result<Option<Version>, Error>,
) -> Result<Program, Error> {
    let (mut places, mut oldest) = (Vec::new(), None);
    for candidate in candidates {
        match version(&candidate)? {
            Some(found) if found >= MINIMUM => return Ok(candidate),
            Some(found) => oldest = oldest.or(Some((found, candidate.path.display().to_string()))),
            None if candidate.libraries.is_some() => places.push(candidate.path.display().to_string()),
            None => {}
        }
    }
    Err(match oldest {
        Some((found, place)) => Error::TooOld { program: place, found, command: SetupCommand },
        None => Error::Absent { program: name, places: places.join(" or "), command: SetupCommand },
    })
}

/// The version that a program prints; `None` when no such program can be run.
fn version(program: &Program) -> Result<Option<Version>, Error> {
    let name = || program.path.display().to_string();
    let said = match version_line(program) {
        Ok(said) => said,
        // The system also refuses permission when a folder of PATH may not be searched and no other
        // folder has the program. What is no folder has no programs.
        Err(e) if ABSENT.contains(&e.kind()) => return Ok(None),
        Err(e) if e.kind() == ErrorKind::TimedOut => {
            return Err(Error::Timeout { program: name(), limit: PROBE_TIMEOUT });
        }
        Err(e) => return Err(Error::os(format!("running `{} --version`", name()))(e)),
    };
    match version::parse(&said) {
        None => Err(Error::Unversioned { program: name(), said }),
        found => Ok(found),
    }
}

/// Kinds of errors of a program that is not there.
const ABSENT: [ErrorKind; 3] = [ErrorKind::NotFound, ErrorKind::PermissionDenied, ErrorKind::NotADirectory];

/// The line with the version that a program prints for `--version`, within [`PROBE_TIMEOUT`]; without one the first line that it
/// writes anywhere, which says why. Then the program and its children are killed.
fn version_line(program: &Program) -> std::io::Result<String> {
    let mut command = program.command();
    command.arg("--version");
    let said = Child::start(command, None, |line| version::parse(line).is_some())?.said(PROBE_TIMEOUT)?;
    let is_version = |line: &&str| version::parse(line).is_some();
    let line = said.lines().find(is_version).or(said.lines().find(|line| !line.trim().is_empty()));
    Ok(line.unwrap_or_default().trim_end().to_owned())
}

/// Who is to find what [`setup`] unpacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// The programs of the target folder that has this one: `cargo clean` removes it.
    Target,
    /// All programs of this user: a project of one's own has another target folder.
    User,
}

impl Reach {
    /// The folders that its programs look into; new packages go into the first.
    fn folders(self, mut all: Vec<PathBuf>) -> Vec<PathBuf> {
        match self {
            Self::Target => all,
            // The last one is the cache, where there is one.
            Self::User => all.split_off(all.len().saturating_sub(1)),
        }
    }
}

/// Makes sure that every machine of [`Machine::ALL`] has its program, and returns them in that
/// order. Where one is missing, Debian's packages are unpacked into one of [`folders`]:
/// nothing is installed. `say` is called with a line before a step that takes long.
///
/// # Errors
/// When no packages can be downloaded here, or a program in `PATH` prints no version.
pub fn setup(reach: Reach, say: impl FnOnce(&str)) -> Result<Vec<Program>, Error> {
    let folders = reach.folders(folders());
    let find = || {
        let program = |machine: &Machine| choose(machine.program, candidates(machine.program, &folders), version);
        Machine::ALL.iter().map(program).collect::<Result<Vec<_>, _>>()
    };
    match find() {
        Err(Error::Absent { .. } | Error::TooOld { .. }) => {}
        other => return other,
    }
    let folder = folders.first().ok_or(Error::NoFolder)?;
    // The system's loader fits only the system's C library, so that package is not unpacked.
    let packages = Packages {
        folder: files_in(folder),
        what: "Debian's packages of QEMU and its libraries",
        names: PACKAGES,
        wanted: |name| name != "libc6",
    };
    packages.provide(check, say)?;
    find()
}

fn files_in(folder: &Path) -> PathBuf {
    folder.join("qemu")
}

/// An error unless the unpacked packages have all programs.
fn check(files: &Path) -> Result<(), Error> {
    for Machine { program, .. } in Machine::ALL {
        choose(program, std::iter::once(Program::unpacked(files, program)), version)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The choice between a program in PATH and two unpacked ones, with these versions; 0.0 stands
    /// for one that prints none.
    fn chosen(versions: [Option<(u32, u32)>; 3]) -> Result<&'static str, String> {
        let names = ["in PATH", "first", "second"];
        let candidates = [
            Program::installed("q"),
            Program::unpacked(Path::new("/first"), "q"),
            Program::unpacked(Path::new("/second"), "q"),
        ];
        let index =
            |program: &Program| candidates.iter().position(|candidate| candidate == program).expect("one of them");
        let ask = |program: &Program| match versions[index(program)] {
            Some((0, 0)) => Err(Error::Unversioned { program: "q".into(), said: "nonsense".into() }),
            found => Ok(found.map(|(major, minor)| Version { major, minor })),
        };
        choose("q", candidates.iter().cloned(), ask).map(|program| names[index(&program)]).map_err(|e| e.to_string())
    }

    #[test]
    fn the_first_program_that_is_new_enough_is_used() {
        let (new, old) = (Some((7, 2)), Some((5, 2)));
        assert_eq!(chosen([new, new, new]).as_deref(), Ok("in PATH"));
        assert_eq!(chosen([None, new, new]).as_deref(), Ok("first"));
        assert_eq!(chosen([old, None, new]).as_deref(), Ok("second"));
        assert_eq!(chosen([old, old, Some((7, 0))]).as_deref(), Ok("second"));
    }

    #[test]
    fn a_missing_or_broken_program_is_named_with_what_to_do() {
        let message = chosen([None; 3]).expect_err("there is none");
        for part in ["`q` in PATH", "/first/usr/bin/q or /second/usr/bin/q", "`cargo run -- setup` in "] {
            assert!(message.contains(part), "{message}");
        }
        let message = chosen([Some((5, 2)), None, Some((6, 9))]).expect_err("all are old");
        assert!(message.contains("`q` of version 7.0") && message.contains("found 5.2"), "{message}");
        // This program was meant: another one in its place would hide the fault.
        let message = chosen([Some((0, 0)), Some((7, 2)), None]).expect_err("it prints no version");
        assert!(message.contains("nonsense"), "{message}");
    }

    /// What a program writes goes into the reason, wherever it writes it.
    #[test]
    fn the_reason_is_what_the_program_wrote() {
        let dir = tempfile::tempdir().expect("a folder");
        let says = |text: &str| {
            let path = dir.path().join("q");
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("allowed");
            // A process that another thread forks meanwhile may have the file open for writing.
            for _ in 0..100 {
                match version(&Program { path: path.clone(), libraries: None }) {
                    Err(Error::Os { source, .. }) if source.kind() == ErrorKind::ExecutableFileBusy => {}
                    said => return said.map_err(|e| e.to_string()),
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            panic!("the file stays busy");
        };
        let broken = says("echo 'libexample.so.1: cannot open' >&2; exit 127").expect_err("it prints no version");
        assert!(broken.ends_with("got `libexample.so.1: cannot open`"), "{broken}");
        assert!(says("exit 1").expect_err("nothing").ends_with("got ``"));
        let version = Ok(Some(Version { major: 8, minor: 1 }));
        assert_eq!(says("echo warning >&2; echo 'QEMU emulator version 8.1.0'; echo more; sleep 60"), version);
        let no_folder = Program { path: "/dev/null/q".into(), libraries: None };
        assert!(matches!(super::version(&no_folder), Ok(None)), "what is no folder has no programs");
    }

    /// A project of one's own finds what `hamr setup` unpacks: it has the cache, and not the checkout's target folder.
    #[test]
    fn packages_go_where_those_who_need_them_look() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let all = || paths(&["/checkout/target/hamr", "/home/.cache/hamr"]);
        assert_eq!(Reach::Target.folders(all()), all());
        assert_eq!(Reach::User.folders(all()), paths(&["/home/.cache/hamr"]));
        assert_eq!(Reach::User.folders(paths(&["/checkout/target/hamr"])), paths(&["/checkout/target/hamr"]));
        assert_eq!(Reach::User.folders(Vec::new()), paths(&[]));
    }

    #[test]
    fn no_place_is_named_that_is_empty() {
        let none =
            choose("q", [Program::installed("q")].into_iter(), |_| Ok(None)).expect_err("there is none").to_string();
        assert!(none.contains("set HOME or XDG_CACHE_HOME") && !none.contains("unpacked as"), "{none}");
    }

    #[test]
    fn only_an_unpacked_program_gets_libraries() {
        let variable =
            |program: Program| program.command().get_envs().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(variable(Program::installed("q")), Vec::<OsString>::new());
        assert_eq!(variable(Program::unpacked(Path::new("/first"), "q")), ["LD_LIBRARY_PATH"]);
    }
}
