//! The compiler for a target: the one in the path, or Debian's, which compiles the library from its
//! source.

use crate::child;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Debian's packages of the second compiler, and of the linker that it lacks for targets without a
/// system. The packages at the same paths without `-web` are years older.
pub const PACKAGES: &str = "rustc-web cargo-web rust-web-src lld";

// Full paths, because a rustup that lacks the target usually comes first in `PATH`.
const RUSTC: &str = "/usr/bin/rustc";
const CARGO: &str = "/usr/bin/cargo";
const SOURCE: &str = "/usr/lib/rustlib/src/rust/library/core/Cargo.toml";
const LINKER: &str = "ld.lld";
/// Only what images use: no allocator, no unwinder.
const BUILD_STD: &[&str] = &["-Zbuild-std=core,alloc", "-Zbuild-std-features=compiler-builtins-mem"];

/// A compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compiler {
    /// The one that `cargo` runs, with the target's library.
    Usual,
    /// The distribution's, with the library's source: for machines that cannot reach rustup's
    /// server.
    Distribution,
}

impl Compiler {
    /// The compiler for `target` in the folder `dir`; `None` when no compiler here has that target.
    /// The question goes to the compiler and not to rustup, so that an installation without rustup
    /// counts too.
    ///
    /// # Errors
    /// When there is no compiler at all.
    pub fn of(target: &str, dir: &Path) -> std::io::Result<Option<Self>> {
        let mut command = Command::new(rustc());
        command.current_dir(dir).args(["--print", "target-libdir", "--target", target]);
        let output = output(&mut command);
        let folder = output.as_ref().map(|o| PathBuf::from(String::from_utf8_lossy(&o.out).trim()));
        let mut files = folder.ok().and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        if files.any(|file| file.file_name().to_string_lossy().starts_with("libcore")) {
            return Ok(Some(Self::Usual));
        }
        if is_distributions() {
            return Ok(Some(Self::Distribution));
        }
        output.map(|_| None)
    }

    /// `cargo SUBCOMMAND --target TARGET`, run with this compiler. Other arguments may follow.
    pub fn cargo(self, subcommand: &str, target: &str) -> Command {
        let mut command = Command::new(self.program());
        command.args([subcommand, "--target", target]);
        if self == Self::Distribution {
            // Building the library from its source is unstable; the source is the compiler's own.
            command.env("RUSTC", RUSTC).env("RUSTC_BOOTSTRAP", "1").args(BUILD_STD);
            command.env(format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace(['-', '.'], "_")), LINKER);
        }
        command
    }

    /// The linker that comes with it, which knows every target.
    ///
    /// # Errors
    /// When there is no compiler.
    pub fn linker(self, dir: &Path) -> std::io::Result<PathBuf> {
        let said = |arguments: &[&str]| {
            let output = output(Command::new(rustc()).current_dir(dir).args(arguments))?;
            Ok::<_, std::io::Error>(String::from_utf8_lossy(&output.out).into_owned())
        };
        let (root, version) = (said(&["--print", "sysroot"])?, said(&["-vV"])?);
        let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
        let own = Path::new(root.trim()).join("lib/rustlib").join(host).join("bin/rust-lld");
        Ok(if self == Self::Usual && own.is_file() { own } else { LINKER.into() })
    }

    /// The cargo program.
    pub fn program(self) -> OsString {
        match self {
            Self::Usual => std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
            Self::Distribution => CARGO.into(),
        }
    }
}

/// What a program said that has ended.
#[derive(Clone, Debug)]
pub struct Said {
    /// How it ended; `None` where this process, or the system for it (SIGCHLD ignored), took the exit status.
    pub status: Option<ExitStatus>,
    /// What it wrote to standard output.
    pub out: Vec<u8>,
    /// What it wrote to standard error.
    pub err: Vec<u8>,
}

/// Runs a program that reads nothing, as [`Command::output`] does. It has spoken also where its exit status is
/// another one's.
///
/// # Errors
/// When it cannot be run.
pub fn output(command: &mut Command) -> std::io::Result<Said> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child::start(command)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    // A read error ends a text early.
    std::thread::scope(|threads| {
        let errors = || stderr.map(|mut stderr| stderr.read_to_end(&mut err));
        let reader = std::thread::Builder::new().spawn_scoped(threads, errors);
        if reader.is_ok()
            && let Some(mut stdout) = stdout
        {
            let _ = stdout.read_to_end(&mut out);
        }
        reader.map(drop)
    })?;
    Ok(Said { status: child::ended(&mut child)?, out, err })
}

/// The compiler that is asked first.
pub fn rustc() -> OsString {
    std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}

fn is_distributions() -> bool {
    [CARGO, SOURCE].iter().all(|path| Path::new(path).is_file())
        && version(RUSTC) >= numbers(env!("CARGO_PKG_RUST_VERSION"))
        && version(LINKER).is_some()
}

fn version(program: &str) -> Option<(u32, u32)> {
    numbers(&String::from_utf8_lossy(&output(Command::new(program).arg("--version")).ok()?.out))
}

/// The first two numbers of a text: `rustc 1.96.0 (…)`, `LLD 14.0.6`, `1.95`.
fn numbers(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split([' ', '.']).filter_map(|word| word.trim().parse().ok());
    numbers.next().zip(numbers.next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn the_distributions_compiler_builds_the_library_too() {
        let command = Compiler::Distribution.cargo("check", "thumbv7em-none-eabihf");
        let words: Vec<&OsStr> = command.get_args().collect();
        assert_eq!(words[..4], ["check", "--target", "thumbv7em-none-eabihf", "-Zbuild-std=core,alloc"]);
        assert_eq!(command.get_program(), CARGO);
        let linker = command.get_envs().find(|(name, _)| *name == "CARGO_TARGET_THUMBV7EM_NONE_EABIHF_LINKER");
        assert_eq!(linker.and_then(|(_, value)| value), Some(OsStr::new(LINKER)));
        assert!(Compiler::Usual.cargo("check", "thumbv7em-none-eabihf").get_envs().next().is_none());
    }

    #[test]
    fn a_program_says_what_it_says_on_both_streams() {
        let said = output(Command::new("sh").args(["-c", "echo one; echo two >&2; exit 3"])).expect("it runs");
        assert_eq!((&*said.out, &*said.err), (&b"one\n"[..], &b"two\n"[..]));
        assert_eq!(said.status.and_then(|status| status.code()), Some(3));
        output(&mut Command::new("/dev/null/no-program")).expect_err("it is not there");
    }

    #[test]
    fn the_host_is_compiled_as_usual() {
        let here = Compiler::of("x86_64-unknown-linux-gnu", Path::new("/")).expect("a compiler built this");
        assert_eq!(here, Some(Compiler::Usual));
    }

    #[test]
    fn a_target_that_does_not_exist_has_no_library() {
        let nobody = Compiler::of("no-such-target", Path::new("/")).expect("a compiler built this");
        assert_ne!(nobody, Some(Compiler::Usual));
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(numbers("rustc 1.96.0 (abc 2026-05-01) (built from a source tarball)\n"), Some((1, 96)));
        assert_eq!(numbers("Debian LLD 14.0.6 (compatible with GNU linkers)"), Some((14, 0)));
        assert!(numbers(env!("CARGO_PKG_RUST_VERSION")).is_some() && numbers("none") < numbers("1.0"));
    }
}
