//! Which program runs a machine: the one in `PATH`, else one that was unpacked.

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

/// Debian's packages of the machines' programs. That of RISC-V is in the former of the two before Debian 13, in the latter since.
const PACKAGES: &[&str] = &["qemu-system-x86", "qemu-system-arm", "qemu-system-(misc|riscv)$"];

/// How long a program may take to say its version, on a loaded machine.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of what it says that are looked at.
const LONGEST: u64 = 1024;

/// A QEMU that can be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// Its file, or its name when it is looked for in `PATH`.
    pub path: PathBuf,
    /// Where its libraries are, when these are not the system's.
    libraries: Option<OsString>,
}

/// Programs that were asked for their version and are new enough, by their names: asking costs some 20 ms, a third of a device's start.
static ACCEPTED: Mutex<Vec<(&'static str, Program)>> = Mutex::new(Vec::new());

impl Program {
    /// The program of a machine: that in `PATH`, or where there is none or an older one than [`MINIMUM`], one that [`setup`]
    /// unpacked.
    ///
    /// # Errors
    /// When there is none, or one does not say its version.
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

    /// Starts it, once it has its arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        if let Some(libraries) = &self.libraries {
            // For this child alone. The program finds everything else beside itself.
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command
    }

    fn installed(name: &str) -> Self {
        Self { path: name.into(), libraries: None }
    }

    /// In a folder of unpacked packages.
    fn unpacked(files: &Path, name: &str) -> Self {
        let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
        let mut libraries = OsString::from(files.join("usr/lib").join(&triple));
        libraries.push(":");
        libraries.push(files.join("lib").join(&triple));
        Self { path: files.join("usr/bin").join(name), libraries: Some(libraries) }
    }
}

/// The first candidate that is new enough. One that does not say its version ends the search: it is there, and broken.
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

/// What a program says it is; `None` when there is none that may be run.
fn version(program: &Program) -> Result<Option<Version>, Error> {
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
    match version::parse(&said) {
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

/// Makes sure that every machine of [`Machine::ALL`] has its program, and returns them in that order. Where one is missing, Debian's
/// packages are unpacked into the first of [`folders`]: nothing is installed. `say` is told of what takes its time.
///
/// # Errors
/// When packages cannot be had here, or a program in `PATH` does not say its version.
pub fn setup(say: impl FnOnce(&str)) -> Result<Vec<Program>, Error> {
    let find = || Machine::ALL.iter().map(Program::find).collect::<Result<Vec<_>, _>>();
    match find() {
        Err(Error::Absent { .. } | Error::TooOld { .. }) => {}
        other => return other,
    }
    let folder = folders().into_iter().next().ok_or(Error::NoFolder)?;
    // The system's loader fits the system's C library only, so that one is not unpacked.
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

/// Whether unpacked packages have all programs.
fn check(files: &Path) -> Result<(), Error> {
    for Machine { program, .. } in Machine::ALL {
        choose(program, std::iter::once(Program::unpacked(files, program)), version)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is chosen of a program in PATH and two that are unpacked, with these versions; 0.0 stands for one that does not say it.
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
        let said = chosen([None; 3]).expect_err("there is none");
        for part in ["`q` in PATH", "/first/usr/bin/q or /second/usr/bin/q", "`hamr setup`"] {
            assert!(said.contains(part), "{said}");
        }
        let said = chosen([Some((5, 2)), None, Some((6, 9))]).expect_err("all are old");
        assert!(said.contains("`q` of version 7.0") && said.contains("found 5.2"), "{said}");
        // It is the one that was meant, so another one in its place would hide the fault.
        let said = chosen([Some((0, 0)), Some((7, 2)), None]).expect_err("it does not say its version");
        assert!(said.contains("nonsense"), "{said}");
    }

    #[test]
    fn only_an_unpacked_program_gets_libraries() {
        let variable =
            |program: Program| program.command().get_envs().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(variable(Program::installed("q")), Vec::<OsString>::new());
        assert_eq!(variable(Program::unpacked(Path::new("/first"), "q")), ["LD_LIBRARY_PATH"]);
    }
}
