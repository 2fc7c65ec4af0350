//! `cargo xtask test`: everything that CI checks, in steps that a person can run one by one.
//!
//! A failed step does not stop the others, so one run shows all failures. A step whose tool is
//! missing is skipped by name; in CI it fails. Each step has a time budget. A step that takes
//! longer is marked and does not fail, because machines are shared.

mod cargo;
mod changed;
mod circles;
mod layering;
mod leftovers;
mod licences;
mod matrix;
mod nextest;
mod source;
mod steps;
mod unsafety;

use crate::metadata::Metadata;
use crate::{Error, in_ci};
use changed::Scope;
use leftovers::Before;
use std::time::{Duration, Instant};
use steps::{STEPS, Step};

/// How a step ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// With a note for the table.
    Passed(String),
    /// Why it did not run.
    Skipped(String),
    /// What was wrong, in one line; the details were printed when the step ran.
    Failed(String),
}

impl Outcome {
    /// The outcome of a step that reports only success.
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

    /// The outcome of a step whose tool is not installed.
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

/// Which tests failed by these lines of nextest, and its own summary.
pub(crate) use nextest::summary;

/// The arguments of a step.
pub(crate) struct Run {
    pub(crate) metadata: Metadata,
    pub(crate) scope: Scope,
}

/// The time of all steps together, in seconds.
#[cfg(test)]
const BUDGET: u64 = 30 * 60;

/// Runs all steps, those after `--only`, or those that the changes after `--changed` affect;
/// `--list` prints them.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let whole = |steps: Vec<&'static Step>| -> Result<_, Error> {
        Ok((steps, Run { metadata: Metadata::read()?, scope: Scope::Whole }))
    };
    let (steps, run) = match words[..] {
        [] => whole(STEPS.iter().collect())?,
        ["--list"] => {
            for step in STEPS {
                println!("{:<13} {:>4} s  {}", step.name, step.budget, step.about);
            }
            return Ok(());
        }
        ["--only", names] => whole(select(names)?)?,
        ["--only"] => return Err(Error::Usage(format!("`--only` expects steps of: {}", names(STEPS)))),
        ["--changed"] | ["--changed", _] => {
            let metadata = Metadata::read()?;
            let scope = Scope::since(words.get(1).copied(), &metadata)?;
            (STEPS.iter().collect(), Run { metadata, scope })
        }
        ["--changed" | "--only", _, more, ..] => return Err(Error::unknown(more, "no further argument")),
        [other, ..] => return Err(Error::unknown(other, "--list, --only STEP,STEP or --changed [BASE]")),
    };
    let rows: Vec<Row> = steps.into_iter().map(|step| row(step, &run)).collect();
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
    /// How it ended, or why it was left out.
    outcome: Result<Outcome, String>,
    took: Duration,
    /// Time of processors, which busy machines stretch less.
    worked: Duration,
    budget: Duration,
}

impl Row {
    fn is_over_budget(&self) -> bool {
        self.took > self.budget
    }
}

fn row(step: &Step, run: &Run) -> Row {
    let budget = Duration::from_secs(step.budget);
    if let Some(why) = run.scope.leaves_out(step.looks) {
        return Row { name: step.name, outcome: Err(why), took: Duration::ZERO, worked: Duration::ZERO, budget };
    }
    println!("== {}: {}", step.name, step.about);
    let (started, idle) = (Instant::now(), worked());
    let before = step.is_suite.then(|| Before::look(&run.metadata.target));
    let mut outcome = (step.run)(run);
    let left = before.map_or_else(Vec::new, |before| before.leftovers());
    for line in &left {
        println!("left behind: {line}");
    }
    if let (false, Some(first)) = (matches!(outcome, Outcome::Failed(_)), left.first()) {
        outcome = Outcome::Failed(format!("{} left behind, the first: {first}", left.len()));
    }
    let (took, worked) = (started.elapsed(), worked().saturating_sub(idle));
    println!("== {}: {}, {:.1} s", step.name, outcome.parts().0, took.as_secs_f64());
    Row { name: step.name, outcome: Ok(outcome), took, worked, budget }
}

/// The time that this process and its ended children had processors; zero where the system does not say.
fn worked() -> Duration {
    /// Of Linux, for programs.
    const TICKS_A_SECOND: u64 = 100;
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may have anything in it: `utime`, `stime`, `cutime`, `cstime` are the 14th to the 17th.
    let fields = text.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').skip(11).take(4);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / TICKS_A_SECOND)
}

fn report(rows: &[Row]) -> Result<(), Error> {
    println!();
    println!("{:<13} {:<8} {:>8} {:>8} {:>10}", "step", "result", "seconds", "budget", "processors");
    let line = |name: &str, result: &str, took: Duration, budget: Duration, worked: Duration, note: &str| {
        let (seconds, worked, mark) = (took.as_secs_f64(), worked.as_secs_f64(), if took > budget { '!' } else { ' ' });
        format!("{name:<13} {result:<8} {seconds:>8.1} {:>8}{mark} {worked:>9.1} {note}", budget.as_secs())
            .trim_end()
            .to_owned()
    };
    for row in rows {
        let (result, note) = row.outcome.as_ref().map_or_else(|why| ("left out", why.as_str()), Outcome::parts);
        println!("{}", line(row.name, result, row.took, row.budget, row.worked, note));
    }
    let ran = rows.iter().filter(|row| row.outcome.is_ok());
    let sum = |of: fn(&Row) -> Duration| ran.clone().map(of).sum::<Duration>();
    println!("{}", line("together", "", sum(|row| row.took), sum(|row| row.budget), sum(|row| row.worked), ""));
    let over: Vec<&str> = ran.filter(|row| row.is_over_budget()).map(|row| row.name).collect();
    if !over.is_empty() {
        println!("over budget: {}", over.join(", "));
    }
    let failed: Vec<&str> =
        rows.iter().filter(|row| matches!(row.outcome, Ok(Outcome::Failed(_)))).map(|row| row.name).collect();
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
        let none = Duration::ZERO;
        let row = |name, outcome| Row { name, outcome: Ok(outcome), took: none, worked: none, budget: none };
        let mut rows = vec![row("fmt", Outcome::Passed(String::new())), row("loom", Outcome::Skipped(String::new()))];
        assert!(report(&rows).is_ok());
        rows.push(row("docs", Outcome::Failed(String::new())));
        assert_eq!(report(&rows).expect_err("docs failed").to_string(), "failed: docs");
    }

    #[test]
    fn a_step_over_its_budget_is_marked_and_does_not_fail() {
        let (second, two) = (Duration::from_secs(1), Duration::from_secs(2));
        let passed = || Ok(Outcome::Passed(String::new()));
        let row = |took, budget| Row { name: "fmt", outcome: passed(), took, worked: took, budget };
        assert!(row(two, second).is_over_budget() && !row(second, second).is_over_budget());
        assert!(report(&[row(two, second)]).is_ok());
    }

    #[test]
    fn the_budgets_together_are_kept() {
        let together: u64 = STEPS.iter().map(|step| step.budget).sum();
        assert!(together <= BUDGET, "{together} s, of {BUDGET} s");
    }

    #[test]
    fn the_documentation_lists_the_steps_and_their_budgets() {
        let path = crate::root().join("docs/testing.md");
        let text = std::fs::read_to_string(path).expect("part of the repository");
        let rows =
            text.lines().skip_while(|line| *line != "## The steps").take_while(|line| *line != "## What setup brings");
        let rows: Vec<(String, String)> = rows
            .filter_map(|line| line.strip_prefix("| `"))
            .filter_map(|row| {
                let mut fields = row.split('|').map(str::trim);
                let name = fields.next()?.trim_end_matches('`').to_owned();
                Some((name, fields.next()?.to_owned()))
            })
            .collect();
        let steps: Vec<(String, String)> =
            STEPS.iter().map(|step| (step.name.to_owned(), step.budget.to_string())).collect();
        assert_eq!(rows, steps);
    }

    #[test]
    fn wrong_arguments_are_one_line() {
        for wrong in [&["--changed", "main", "more"][..], &["--changed", "no-such-branch"], &["--only"], &["fmt"]] {
            let arguments: Vec<String> = wrong.iter().map(|&word| word.to_owned()).collect();
            match task(&arguments) {
                Err(Error::Usage(text)) => assert_eq!(text.lines().count(), 1, "{text}"),
                other => panic!("expected a usage error of {wrong:?}, got {other:?}"),
            }
        }
    }
}
