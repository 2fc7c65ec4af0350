//! Step `tests`: runs nextest and reports in one line where it failed: in which module of which
//! binary, so that the name of a machine's module shows which machine fails.

use super::changed::Scope;
use super::{Outcome, matrix};
use crate::machines::can_run;
use crate::{child, image, in_ci};
use hamr_qemu::Machine;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::time::Duration;

/// The time for all tests with their build, on a busy machine.
const LIMIT: Duration = Duration::from_secs(3600);

/// Binaries whose tests start QEMU.
const WITH_QEMU: &str = "/qemu/";

/// Runs the tests of the scope's packages. Everything is built, because a package's features depend
/// on the other packages.
pub(crate) fn step(scope: &Scope) -> Outcome {
    if !child::is_installed("cargo-nextest") {
        return Outcome::missing("cargo-nextest", "cargo install cargo-nextest --locked");
    }
    let mut command = child::cargo();
    command.args(["nextest", "run", "--workspace", "--color", "never"]).env("HAMR_TEST_IMAGES", image::for_tests());
    // One more than there are processors, because many a test waits.
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get) + 1;
    command.args(["--test-threads", &threads.to_string()]);
    // All or none, because only the test itself knows which machine it starts. In CI all run, and
    // report what is missing.
    let missing = Machine::ALL.iter().find_map(|machine| can_run(machine).err());
    if let Some(filter) = filter(missing.is_some() && !in_ci(), scope) {
        command.args(["-E", &filter, "--no-tests", "pass"]);
    }
    let (result, lines) = child::run_keeping(&mut command, LIMIT, |line| {
        is_summary(line) || failed_in(line).is_some() || matrix::is_case(line) || panicked_at(line).is_some()
    });
    if let Some(table) = matrix::table(&lines) {
        println!("{table}");
    }
    let (failed, summary) = summary(&lines);
    match result {
        Ok(()) => missing.unwrap_or_else(|| Outcome::Passed(summary.unwrap_or_default())),
        Err(error) => Outcome::Failed(failed.or(summary).unwrap_or_else(|| error.to_string())),
    }
}

/// Which tests failed, in one line, and the runner's own summary.
pub(crate) fn summary(lines: &[String]) -> (Option<String>, Option<String>) {
    (blame(lines), lines.iter().rfind(|line| is_summary(line)).map(|line| line.trim().to_owned()))
}

/// Which tests run, in nextest's language; `None` for all.
fn filter(without_qemu: bool, scope: &Scope) -> Option<String> {
    let packages = scope.tested().map(|packages| {
        let packages: Vec<String> = packages.iter().map(|name| format!("package(={name})")).collect();
        format!("({})", packages.join(" | "))
    });
    let without = without_qemu.then(|| format!("not binary({WITH_QEMU})"));
    let parts: Vec<String> = without.into_iter().chain(packages).collect();
    (!parts.is_empty()).then(|| parts.join(" & "))
}

/// How many tests failed, and which: a few by name, with the place of the last panic in their output, and of more
/// the number in each module of a binary; `None` when no test did.
fn blame(lines: &[String]) -> Option<String> {
    // The runner repeats all failures after its summary. Lines before the summary may be a test's
    // own output; they count only when the runner was ended before its summary.
    let start = lines.iter().rposition(|line| is_summary(line)).map_or(0, |at| at + 1);
    let failed: Vec<&String> = lines.iter().skip(start).filter(|line| failed_in(line).is_some()).collect();
    let mut modules = BTreeMap::<String, usize>::new();
    for module in failed.iter().filter_map(|line| failed_in(line)) {
        *modules.entry(module).or_default() += 1;
    }
    let names = if failed.len() <= NAMED {
        failed.iter().filter_map(|line| named(line, lines)).collect::<Vec<_>>()
    } else {
        modules.iter().map(|(module, count)| format!("{module} ({count})")).collect()
    };
    (!failed.is_empty()).then(|| format!("{} failed: {}", failed.len(), names.join(", ")))
}

/// More failures are counted only.
const NAMED: usize = 4;

/// A failed test, and where its output says that it panicked last.
fn named(failure: &str, lines: &[String]) -> Option<String> {
    let (_, binary, test) = told(failure)?;
    let output = lines.iter().position(|line| told(line).is_some_and(|(_, b, t)| (b, t) == (binary, test)));
    let place = lines.iter().skip(output? + 1).map_while(|line| panicked_at(line)).last();
    let binary = binary.rsplit_once("::").map_or(binary, |(_, binary)| binary);
    Some(place.map_or_else(|| format!("{binary}::{test}"), |place| format!("{binary}::{test} at {place}")))
}

/// The place, from the line of a panic.
fn panicked_at(line: &str) -> Option<&str> {
    let thread = line.trim_start().strip_prefix("thread '")?;
    Some(thread.split_once(" panicked at ")?.1.trim_end_matches(':'))
}

pub(super) fn is_summary(line: &str) -> bool {
    line.trim_start().starts_with("Summary [")
}

/// How a test ended, its binary and the test, from a line about one.
pub(super) fn told(line: &str) -> Option<(&str, &str, &str)> {
    let (status, rest) = line.trim_start().split_once(" [")?;
    let (_, rest) = rest.split_once("] ")?;
    let rest = match rest.strip_prefix('(') {
        Some(counted) => counted.split_once(") ")?.1,
        None => rest,
    };
    let (binary, test) = rest.split_once(' ')?;
    Some((status, binary, test))
}

/// The binary, without its package, and of an integration test the module in it, from a line that reports a
/// failed test: `FAIL [   0.1s] (2/8) hamr-tests::qemu aarch64::values::inline`.
fn failed_in(line: &str) -> Option<String> {
    let (status, binary, test) = told(line)?;
    if !(status.contains("FAIL") || status == "TIMEOUT" || status == "ABORT" || status.starts_with("SIG")) {
        return None;
    }
    let Some((_, binary)) = binary.rsplit_once("::") else { return Some(binary.to_owned()) };
    let module = test.split_once("::").filter(|_| !binary.contains('/'));
    Some(module.map_or_else(|| binary.to_owned(), |(module, _)| format!("{binary}::{module}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of nextest 0.9.143, and of older ones without the counter.
    const RUN: &str = "
        PASS [   0.004s] (1/9) hamr-comm ok
        FAIL [   0.004s] (2/9) hamr-tests::qemu aarch64::exits
      FAIL [ 0.1s] hamr-tests::fake written by the test
   LEAK-FAIL [   0.511s] ( 3/9) hamr-tests::qemu aarch64::leaky
        SLOW [>  1.000s] (───) hamr-tests::shm slow
 TERMINATING [>  2.000s] (───) hamr-tests::shm slow
     Summary [   2.525s] 9 tests run: 3 passed, 5 failed (1 due to being leaky), 1 timed out, 0 skipped
        FAIL [   0.004s] (2/9) hamr-tests::qemu aarch64::exits
   LEAK-FAIL [   0.511s] ( 3/9) hamr-tests::qemu aarch64::leaky
 FAIL + LEAK [   0.578s] (5/9) hamr-cli::bin/hamr leaky_bad
     SIGABRT [   0.005s] (6/9) hamr-tests::qemu aarch64::values::aborts
        FAIL [   0.083s] hamr-comm values::inline
     TIMEOUT [   2.004s] (8/9) hamr-tests::shm slow
error: test run failed";

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_binaries_of_failed_tests_are_counted() {
        let note = blame(&lines(RUN));
        assert_eq!(note.as_deref(), Some("6 failed: bin/hamr (1), hamr-comm (1), qemu::aarch64 (3), shm (1)"));
    }

    #[test]
    fn a_run_without_a_summary_is_read_from_its_start() {
        let (before, _) = RUN.split_once("     Summary").expect("it has one");
        let note = "3 failed: qemu::aarch64::exits, fake::written by the test, qemu::aarch64::leaky";
        assert_eq!(blame(&lines(before)).as_deref(), Some(note));
    }

    #[test]
    fn a_few_failed_tests_are_named_with_the_place_of_their_last_panic() {
        let run = "
        FAIL [   0.004s] (2/9) hamr-tests::shm driven::tasks::ends
    thread 'hamr-service' (7) panicked at tests/src/a.rs:1:5:
    thread 'main' panicked at tests/src/b.rs:20:9:
        FAIL [   0.004s] (3/9) hamr-tests::shm plain
     Summary [   2.525s] 9 tests run: 7 passed, 2 failed, 0 skipped
        FAIL [   0.004s] (2/9) hamr-tests::shm driven::tasks::ends
        FAIL [   0.004s] (3/9) hamr-tests::shm plain";
        let note = "2 failed: shm::driven::tasks::ends at tests/src/b.rs:20:9, shm::plain";
        assert_eq!(blame(&lines(run)).as_deref(), Some(note));
    }

    #[test]
    fn a_failure_outside_of_tests_blames_no_test() {
        assert_eq!(blame(&lines("error: could not compile\n PASS [ 1s] (1/1) a b\n Summary [ 1s] 1 test run")), None);
        for line in
            ["FAIL", "FAIL [", "FAIL [ 1s] ", "FAIL [ 1s] (1/", "FAIL [ 1s] binary", " SLOW [> 1s] (-) a b", "["]
        {
            assert_eq!(failed_in(line), None, "{line}");
        }
    }
}
