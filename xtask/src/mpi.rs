//! `cargo xtask mpi`: builds the workspace `mpi/`, checks it, and runs its tests, each in a job that `mpirun` starts.
//!
//! The main workspace builds without an implementation of MPI and without libclang, and no other step needs them. Which one is
//! used is `MPICC`'s choice, as for the crate `mpi-sys`; `HAMR_MPIRUN` names the program that starts its jobs.

use crate::test::{Outcome, summary};
use crate::{Error, child, image, no_arguments, root};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The time to build everything from an empty folder on two cores.
const BUILD: Duration = Duration::from_secs(900);
/// The time for the tests. A test by itself has its own, by `.config/nextest.toml`.
const TESTS: Duration = Duration::from_secs(600);

/// What it needs beyond the other tests, of Debian.
pub(crate) const PACKAGES: &str = "libopenmpi-dev openmpi-bin libclang-dev";

pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    no_arguments(arguments)?;
    check().map(|note| println!("{note}"))
}

/// The step of that name.
pub(crate) fn step() -> Outcome {
    if !is_installed() {
        return Outcome::missing("MPI", &format!("apt-get install {PACKAGES}"));
    }
    Outcome::noted(check())
}

/// Is there an implementation of MPI, and libclang, of which `bindgen` makes its interface?
pub(crate) fn is_installed() -> bool {
    let has_clang = || {
        let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        std::env::var_os("LIBCLANG_PATH").is_some()
            || folders.map(|folder| folder.path()).any(|folder| folder.join("lib/libclang.so").exists())
    };
    child::is_installed(&compiler()) && child::is_installed(&mpirun()) && has_clang()
}

fn compiler() -> String {
    std::env::var("MPICC").unwrap_or_else(|_| "mpicc".into())
}

fn mpirun() -> String {
    std::env::var("HAMR_MPIRUN").unwrap_or_else(|_| "mpirun".into())
}

fn check() -> Result<String, Error> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    // Of its own: `mpi-sys` does not see that another implementation is wanted.
    let target = target.join("mpi").join(compiler().replace('/', "-"));
    let cargo = |words: &[&str]| -> Command {
        let mut command = child::cargo();
        command.current_dir(root().join("mpi")).args(words).env("CARGO_TARGET_DIR", &target);
        command
    };
    child::run(&mut cargo(&["fmt", "--check"]), BUILD)?;
    child::run(&mut cargo(&["clippy", "--locked", "--all-targets", "--", "-D", "warnings"]), BUILD)?;
    let mut tests = cargo(&["nextest", "run", "--locked", "--color", "never"]);
    tests.env("HAMR_TEST_IMAGES", image::for_tests());
    let (result, lines) = child::run_keeping(&mut tests, BUILD + TESTS, |_| true);
    let (failed, summary) = summary(&lines);
    match result {
        Ok(()) => Ok(summary.unwrap_or_default()),
        Err(e) => Err(Error::Failed(failed.or(summary).unwrap_or_else(|| e.to_string()))),
    }
}
