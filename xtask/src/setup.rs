//! `cargo xtask setup`: installs what the tests need beyond cargo. Each need is checked first. A
//! missing one is installed (QEMU: unpacked) where that needs no privileges; otherwise the command
//! to type is printed.

use crate::toolchain::{self, Compiler, TARGETS, compiler_of};
use crate::{Error, child, in_ci, mpi, no_arguments};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The time for a download, or for a build of a tool.
const LIMIT: Duration = Duration::from_secs(1800);

/// Runs before the first package is installed: a fresh container has no package lists.
const UPDATE: &str = "apt-get update";

/// Prints one line per need that is not met, and the state after that.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    no_arguments(arguments)?;
    run().map(|note| println!("{note}"))
}

/// Installs what is missing. Returns a line about the result; in CI, an error when something is
/// still missing.
pub(crate) fn run() -> Result<String, Error> {
    let mut missing = Vec::new();
    let mut is_updated = false;
    for need in needs() {
        for way in &need.ways {
            if (need.is_there)() {
                break;
            }
            if !is_allowed(way) {
                continue;
            }
            println!("{} is missing, trying: {way}", need.name);
            if is_apt(way) && !is_updated {
                is_updated = true;
                attempt(UPDATE);
            }
            attempt(way);
        }
        if !(need.is_there)() {
            println!("skipped: {} (install with: {})", need.name, need.to_type());
            missing.push(need.name);
        }
    }
    // QEMU is unpacked, which needs no root and cannot conflict with installed packages.
    if let Err(error) = hamr_qemu::setup(hamr_qemu::Reach::Target, |what| println!("QEMU is missing, {what}")) {
        println!("skipped: QEMU ({error})");
        missing.push("QEMU".into());
    }
    match (missing.is_empty(), in_ci()) {
        (true, _) => Ok(format!("everything that the tests need is installed{}", built_here())),
        (false, true) => Err(Error::Failed(format!("missing: {}", missing.join(", ")))),
        (false, false) => Ok(format!("tests that need {} will be skipped{}", missing.join(", "), built_here())),
    }
}

/// Names the targets that rustup did not bring: their builds take longer, and clippy does not see
/// them.
fn built_here() -> String {
    let targets: Vec<&str> =
        TARGETS.iter().copied().filter(|&target| compiler_of(target) == Some(Compiler::Distribution)).collect();
    match targets.is_empty() {
        true => String::new(),
        false => format!("; rustup did not bring {}, /usr/bin/cargo builds their library", targets.join(", ")),
    }
}

struct Need {
    name: String,
    is_there: Box<dyn Fn() -> bool>,
    /// Commands, each of which should suffice; the best first.
    ways: Vec<String>,
}

impl Need {
    fn new(name: impl Into<String>, is_there: impl Fn() -> bool + 'static, ways: &[String]) -> Self {
        Self { name: name.into(), is_there: Box::new(is_there), ways: ways.to_vec() }
    }

    /// The command for a person to type.
    fn to_type(&self) -> String {
        let ways = self.ways.iter().map(|way| if is_apt(way) { format!("{UPDATE} && {way}") } else { way.clone() });
        ways.collect::<Vec<_>>().join(", or: ")
    }
}

fn needs() -> Vec<Need> {
    let target = |&name| {
        let ways = [toolchain::install(name), apt(toolchain::PACKAGES)];
        Need::new(name, move || compiler_of(name).is_some(), &ways)
    };
    let component = |name, subcommand| {
        // A rustup proxy exists without the component behind it, so only a run shows whether it
        // works.
        Need::new(name, move || cargo_has(subcommand), &[format!("rustup component add {name}")])
    };
    let program = |name, way: String| Need::new(name, move || child::is_installed(name), &[way]);
    let mut needs: Vec<Need> = TARGETS.iter().map(target).collect();
    needs.push(component("clippy", "clippy"));
    needs.push(component("rustfmt", "fmt"));
    needs.push(program("cargo-nextest", "cargo install cargo-nextest --locked".into()));
    needs.push(program("cc", apt("gcc libc6-dev")));
    needs.push(program("c++", apt("g++")));
    needs.push(program("pkg-config", apt("pkg-config")));
    needs.push(program("valgrind", apt("valgrind")));
    needs.push(program("gdb-multiarch", apt("gdb-multiarch")));
    needs.push(program("ip", apt("iproute2")));
    needs.push(program("gdbserver", apt("gdbserver")));
    needs.push(Need::new("MPI", mpi::is_installed, &[apt(mpi::PACKAGES)]));
    needs
}

/// Installs packages and removes none: Debian's compiler and its rustup exclude each other.
fn apt(packages: &str) -> String {
    format!("apt-get install -y --no-install-recommends --no-remove {packages}")
}

fn is_apt(way: &str) -> bool {
    way.starts_with("apt-get ")
}

/// Whether a command may be run unasked: system packages only by root.
fn is_allowed(way: &str) -> bool {
    let program = way.split(' ').next().unwrap_or_default();
    child::is_installed(program) && (!is_apt(way) || is_root())
}

/// Runs a command. The caller checks afterwards whether it helped.
fn attempt(line: &str) {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    let mut command = if program == "cargo" { child::cargo() } else { Command::new(program) };
    command.args(words).env("DEBIAN_FRONTEND", "noninteractive");
    if let Err(error) = child::run(&mut command, LIMIT) {
        println!("{error}");
    }
}

fn cargo_has(subcommand: &str) -> bool {
    let status = child::cargo().args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_need_has_a_way_and_a_command_to_type() {
        for need in needs() {
            assert!(!need.ways.is_empty(), "{}", need.name);
        }
        let need = Need::new("thing", || false, &["rustup target add thing".into(), apt("a b")]);
        assert_eq!(
            need.to_type(),
            "rustup target add thing, or: apt-get update && \
             apt-get install -y --no-install-recommends --no-remove a b"
        );
    }

    #[test]
    fn a_missing_program_is_not_run() {
        assert!(!is_allowed("no-such-program install thing"));
    }
}
