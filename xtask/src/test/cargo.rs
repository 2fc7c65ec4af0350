//! The steps of `cargo xtask test` that are a run of cargo.

use super::Outcome;
use crate::metadata::Metadata;
use crate::{child, root, setup};
use std::time::Duration;

/// A build of everything from nothing, on two cores.
const BUILD: Duration = Duration::from_secs(900);
/// A suite of tests with its build.
const SUITE: Duration = Duration::from_secs(1200);

/// The packages of which device images are made: they must build without std, on every ISA.
const DEVICE_SIDE: &[&str] = &["hamr-shared-abi", "hamr-comm", "hamr-kernels", "hamr-device-fw"];

/// Step `fmt`.
pub(crate) fn fmt(_: &Metadata) -> Outcome {
    plain(&["fmt", "--all", "--check"], BUILD)
}

/// Step `clippy`.
pub(crate) fn clippy(_: &Metadata) -> Outcome {
    plain(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], BUILD)
}

/// Step `no-std`.
pub(crate) fn no_std(_: &Metadata) -> Outcome {
    let (there, missing): (Vec<&str>, Vec<&str>) =
        setup::TARGETS.iter().copied().partition(|&target| setup::has_target(target));
    for target in &there {
        let mut command = child::cargo();
        command.arg("check").args(["--target", target]);
        for package in DEVICE_SIDE {
            command.args(["--package", package]);
        }
        if let Err(error) = child::run(&mut command, BUILD) {
            return Outcome::Failed(error.to_string());
        }
    }
    match missing.first() {
        None => Outcome::Passed(there.join(", ")),
        Some(target) => Outcome::missing(target, &format!("rustup target add {target}")),
    }
}

/// Step `features`: each feature of each package alone, and each package with none. Cargo builds a workspace with the
/// union of the features that its members ask for, which hides a feature that only works beside another.
pub(crate) fn features(metadata: &Metadata) -> Outcome {
    let mut count = 0;
    for package in metadata.ours() {
        let alone = package.features.iter().filter(|feature| *feature != "default").map(Some);
        for feature in std::iter::once(None).chain(alone) {
            let mut command = child::cargo();
            command.args(["check", "--quiet", "--package", &package.name, "--no-default-features"]);
            if let Some(feature) = feature {
                command.args(["--features", feature]);
            }
            if let Err(error) = child::run(&mut command, BUILD) {
                return Outcome::Failed(error.to_string());
            }
            count += 1;
        }
    }
    Outcome::Passed(format!("{count} builds"))
}

/// Step `image`: what the tests load, built before they run. A test that finds its image stale builds it itself, under
/// a time limit that is meant for the test.
pub(crate) fn image(_: &Metadata) -> Outcome {
    match child::capture(&mut crate::image::command(&[]), BUILD) {
        Ok(path) => Outcome::Passed(path.trim().rsplit('/').next().unwrap_or_default().to_owned()),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

/// Step `tests`. The runner's last line is repeated in the table.
pub(crate) fn tests(_: &Metadata) -> Outcome {
    if !child::is_installed("cargo-nextest") {
        return Outcome::missing("cargo-nextest", "cargo install cargo-nextest --locked");
    }
    let mut command = child::cargo();
    command.args(["nextest", "run", "--workspace"]);
    let (result, summary) = child::run_keeping(&mut command, SUITE, |line| line.contains("Summary ["));
    match result {
        Ok(()) => Outcome::Passed(summary.unwrap_or_default()),
        Err(error) => Outcome::Failed(summary.unwrap_or_else(|| error.to_string())),
    }
}

/// Step `doctests`, which nextest does not run.
pub(crate) fn doctests(_: &Metadata) -> Outcome {
    plain(&["test", "--quiet", "--doc", "--workspace"], SUITE)
}

/// Step `loom`: the model checker's build of the tests, in a target folder of its own because every dependency is
/// compiled with its `cfg`.
pub(crate) fn loom(metadata: &Metadata) -> Outcome {
    if !root().join("tests/tests/loom.rs").is_file() {
        return Outcome::Skipped("tests/tests/loom.rs does not exist".into());
    }
    let mut command = child::cargo();
    command
        .args(["test", "--release", "--package", "hamr-tests", "--test", "loom"])
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", metadata.target.join("loom"))
        // The models need optimised code, not the inlining across crates that the release profile pays minutes for.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    Outcome::of(child::run(&mut command, SUITE))
}

/// Step `docs`.
pub(crate) fn docs(_: &Metadata) -> Outcome {
    let mut command = child::cargo();
    command.args(["doc", "--workspace", "--no-deps"]).env_remove("CARGO_ENCODED_RUSTDOCFLAGS");
    Outcome::of(child::run(command.env("RUSTDOCFLAGS", "-Dwarnings"), BUILD))
}

fn plain(arguments: &[&str], limit: Duration) -> Outcome {
    Outcome::of(child::run(child::cargo().args(arguments), limit))
}
