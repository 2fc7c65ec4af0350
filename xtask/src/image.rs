//! `cargo xtask image`: builds a device image and prints its path. There is one function that builds images, behind
//! `hamr image`; this task calls the program, so that no second recipe can drift from the first.

use crate::machines::{MACHINES, can_build, device};
use crate::test::Outcome;
use crate::{Error, child};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// An image and the program that builds it, from nothing.
const LIMIT: Duration = Duration::from_secs(900);

/// What users start with, and the limit of sizes is for.
pub(crate) const DEMO: &str = "hamr-demo";
/// What the conformance suite runs on.
const CHECKS: &str = "hamr-checks";
/// The same, with a reset after each fault.
const RESET: &str = "hamr-checks-reset";

/// The board outside of `device-fw`, and a device that is built for as it is.
const BOARD: (&str, &str) = ("hamr-microvm", "qemu:x86_64");

/// Checks the arguments and builds.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    let mut named = false;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--device" if rest.next().is_some() => {}
            "--device" => {
                return Err(Error::Usage("`--device` expects a device, such as shm or qemu:riscv64".into()));
            }
            flag if flag.starts_with('-') && !flag.starts_with("--device=") => {
                return Err(Error::unknown(flag, "[NAME] [--device DEVICE]"));
            }
            flag if flag.starts_with('-') => {}
            name if named => return Err(Error::unknown(name, "one image name")),
            _ => named = true,
        }
    }
    child::run(command().args(arguments), LIMIT)
}

/// Builds an image for a device and returns its path.
pub(crate) fn build(name: &str, device: &str) -> Result<PathBuf, Error> {
    let output = child::capture(command().args([name, "--device", device]), LIMIT)?;
    Ok(output.trim().into())
}

/// Step `image`: what the tests load, built before they run. A test that finds its image stale builds it itself, under
/// a time limit that is meant for the test.
pub(crate) fn step() -> Outcome {
    let mut devices = vec!["shm".to_owned()];
    let mut missing = None;
    for machine in &MACHINES {
        match can_build(machine) {
            Ok(()) => devices.push(device(machine)),
            Err(outcome) => missing = Some(outcome),
        }
    }
    let mut failed = Vec::new();
    for device in &devices {
        let board: &[&str] = if device == BOARD.1 { &[BOARD.0] } else { &[] };
        for &name in [DEMO, CHECKS, RESET].iter().chain(board) {
            if let Err(error) = build(name, device) {
                println!("{error}");
                failed.push(format!("{name} for {device}"));
            }
        }
    }
    match (failed.is_empty(), missing) {
        (false, _) => Outcome::Failed(format!("cannot be built: {}", failed.join(", "))),
        (true, Some(outcome)) => outcome,
        (true, None) => Outcome::Passed(format!("{DEMO} and {CHECKS} for {}", devices.join(", "))),
    }
}

/// What the conformance suite runs on, as `tests/src/devices.rs` reads it: device and path, a line each. What cannot be built is
/// left out; the tests then say so.
pub(crate) fn for_tests() -> String {
    let machines = MACHINES.iter().filter(|machine| can_build(machine).is_ok()).map(device);
    let built = |device: String| Some(format!("{device} {}", build(CHECKS, &device).ok()?.display()));
    std::iter::once("shm".to_owned()).chain(machines).filter_map(built).collect::<Vec<_>>().join("\n")
}

/// `hamr image`. Its standard output is the path, one line.
fn command() -> Command {
    let mut command = child::cargo();
    command.args(["run", "--quiet", "--release", "--package", "hamr-cli", "--", "image"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_arguments_are_refused_before_anything_is_built() {
        for wrong in [&["--board"][..], &["one", "two"], &["--device"]] {
            let arguments: Vec<String> = wrong.iter().map(|&word| word.to_owned()).collect();
            assert!(matches!(task(&arguments), Err(Error::Usage(_))), "{wrong:?}");
        }
    }
}
