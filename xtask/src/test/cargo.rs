//! The steps of `cargo xtask test` that are a run of cargo.

use super::{Outcome, Run};
use crate::child;
use crate::toolchain::{self, Compiler, TARGETS, X86_64, compiler_of};
use std::time::Duration;

/// The time to build everything from an empty folder on two cores.
const BUILD: Duration = Duration::from_secs(900);
/// The time for a test suite with its build, on a busy machine.
const SUITE: Duration = Duration::from_secs(2400);

/// The packages of which device images are made: they must build without std, on every ISA.
const DEVICE_SIDE: &[&str] = &["hamr-shared-abi", "hamr-comm", "hamr-kernels", "hamr-device-fw"];
/// Those of images that are ranks or use verbs, and the runtime with all that an image may have. Apart: they have
/// features that the others lack.
const RANKS: &[&str] = &["hamr-device-fw", "hamr-gas", "hamr-xacc", "hamr-programs", "hamr-verbs"];

/// Step `fmt`.
pub(crate) fn fmt(_: &Run) -> Outcome {
    plain(&["fmt", "--all", "--check"], BUILD)
}

/// Step `clippy`.
pub(crate) fn clippy(_: &Run) -> Outcome {
    plain(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], BUILD)
}

/// Step `no-std`: by clippy, because no other step compiles code that is for bare metal only. On
/// x86_64 that is a build for the host's own target, which a `cfg` makes freestanding.
pub(crate) fn no_std(run: &Run) -> Outcome {
    let mut done = Vec::new();
    let mut missing = None;
    for &target in TARGETS.iter().chain(&[X86_64]) {
        let Some(compiler) = compiler_of(target) else {
            missing = Some(Outcome::missing(target, &toolchain::install(target)));
            continue;
        };
        // Only rustup's compiler has clippy.
        let lints = compiler == Compiler::Usual;
        let microvm: &[&str] = if target == X86_64 { &["hamr-tests-microvm"] } else { &[] };
        let bench = ["--features", "hamr-kernels/bench"];
        let all =
            ["--features", "hamr-device-fw/modules,hamr-device-fw/tasks,hamr-device-fw/world,hamr-verbs/handlers"];
        // The last one is for programs with a main loop of their own.
        let runs: [(&[&str], &[&str]); 4] =
            [(DEVICE_SIDE, &bench), (RANKS, &all), (microvm, &[]), (&["hamr-device-fw"], &["--no-default-features"])];
        for (packages, features) in runs {
            if packages.is_empty() {
                continue;
            }
            let mut command = toolchain::cargo(compiler, if lints { "clippy" } else { "check" }, target);
            command.args(packages.iter().flat_map(|package| ["--package", package]));
            command.args(features);
            if target == X86_64 {
                command.env("CARGO_ENCODED_RUSTFLAGS", "--cfg=hamr_bare\u{1f}-Cpanic=abort");
                command.env("CARGO_TARGET_DIR", run.metadata.target.join("bare"));
            }
            if lints {
                command.args(["--", "-D", "warnings"]);
            }
            if let Err(error) = child::run(&mut command, BUILD) {
                return Outcome::Failed(error.to_string());
            }
        }
        done.push(target);
    }
    missing.unwrap_or_else(|| Outcome::Passed(done.join(", ")))
}

/// Step `features`: each feature of each package alone, and each package with none. Cargo builds a
/// workspace with the union of the features that its members ask for, which hides a feature that
/// only works beside another.
pub(crate) fn features(run: &Run) -> Outcome {
    let mut count = 0;
    for package in run.metadata.ours().filter(|package| run.scope.builds(&package.name)) {
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

/// Step `doctests`, which nextest does not run.
pub(crate) fn doctests(_: &Run) -> Outcome {
    plain(&["test", "--quiet", "--doc", "--workspace"], SUITE)
}

/// Step `loom`: the model checker's tests, in a target folder of their own because every dependency
/// is compiled with its `cfg`. A process for each test: the checker maps stacks for each execution,
/// which threads of one process delay for each other.
pub(crate) fn loom(run: &Run) -> Outcome {
    let mut command = child::cargo();
    command
        .args(["nextest", "run", "--cargo-profile", "model", "--package", "hamr-tests-model", "--color", "never"])
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "--cfg loom -D warnings")
        .env("CARGO_TARGET_DIR", run.metadata.target.join("loom"));
    Outcome::of(child::run(&mut command, SUITE))
}

/// Step `docs`.
pub(crate) fn docs(_: &Run) -> Outcome {
    let mut command = child::cargo();
    command.args(["doc", "--workspace", "--no-deps"]).env_remove("CARGO_ENCODED_RUSTDOCFLAGS");
    Outcome::of(child::run(command.env("RUSTDOCFLAGS", "-Dwarnings"), BUILD))
}

fn plain(arguments: &[&str], limit: Duration) -> Outcome {
    Outcome::of(child::run(child::cargo().args(arguments), limit))
}
