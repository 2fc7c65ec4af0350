//! `cargo xtask setup`: what the tests need beyond cargo itself. Present things cost one look each; a missing one is
//! installed where that needs nobody's permission, and otherwise named with the command to type.

use crate::{Error, child, in_ci, no_arguments};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The targets on which the device's crates must compile: one per ISA family that a device image is built for, and
/// one without 64-bit pointers or atomics, which nothing emulates but every shared crate must allow.
pub(crate) const TARGETS: &[&str] = &["aarch64-unknown-none", "riscv64gc-unknown-none-elf", "thumbv7em-none-eabihf"];

/// A download or a build of a tool.
const LIMIT: Duration = Duration::from_secs(1800);

/// Prints one line per need.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    no_arguments(arguments)?;
    run().map(|note| println!("{note}"))
}

/// Installs what is missing. Returns what to say about it; an error, in CI, when something is still missing.
pub(crate) fn run() -> Result<String, Error> {
    let mut missing = Vec::new();
    for need in needs() {
        if (need.is_there)(need.name) {
            continue;
        }
        if need.is_allowed {
            println!("{} is missing, trying: {}", need.name, need.install.join(" && "));
            attempt(&need);
        }
        if !(need.is_there)(need.name) {
            println!("skipped: {} (install with: {})", need.name, need.install.join(" && "));
            missing.push(need.name);
        }
    }
    match (missing.is_empty(), in_ci()) {
        (true, _) => Ok("everything that the tests need is installed".into()),
        (false, true) => Err(Error::Failed(format!("missing: {}", missing.join(", ")))),
        (false, false) => Ok(format!("tests that need {} will be skipped", missing.join(", "))),
    }
}

/// Whether code can be compiled for this target. Asks the compiler, so that a toolchain without rustup counts too.
pub(crate) fn has_target(target: &str) -> bool {
    let output = Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    output.is_ok_and(|output| std::path::Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

struct Need {
    name: &'static str,
    is_there: fn(&str) -> bool,
    install: Vec<String>,
    /// Whether the commands may be run unasked: system packages only by root.
    is_allowed: bool,
}

fn needs() -> Vec<Need> {
    let with_rustup = child::is_installed("rustup");
    let with_apt = child::is_installed("apt-get");
    let mut needs: Vec<Need> = TARGETS
        .iter()
        .map(|&name| Need {
            name,
            is_there: has_target,
            install: vec![format!("rustup target add {name}")],
            is_allowed: with_rustup,
        })
        .collect();
    // A rustup proxy exists without the component behind it: only running it tells.
    let component = |name, is_there| Need {
        name,
        is_there,
        install: vec![format!("rustup component add {name}")],
        is_allowed: with_rustup,
    };
    needs.push(component("clippy", |_| cargo_has("clippy")));
    needs.push(component("rustfmt", |_| cargo_has("fmt")));
    needs.push(Need {
        name: "cargo-nextest",
        is_there: child::is_installed,
        install: vec!["cargo install cargo-nextest --locked".into()],
        is_allowed: true,
    });
    needs.push(Need {
        name: "valgrind",
        is_there: child::is_installed,
        install: vec!["apt-get update".into(), "apt-get install -y valgrind".into()],
        is_allowed: with_apt && is_root(),
    });
    needs
}

/// Runs the commands up to the first that fails; whether that helped is looked up afterwards.
fn attempt(need: &Need) {
    for line in &need.install {
        let mut words = line.split(' ');
        let Some(program) = words.next() else { return };
        let mut command = if program == "cargo" { child::cargo() } else { Command::new(program) };
        command.args(words).env("DEBIAN_FRONTEND", "noninteractive");
        if let Err(error) = child::run(&mut command, LIMIT) {
            println!("{error}");
            return;
        }
    }
}

fn cargo_has(subcommand: &str) -> bool {
    let status = child::cargo().args([subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}
