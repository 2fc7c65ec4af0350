//! `cargo xtask image`: builds a device image and prints its path. It calls `hamr image`, so that
//! only one function builds images and no second recipe can drift from it.

use crate::machines::{MACHINES, can_build, device};
use crate::test::Outcome;
use crate::{Error, child};
use hamr_qemu::Machine;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The time to build an image, and the program that builds it, from an empty folder.
const LIMIT: Duration = Duration::from_secs(900);

/// The image that users start with, whose size is limited.
pub(crate) const DEMO: &str = "hamr-demo";
/// The image of `hamr-bench`, which tests load on shared memory only.
const BENCH: &str = "hamr-bench-image";
/// The image of the conformance suite.
const CHECKS: &str = "hamr-checks";
/// The image that takes its place.
const NEXT: &str = "hamr-checks-next";

/// An image with a board outside of `device-fw`, and a device to build it for.
const BOARD: (&str, &str) = ("hamr-microvm", "qemu:x86_64");
/// The machine that tests also reach through a debugger's stub, without a card.
const STUBBED: &str = "qemu:riscv64";
/// The images of all devices but microcontrollers.
const USUAL: [&str; 3] = [DEMO, CHECKS, NEXT];
/// The images of a microcontroller, the second also of the smallest window.
const MICRO: [&str; 2] = ["hamr-micro", "hamr-few"];

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
    child::run_ours(command().args(arguments), LIMIT)
}

/// Builds an image for a device and returns its path.
pub(crate) fn build(name: &str, device: &str) -> Result<PathBuf, Error> {
    let output = child::capture(command().args([name, "--device", device]), LIMIT)?;
    Ok(output.trim().into())
}

/// Step `image`: builds the images that tests load, before the tests run. Otherwise the first test
/// would build them, under a time limit that is meant for the test.
pub(crate) fn step() -> Outcome {
    let mut devices = vec!["shm".to_owned()];
    let mut missing = None;
    for machine in &Machine::ALL {
        match can_build(machine) {
            Ok(()) => devices.push(device(machine)),
            Err(outcome) => missing = Some(outcome),
        }
    }
    // The program that builds them, once, before both threads ask for it.
    if let Err(error) = child::run(child::cargo().args(["build", "--quiet", "--package", "hamr-cli"]), LIMIT) {
        return Outcome::Failed(error.to_string());
    }
    // Bare-metal images have a target folder of their own, so they build beside the others: each build ends with a long run of the
    // linker on one processor. Hosted images and optimised programs would wait for each other's lock of `release`.
    let (hosted, bare) = devices.split_at(1);
    let failed = std::thread::scope(|scope| {
        let hosted = scope.spawn(|| [build_all(hosted), build_optimised()].concat());
        let bare = build_all(bare);
        Ok([hosted.join()?, bare].concat())
    });
    let failed: Vec<String> = match failed {
        Ok(failed) => failed,
        Err::<_, Box<dyn std::any::Any + Send>>(_) => return Outcome::Failed("building the images panicked".into()),
    };
    match (failed.is_empty(), missing) {
        (false, _) => Outcome::Failed(format!("cannot be built: {}", failed.join(", "))),
        (true, Some(outcome)) => outcome,
        (true, None) => Outcome::Passed(format!("{DEMO} and {CHECKS} for {}", devices.join(", "))),
    }
}

/// Builds what is counted, for the step `instructions`.
fn build_optimised() -> Vec<String> {
    let mut cargo = child::cargo();
    match child::run(cargo.args(["build", "--quiet", "--release", "--package", "hamr-bench"]), LIMIT) {
        Ok(()) => Vec::new(),
        Err(error) => {
            println!("{error}");
            vec!["hamr-bench".to_owned()]
        }
    }
}

/// Builds the images that tests load on these devices, and names those that cannot be built.
fn build_all(devices: &[String]) -> Vec<String> {
    let mut failed = Vec::new();
    let micro = self::device(&Machine::ARM);
    for device in devices {
        let (usual, further): (&[&str], &[&str]) = match device.as_str() {
            "shm" => (&USUAL, &[BENCH, MICRO[1]]),
            board if board == BOARD.1 => (&USUAL, &[BOARD.0]),
            board if board == micro => (&MICRO, &[]),
            board if board == STUBBED => (&USUAL, &[MICRO[1]]),
            _ => (&USUAL, &[]),
        };
        for &name in usual.iter().chain(further) {
            if let Err(error) = build(name, device) {
                println!("{error}");
                failed.push(format!("{name} for {device}"));
            }
        }
    }
    failed
}

/// The images of the conformance suite, those that take their place, and the small ones, in the form that `tests/src/devices.rs`
/// reads: name, device and path, one line each. What cannot be built is left out; its tests then report that.
pub(crate) fn for_tests() -> String {
    let machines = MACHINES.iter().filter(|machine| can_build(machine).is_ok()).map(device);
    let devices = std::iter::once("shm".to_owned()).chain(machines);
    let usual = devices.flat_map(|device| [CHECKS, NEXT].map(|name| (name, device.clone())));
    let micro = MICRO.iter().filter(|_| can_build(&Machine::ARM).is_ok()).map(|name| (*name, device(&Machine::ARM)));
    let few = ["shm", STUBBED].map(|device| (MICRO[1], device.to_owned()));
    let images = usual.chain(micro).chain(few);
    let built = |(name, device): (_, String)| Some(format!("{name} {device} {}", build(name, &device).ok()?.display()));
    images.filter_map(built).collect::<Vec<_>>().join("\n")
}

/// `hamr image`. Its standard output is the path, one line.
fn command() -> Command {
    let mut command = child::cargo();
    command.args(["run", "--quiet", "--package", "hamr-cli", "--", "image"]);
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
