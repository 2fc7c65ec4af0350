//! The steps of `cargo xtask test`: what each checks, what it reads, and how long it may take.

use super::changed::Looks;
use super::{Outcome, Run, cargo, circles, layering, licences, nextest, unsafety};
use crate::{guest, image, instructions, mpi, performance, setup, size};

/// One step.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Limit in seconds on two idle cores, from an empty target folder with packages downloaded.
    pub(super) budget: u64,
    pub(super) looks: Looks,
    pub(super) run: fn(&Run) -> Outcome,
    /// Whether it runs code of this repository, which may leave something behind.
    pub(super) is_suite: bool,
}

const fn check(name: &'static str, about: &'static str, budget: u64, looks: Looks, run: fn(&Run) -> Outcome) -> Step {
    Step { name, about, budget, looks, run, is_suite: false }
}

const fn suite(name: &'static str, about: &'static str, budget: u64, looks: Looks, run: fn(&Run) -> Outcome) -> Step {
    Step { is_suite: true, ..check(name, about, budget, looks, run) }
}

const MANIFESTS: Looks = Looks::Files(&["Cargo.toml"]);
const SOURCES: Looks = Looks::Files(&[".rs", ".s", "docs/unsafe.md"]);
const IMAGES: Looks = Looks::Of(&[
    "hamr-bench-image",
    "hamr-device-fw-demo",
    "hamr-tests-image",
    "hamr-tests-micro",
    "hamr-tests-microvm",
    "hamr",
]);
const BUS: Looks = Looks::Of(&["hamr-tests", "hamr-cli", "hamr-tests-image"]);
/// The packages that such tools are to talk with.
const RDMA: Looks = Looks::Of(&["hamr-hca", "hamr-verbs"]);

/// Fast steps first: they find the most frequent mistakes. `docs/testing.md` lists them with their
/// budgets.
pub(super) const STEPS: &[Step] = &[
    check("setup", "targets, components and tools are installed", 15, Looks::Packages(&[]), |_| {
        Outcome::noted(setup::run())
    }),
    check("fmt", "every file is formatted", 5, Looks::Everywhere, cargo::fmt),
    check("layering", "packages use only what the layers let them", 2, MANIFESTS, |r| {
        Outcome::noted(layering::check(&r.metadata))
    }),
    check("circles", "no sibling modules of a product crate import each other in a circle", 3, SOURCES, |r| {
        Outcome::noted(circles::check(&r.metadata))
    }),
    check("licences", "dependencies are under permissive licences", 3, MANIFESTS, |r| {
        Outcome::noted(licences::check(&r.metadata))
    }),
    check("unsafe", "only in the files of docs/unsafe.md, each with its proof", 5, SOURCES, |_| {
        Outcome::noted(unsafety::check())
    }),
    check("clippy", "no warning in any target of the workspace", 50, Looks::Packages(&[]), cargo::clippy),
    check(
        "no-std",
        "the device's crates build for bare metal, without a warning",
        40,
        Looks::Of(&["hamr-device-fw", "hamr-kernels"]),
        cargo::no_std,
    ),
    check("features", "each cargo feature builds alone", 60, Looks::Packages(&[]), cargo::features),
    check("image", "the images that tests load build, hosted and for each machine", 250, IMAGES, |_| image::step()),
    check("size", "code and constants of each bare-metal image stay within their limit", 5, IMAGES, |_| size::step()),
    suite("tests", "unit, integration and conformance tests", 740, Looks::Packages(&[]), |r| nextest::step(&r.scope)),
    suite("guest", "a host on a real bus, in a Linux guest beside each machine", 190, BUS, |r| {
        guest::step(&r.metadata)
    }),
    suite("rdma", "stock RDMA tools run in a Linux guest", 60, RDMA, |r| guest::rdma::step(&r.metadata)),
    suite("mpi", "devices over MPI, in jobs of mpirun", 220, Looks::Of(&["hamr", "hamr-tests"]), |_| mpi::step()),
    suite("doctests", "the examples in the documentation", 10, Looks::Packages(&[]), cargo::doctests),
    check("papers", "docs/papers.md says what the protocols take", 5, Looks::Of(&["hamr-tests", "hamr"]), |_| {
        Outcome::of(performance::paper::check())
    }),
    suite("loom", "the model checker's tests of memory order", 90, Looks::Of(&["hamr-tests-model"]), cargo::loom),
    check("docs", "the documentation builds without a warning", 20, Looks::Packages(&[".md"]), cargo::docs),
    suite(
        "instructions",
        "an empty call stays below its instruction limit",
        5,
        Looks::Of(&["hamr-bench", "hamr-device-fw"]),
        |_| instructions::step(),
    ),
];
