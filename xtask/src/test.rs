//! `cargo xtask test`: everything that CI checks, in steps that a person can run one by one.
//!
//! A failed step does not stop the others: one run tells all that is wrong. A step whose tool is missing is skipped by
//! name, in CI it fails.

mod arrows;
mod cargo;
mod circles;
mod leftovers;
mod licences;
mod nextest;
mod source;
mod unsafety;

use crate::metadata::Metadata;
use crate::{Error, guest, image, in_ci, instructions, setup, size};
use leftovers::Before;
use std::time::{Duration, Instant};

/// How a step ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// With what is worth repeating in the table.
    Passed(String),
    /// Why it did not run.
    Skipped(String),
    /// What was wrong, in one line; the details were printed when the step ran.
    Failed(String),
}

impl Outcome {
    /// The outcome of a step that has nothing to report but success.
    pub(crate) fn of(result: Result<(), Error>) -> Self {
        Self::noted(result.map(|()| String::new()))
    }

    /// The outcome of a step with a note.
    pub(crate) fn noted(result: Result<String, Error>) -> Self {
        match result {
            Ok(note) => Self::Passed(note),
            Err(error) => Self::Failed(error.to_string()),
        }
    }

    /// The outcome of a step that needs what is not installed.
    pub(crate) fn missing(name: &str, install: &str) -> Self {
        let text = format!("{name} (install with: {install})");
        if in_ci() { Self::Failed(format!("missing: {text}")) } else { Self::Skipped(text) }
    }

    fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Passed(note) => ("ok", note),
            Self::Skipped(why) => ("skipped", why),
            Self::Failed(why) => ("FAILED", why),
        }
    }
}

struct Step {
    name: &'static str,
    about: &'static str,
    run: fn(&Metadata) -> Outcome,
    /// Whether it runs code of ours, which may leave something behind.
    is_suite: bool,
}

const fn check(name: &'static str, about: &'static str, run: fn(&Metadata) -> Outcome) -> Step {
    Step { name, about, run, is_suite: false }
}

const fn suite(name: &'static str, about: &'static str, run: fn(&Metadata) -> Outcome) -> Step {
    Step { name, about, run, is_suite: true }
}

/// Cheap steps first: they name the most frequent mistakes.
const STEPS: &[Step] = &[
    check("setup", "targets, components and tools are installed", |_| Outcome::noted(setup::run())),
    check("fmt", "every file is formatted", cargo::fmt),
    check("arrows", "packages use only what ARCHITECTURE.md lets them", |m| Outcome::noted(arrows::check(m))),
    check("circles", "no sibling modules of a product crate import each other in a circle", |m| {
        Outcome::noted(circles::check(m))
    }),
    check("licences", "dependencies are under permissive licences", |m| Outcome::noted(licences::check(m))),
    check("unsafe", "only where docs/unsafe.md says, each with its proof", |_| Outcome::noted(unsafety::check())),
    check("clippy", "no warning in any target of the workspace", cargo::clippy),
    check("no-std", "the device's crates build for bare metal, without a warning", cargo::no_std),
    check("features", "each cargo feature builds alone", cargo::features),
    check("image", "the images that tests load build, hosted and for each machine", |_| image::step()),
    check("size", "code and constants of each bare-metal image stay within their limit", |_| size::step()),
    suite("tests", "unit, integration and conformance tests", |_| nextest::step()),
    suite("guest", "a host on a real bus, in a Linux guest beside each machine", guest::step),
    suite("doctests", "the examples in the documentation", cargo::doctests),
    suite("loom", "the model checker's tests of memory order", cargo::loom),
    check("docs", "the documentation builds without a warning", cargo::docs),
    suite("instructions", "an empty call stays below its instruction limit", |_| instructions::step()),
];

/// Runs all steps or those after `--only`; `--list` prints them.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    let steps = match arguments {
        [] => STEPS.iter().collect(),
        [list] if list == "--list" => {
            for step in STEPS {
                println!("{:<13} {}", step.name, step.about);
            }
            return Ok(());
        }
        [only, names] if only == "--only" => select(names)?,
        [only] if only == "--only" => {
            return Err(Error::Usage(format!("`--only` expects steps of: {}", names(STEPS))));
        }
        [other, ..] => return Err(Error::unknown(other, "--list or --only STEP,STEP")),
    };
    let metadata = Metadata::read()?;
    let rows: Vec<Row> = steps.into_iter().map(|step| run(step, &metadata)).collect();
    report(&rows)
}

/// The named steps, in the order in which they run.
fn select(wanted: &str) -> Result<Vec<&'static Step>, Error> {
    let wanted: Vec<&str> = wanted.split(',').collect();
    match wanted.iter().find(|name| !STEPS.iter().any(|step| step.name == **name)) {
        Some(stranger) => Err(Error::unknown(stranger, &format!("steps of: {}", names(STEPS)))),
        None => Ok(STEPS.iter().filter(|step| wanted.contains(&step.name)).collect()),
    }
}

fn names(steps: &[Step]) -> String {
    steps.iter().map(|step| step.name).collect::<Vec<_>>().join(", ")
}

struct Row {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

fn run(step: &Step, metadata: &Metadata) -> Row {
    println!("== {}: {}", step.name, step.about);
    let started = Instant::now();
    let before = step.is_suite.then(|| Before::look(&metadata.target));
    let mut outcome = (step.run)(metadata);
    let left = before.map_or_else(Vec::new, |before| before.leftovers());
    for line in &left {
        println!("left behind: {line}");
    }
    if let (false, Some(first)) = (matches!(outcome, Outcome::Failed(_)), left.first()) {
        outcome = Outcome::Failed(format!("{} left behind, the first: {first}", left.len()));
    }
    let took = started.elapsed();
    println!("== {}: {}, {:.1} s", step.name, outcome.parts().0, took.as_secs_f64());
    Row { name: step.name, outcome, took }
}

fn report(rows: &[Row]) -> Result<(), Error> {
    println!();
    println!("{:<13} {:<8} {:>8}", "step", "result", "seconds");
    for Row { name, outcome, took } in rows {
        let (result, note) = outcome.parts();
        println!("{}", format!("{name:<13} {result:<8} {:>8.1}  {note}", took.as_secs_f64()).trim_end());
    }
    let failed: Vec<&str> =
        rows.iter().filter(|row| matches!(row.outcome, Outcome::Failed(_))).map(|row| row.name).collect();
    if failed.is_empty() { Ok(()) } else { Err(Error::Failed(format!("failed: {}", failed.join(", ")))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_selected_in_their_own_order() {
        let chosen: Vec<&str> = select("clippy,fmt").expect("both exist").into_iter().map(|step| step.name).collect();
        assert_eq!(chosen, ["fmt", "clippy"]);
    }

    #[test]
    fn an_unknown_step_is_a_usage_error() {
        for wrong in ["", "fmt,", "fmt,none"] {
            assert!(matches!(select(wrong), Err(Error::Usage(_))), "{wrong:?}");
        }
    }

    #[test]
    fn a_failed_row_fails_the_run_by_name() {
        let row = |name, outcome| Row { name, outcome, took: Duration::ZERO };
        let mut rows = vec![row("fmt", Outcome::Passed(String::new())), row("loom", Outcome::Skipped(String::new()))];
        assert!(report(&rows).is_ok());
        rows.push(row("docs", Outcome::Failed(String::new())));
        assert_eq!(report(&rows).expect_err("docs failed").to_string(), "failed: docs");
    }
}
