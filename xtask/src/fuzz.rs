//! `cargo xtask fuzz`: builds the targets of `fuzz/` with coverage and runs them. What they do with any bytes, ordinary tests do with
//! the kept inputs and random ones (`hamr_tests::cases`).
//!
//! As `cargo fuzz` does, but without a nightly compiler: coverage is a pass of LLVM, and no sanitizer runs.

use crate::metadata::Metadata;
use crate::{Error, child};
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

/// Compiled, and linked with libFuzzer, on a busy machine.
const BUILD: Duration = Duration::from_secs(40 * 60);
/// One input at most.
const INPUT: u32 = 10;
/// MiB of memory at most.
const MEMORY: u32 = 2048;
/// Seconds of a target without `--seconds`.
const SECONDS: u64 = 60;
/// What `cargo fuzz` passes, but for sanitizers.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing";

/// Fuzzes a target, or each: `[TARGET] [--seconds N]`.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    let (mut only, mut seconds, mut rest) = (None, SECONDS, arguments);
    while let [word, behind @ ..] = rest {
        rest = behind;
        if word == "--seconds" {
            let [number, behind @ ..] = rest else { return Err(Error::Usage("--seconds: a number is missing".into())) };
            seconds = number.parse().map_err(|_| Error::unknown(number, "a number of seconds"))?;
            rest = behind;
        } else {
            only = Some(word.as_str());
        }
    }
    let names = targets()?;
    if let Some(only) = only.filter(|only| !names.iter().any(|name| name == only)) {
        return Err(Error::unknown(only, &names.join(", ")));
    }
    for line in run(&names, only, seconds)? {
        println!("{line}");
    }
    Ok(())
}

/// The targets' names, from the files.
pub(crate) fn targets() -> Result<Vec<String>, Error> {
    let folder = crate::root().join("fuzz/fuzz_targets");
    let files = fs::read_dir(&folder).map_err(|e| Error::Failed(format!("{}: {e}", folder.display())))?;
    let stem = |file: fs::DirEntry| file.path().file_stem().map(|name| name.to_string_lossy().into_owned());
    let mut names: Vec<String> = files.flatten().filter_map(stem).collect();
    names.sort();
    Ok(names)
}

/// A line for each target that ran.
pub(crate) fn run(names: &[String], only: Option<&str>, seconds: u64) -> Result<Vec<String>, Error> {
    let folder = Metadata::read()?.target.join("fuzz");
    // Named, so that build scripts and macros are built without coverage.
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut build = child::cargo();
    build.args(["build", "--release", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--target", &host]);
    if let Some(only) = only {
        build.args(["--bin", only]);
    }
    child::run(build.arg("--target-dir").arg(&folder).env("RUSTFLAGS", FLAGS), BUILD)?;
    let chosen = names.iter().filter(|name| only.is_none_or(|only| only == *name));
    chosen.map(|name| fuzz(name, &folder.join(&host).join("release"), &folder, seconds)).collect()
}

fn fuzz(name: &str, programs: &Path, folder: &Path, seconds: u64) -> Result<String, Error> {
    let (kept, fresh, found) =
        (crate::root().join("fuzz/corpus").join(name), folder.join("corpus").join(name), folder.join("found"));
    let failed = |e: std::io::Error| Error::Failed(format!("{}: {e}", found.display()));
    fs::create_dir_all(&fresh).map_err(failed)?;
    fs::create_dir_all(&found).map_err(failed)?;
    let log = found.join(format!("{name}.log"));
    let mut command = std::process::Command::new(programs.join(name));
    command.args([&fresh, &kept]).stderr(File::create(&log).map_err(failed)?).env("RUST_BACKTRACE", "1");
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-timeout={INPUT}"));
    command.arg(format!("-rss_limit_mb={MEMORY}")).arg(format!("-artifact_prefix={}/{name}-", found.display()));
    let ended = child::run(command.arg("-print_final_stats=1"), Duration::from_secs(seconds + 120));
    let text = fs::read_to_string(&log).map_err(failed)?;
    if let Err(error) = ended {
        let last: Vec<&str> = text.lines().rev().take(40).collect();
        eprintln!("{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"));
        return Err(Error::Failed(format!(
            "{name}: {error}; the input is {}/{name}-…, the log {}",
            found.display(),
            log.display()
        )));
    }
    let number =
        |mark: &str| text.rsplit_once(mark).and_then(|(_, behind)| behind.split_whitespace().next()).unwrap_or("?");
    Ok(format!("{name}: {} executions, {} edges", number("stat::number_of_executed_units:"), number("cov:")))
}
