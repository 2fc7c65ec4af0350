//! `cargo xtask instructions`: how many instructions an empty call costs each side, counted by callgrind and held
//! below a limit. Times on a shared machine vary by more than what a careless line costs; instructions do not vary.
//!
//! Counts two runs of different length and takes the difference, so that start-up and warm-up cancel.

use crate::metadata::Metadata;
use crate::test::Outcome;
use crate::{Error, child, no_arguments, root};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The program that is measured: a loop over one empty call, in functions that are never inlined.
const SOURCE: &str = "tests/examples/call_empty.rs";
const EXAMPLE: &str = "call_empty";
/// What the host runs per call, and what the device runs.
const HOST: &[&str] = &["host_submit", "host_take"];
const DEVICE: &[&str] = &["device_poll"];
/// Instructions per call and side.
const LIMIT: u64 = 60;
/// Calls in the short and in the long run.
const CALLS: (u64, u64) = (1000, 2000);

/// Measures; prints one line of JSON.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    no_arguments(arguments)?;
    match step() {
        Outcome::Passed(_) => Ok(()),
        Outcome::Skipped(why) => {
            println!("skipped: {why}");
            Ok(())
        }
        Outcome::Failed(why) => Err(Error::Failed(why)),
    }
}

/// The same as a step of `cargo xtask test`.
pub(crate) fn step() -> Outcome {
    if !root().join(SOURCE).is_file() {
        return Outcome::Skipped(format!("{SOURCE} does not exist"));
    }
    if !child::is_installed("valgrind") {
        return Outcome::missing("valgrind", "apt-get install valgrind");
    }
    Outcome::noted(measure())
}

fn measure() -> Result<String, Error> {
    let target = Metadata::read()?.target;
    let mut build = child::cargo();
    build.args(["build", "--quiet", "--release", "--package", "hamr-tests", "--example", EXAMPLE]);
    child::run(&mut build, Duration::from_secs(900))?;
    let program = target.join("release/examples").join(EXAMPLE);
    let folder = target.join("instructions");
    fs::create_dir_all(&folder).map_err(|error| Error::Failed(format!("{}: {error}", folder.display())))?;

    let host = sum(HOST, &program, &folder)?;
    let device = sum(DEVICE, &program, &folder)?;
    let line = format!(r#"{{"name":"instructions_call_empty","host":{host},"device":{device},"limit":{LIMIT}}}"#);
    println!("{line}");
    if host > LIMIT || device > LIMIT {
        return Err(Error::Failed(format!("an empty call costs more than {LIMIT} instructions on a side: {line}")));
    }
    Ok(line)
}

fn sum(functions: &[&str], program: &Path, folder: &Path) -> Result<u64, Error> {
    functions.iter().map(|function| per_call(function, program, folder)).sum()
}

/// Instructions per call in this function and all that it calls.
fn per_call(function: &str, program: &Path, folder: &Path) -> Result<u64, Error> {
    let short = count(function, CALLS.0, program, folder)?;
    let long = count(function, CALLS.1, program, folder)?;
    let per_call = long.saturating_sub(short).div_ceil(CALLS.1 - CALLS.0);
    if per_call == 0 {
        // Zero would pass every limit.
        return Err(Error::Failed(format!("{function}: nothing counted; is it in {SOURCE} and #[inline(never)]?")));
    }
    Ok(per_call)
}

/// Instructions of one run inside the function.
fn count(function: &str, calls: u64, program: &Path, folder: &Path) -> Result<u64, Error> {
    let file = folder.join(format!("{function}.{calls}"));
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--quiet", "--tool=callgrind"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        // Each entry and exit toggles, so a second match inside the first would count its complement: match the end
        // of the demangled name, which leaves the function's closures out.
        .arg(format!("--toggle-collect=*::{function}"))
        .arg(program)
        .arg(calls.to_string())
        .stdout(std::process::Stdio::null());
    child::run(&mut valgrind, Duration::from_secs(300))?;
    let text = fs::read_to_string(&file).map_err(|error| Error::Failed(format!("{}: {error}", file.display())))?;
    total(&text).ok_or_else(|| Error::Failed(format!("{}: callgrind wrote no total", file.display())))
}

/// The `totals:` line of callgrind's output.
fn total(output: &str) -> Option<u64> {
    output.lines().find_map(|line| line.strip_prefix("totals:"))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read() {
        assert_eq!(total("events: Ir\nfn=(1) x\n\ntotals: 21006\n"), Some(21006));
        assert_eq!(total("events: Ir\n"), None);
    }
}
