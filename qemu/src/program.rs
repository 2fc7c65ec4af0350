//! The program that runs a machine: the QEMU in `PATH`, else one that was unpacked.

use crate::folders::folders;
use crate::packages::Packages;
use crate::version::{self, MINIMUM, Version};
use crate::{Error, Machine, SetupCommand};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

/// Debian's packages of the machines' programs. RISC-V's is in `misc` before Debian 13 and in
/// `riscv` since.
const PACKAGES: &[&str] = &["qemu-system-x86", "qemu-system-arm", "qemu-system-(misc|riscv)$"];

/// How long a program may take to print its version, on a loaded machine.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of its output that are read.
const LONGEST: u64 = 1024;

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
        let mut accepted = ACCEPTED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, program)) = accepted.iter().find(|(name, _)| *name == machine.program) {
            return Ok(program.clone());
        }
        let folders = folders();
        let unpacked = folders.iter().map(|folder| Self::unpacked(&files_in(folder), machine.program));
        let candidates = std::iter::once(Self::installed(machine.program)).chain(unpacked);
        let program = choose(machine.program, candidates, version)?;
        accepted.push((machine.program, program.clone()));
        Ok(program)
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
    let said = match first_line(program) {
        Ok(said) => said,
        // The system also refuses permission when a folder of PATH may not be searched and no other
        // folder has the program.
        Err(e) if [ErrorKind::NotFound, ErrorKind::PermissionDenied].contains(&e.kind()) => return Ok(None),
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

/// The first line that a program prints for `--version`, within [`PROBE_TIMEOUT`]. Then the program
/// and its children are killed.
fn first_line(program: &Program) -> std::io::Result<String> {
    let mut command = program.command();
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn()?;
    let (sender, receiver) = mpsc::channel();
    let pipe = child.stdout.take();
    let reader = std::thread::Builder::new().name("hamr-version".into()).spawn(move || {
        let mut line = Vec::new();
        // A read error leaves an empty or short line, which parses as no version.
        let _ = pipe.map(|pipe| BufReader::new(pipe.take(LONGEST)).read_until(b'\n', &mut line));
        let _ = sender.send(String::from_utf8_lossy(&line).trim_end().to_owned());
    });
    let said = match reader {
        Ok(_) => receiver.recv_timeout(PROBE_TIMEOUT).map_err(|_| std::io::ErrorKind::TimedOut.into()),
        Err(e) => Err(e),
    };
    // The leader of the group is not reaped yet, so the group's number is not in use by another
    // one.
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    child.wait()?;
    said
}

/// Makes sure that every machine of [`Machine::ALL`] has its program, and returns them in that
/// order. Where one is missing, Debian's packages are unpacked into the first of [`folders`]:
/// nothing is installed. `say` is called with a line before a step that takes long.
///
/// # Errors
/// When no packages can be downloaded here, or a program in `PATH` prints no version.
pub fn setup(say: impl FnOnce(&str)) -> Result<Vec<Program>, Error> {
    let find = || Machine::ALL.iter().map(Program::find).collect::<Result<Vec<_>, _>>();
    match find() {
        Err(Error::Absent { .. } | Error::TooOld { .. }) => {}
        other => return other,
    }
    let folder = folders().into_iter().next().ok_or(Error::NoFolder)?;
    // The system's loader fits only the system's C library, so that package is not unpacked.
    let packages = Packages {
        folder: files_in(&folder),
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
        for part in ["`q` in PATH", "/first/usr/bin/q or /second/usr/bin/q", "`hamr setup`"] {
            assert!(message.contains(part), "{message}");
        }
        let message = chosen([Some((5, 2)), None, Some((6, 9))]).expect_err("all are old");
        assert!(message.contains("`q` of version 7.0") && message.contains("found 5.2"), "{message}");
        // This program was meant: another one in its place would hide the fault.
        let message = chosen([Some((0, 0)), Some((7, 2)), None]).expect_err("it prints no version");
        assert!(message.contains("nonsense"), "{message}");
    }

    #[test]
    fn only_an_unpacked_program_gets_libraries() {
        let variable =
            |program: Program| program.command().get_envs().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(variable(Program::installed("q")), Vec::<OsString>::new());
        assert_eq!(variable(Program::unpacked(Path::new("/first"), "q")), ["LD_LIBRARY_PATH"]);
    }
}
