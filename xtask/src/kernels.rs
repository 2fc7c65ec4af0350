//! `cargo xtask kernels`: loops of `each!` beside the same loops in C. Instructions are counted
//! by callgrind and have a limit; times are printed. Both are built for x86-64-v3: valgrind knows no
//! wider registers.

use crate::metadata::Metadata;
use crate::{Error, child, no_arguments};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A loop and its extents: rows of Himeno's size M; vectors that are in the cache; a stencil over bytes.
const LOOPS: [(&str, &[&str]); 4] =
    [("jacobi", &["32", "32", "256"]), ("axpy", &["8192"]), ("dot", &["8192"]), ("bytes", &["130", "1026"])];

/// Instructions of `each!` for one in C, at most.
const LIMIT: f64 = 1.15;

const MINUTES: Duration = Duration::from_secs(900);

/// Builds, counts, times; prints a line for each loop.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    no_arguments(arguments)?;
    for program in ["gcc", "valgrind"] {
        if !child::is_installed(program) {
            return Err(Error::Failed(format!("`apt-get install {program}` brings what this task needs")));
        }
    }
    let folder = Metadata::read()?.target.join("kernels");
    let mut build = child::cargo();
    build.args(["build", "--quiet", "--release", "--package", "hamr-xacc", "--example", "kernels", "--target-dir"]);
    build.arg(&folder).env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-cpu=x86-64-v3");
    child::run(&mut build, MINUTES)?;
    let (ours, theirs) = (folder.join("release/examples/kernels"), folder.join("kernels-c"));
    let mut gcc = Command::new("gcc");
    gcc.args(["-O3", "-march=x86-64-v3", "-ffp-contract=off", "-fopenmp-simd", "xacc/examples/kernels.c", "-o"]);
    child::run(gcc.arg(&theirs), MINUTES)?;
    let mut too_many = Vec::new();
    for (name, extents) in LOOPS {
        let count = |program| {
            Ok::<_, Error>((run(program, name, 3, extents, true)? - run(program, name, 1, extents, true)?) / 2.0)
        };
        let (ours_n, theirs_n) = (count(&ours)?, count(&theirs)?);
        let time = |program| {
            (0..7)
                .map(|_| run(program, name, 400, extents, false))
                .try_fold(f64::INFINITY, |best, time| Ok::<_, Error>(time?.min(best)))
        };
        let speed = time(&theirs)? / time(&ours)?;
        let ratio = ours_n / theirs_n;
        println!(
            "{name}: {ours_n} instructions, in C {theirs_n}: {ratio:.2}, at most {LIMIT}; {speed:.2} times as fast"
        );
        // Zero would be counted if nothing ran.
        if !(ratio > 0.0 && ratio <= LIMIT) {
            too_many.push(name);
        }
    }
    if too_many.is_empty() {
        Ok(())
    } else {
        Err(Error::Failed(format!("too many instructions: {}", too_many.join(", "))))
    }
}

/// The instructions of a run, or its seconds.
fn run(program: &Path, name: &str, repetitions: u32, extents: &[&str], count: bool) -> Result<f64, Error> {
    let mut command = Command::new(if count { Path::new("valgrind") } else { program });
    if count {
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--log-fd=1"]).arg(program);
    }
    command.args([name, &repetitions.to_string()]).args(extents);
    let output = child::capture(&mut command, MINUTES)?;
    let number = match count {
        true => output.lines().find_map(|line| line.split("Collected :").nth(1)),
        false => output.split_whitespace().next(),
    };
    let number = number.and_then(|number| number.trim().parse().ok());
    number.ok_or_else(|| Error::Failed(format!("expected a number of {name}, got `{output}`")))
}
