//! `cargo xtask rivals`: Himeno's benchmark and NPB's CG on two ranks, beside the same in C with MPI.
//!
//! The programs in C are not part of the project: `--source` names a folder with `himeno.c`, of which
//! `himeno SIZE 2 1 LOOPS` runs, and `cg.c`, of which `cg CLASS` does. Each prints lines of fields between tabs,
//! the rate or time in the fourth behind a second that ends in `all iterations` or `time`; and a line with
//! `gosa=` or `zeta=`. Each is built in several ways, and a round runs all builds and ours, because the
//! machine's speed changes: ours is compared with the best build of its round. No process is bound to a
//! processor, on either side.

use super::rivals::Rivals;
use super::system::Cpus;
use crate::metadata::Metadata;
use crate::{Error, child};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// For one run, or for the builds.
const LIMIT: Duration = Duration::from_secs(900);
const ROUNDS: usize = 5;
/// Iterations that Himeno measures, as our program does.
const LOOPS: &str = "100";
/// How each is compiled, and what `gosa` may differ by: sums in another order, or, of `F32`, in 32 bits.
const FLAGS: &[&str] = &["-O3", "-march=native", "-ffp-contract=off", "-DUSE_MPI"];
const BUILDS: &[(&str, &[&str], f64)] = &[
    ("plain", &[], 1e-9),
    ("simd", &["-DSIMD", "-fopenmp-simd", "-mprefer-vector-width=256"], 1e-9),
    ("f32", &["-DF32"], 0.05),
];
/// What the eigenvalue may differ by.
const ZETA: f64 = 1e-10;

/// One of the two benchmarks.
struct Benchmark {
    name: &'static str,
    size: String,
    /// How many of `BUILDS` it has.
    builds: usize,
    /// Behind the size: of the program in C, and of ours.
    arguments: [&'static [&'static str]; 2],
    /// The end of the second field of the line with its speed, and what is before ours; are these times?
    speed: [&'static str; 2],
    is_time: bool,
    /// What is before the result.
    result: [&'static str; 2],
}

/// A run: its rate, of any unit, and the result.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Run {
    rate: f64,
    result: f64,
}

/// Builds and runs.
pub(crate) fn task(arguments: &[String]) -> Result<(), Error> {
    let Arguments { source, rounds, size, class } = Arguments::of(arguments)?;
    let benchmarks = [
        Benchmark {
            name: "himeno",
            size,
            builds: 3,
            arguments: [&["2", "1", LOOPS], &["2", "1"]],
            speed: ["all iterations", "MFLOPS measured : "],
            is_time: false,
            result: ["gosa=", "Gosa : "],
        },
        Benchmark {
            name: "cg",
            size: class,
            builds: 2,
            // The columns are divided, as NPB does between two.
            arguments: [&[], &["1", "2"]],
            speed: ["time", "time "],
            is_time: true,
            result: ["zeta=", "zeta "],
        },
    ];
    let cpus = Cpus::find().ok_or_else(|| Error::Failed("expected two processors, got one".into()))?;
    let target = hamr_qemu::folders().first().cloned().unwrap_or_else(|| crate::root().join("target/hamr"));
    let rivals = Rivals::prepare(&target, cpus);
    if !rivals.has_mpi() {
        return Err(Error::Failed(rivals.missing.join("; ")));
    }
    child::run(child::cargo().args(["build", "--release", "--package", "hamr-programs-host", "--bins"]), LIMIT)?;
    let ours = Metadata::read()?.target.join("release");
    println!("{:8} {:>5} {:>5}  {:32} {:>8}", "program", "size", "round", "rates of C, then ours", "ratio");
    for benchmark in &benchmarks {
        benchmark.pair(&rivals, &source, &target, &ours, rounds)?;
    }
    Ok(())
}

impl Benchmark {
    /// Prints a line for each round, and the median of the ratios.
    fn pair(&self, rivals: &Rivals, source: &Path, target: &Path, ours: &Path, rounds: usize) -> Result<(), Error> {
        let Self { name, size, .. } = self;
        let builds = &BUILDS[..self.builds];
        let program = |kind: &str| target.join(format!("{name}-mpi-{kind}"));
        for (kind, flags, _) in builds {
            rivals.build(&source.join(format!("{name}.c")), &program(kind), &[FLAGS, flags].concat())?;
        }
        println!(
            "{name} {size}: {}; C: {}, gcc {}, 2 processes of OpenMPI; ours: {name} {size} {}, 2 devices of shm",
            if self.is_time { "runs a second" } else { "MFLOPS" },
            source.join(format!("{name}.c")).display(),
            FLAGS.join(" "),
            self.arguments[1].join(" "),
        );
        for (kind, flags, _) in builds.iter().filter(|(_, flags, _)| !flags.is_empty()) {
            println!("{name} {size}: {kind}: {} besides", flags.join(" "));
        }
        let mut ratios = Vec::new();
        for round in 1..=rounds {
            let mut mine = Command::new(ours.join(name));
            let mine = self.of_ours(&child::capture(mine.arg(size).args(self.arguments[1]), LIMIT)?)?;
            let (mut best, mut rates) = (0.0f64, Vec::new());
            for (kind, _, bound) in builds {
                let mut run = rivals.run_two();
                let output = child::capture(run.arg(program(kind)).arg(size).args(self.arguments[0]), LIMIT)?;
                let theirs = self.of_c(&output)?;
                let bound = if self.is_time { ZETA } else { *bound };
                let error = (mine.result / theirs.result - 1.0).abs();
                if error.is_nan() || error > bound {
                    let (got, expected) = (mine.result, theirs.result);
                    return Err(Error::Failed(format!(
                        "{name} {size}: expected {expected:e} as {kind} C, got {got:e}"
                    )));
                }
                best = best.max(theirs.rate);
                rates.push(format!("{kind} {:.4}", theirs.rate));
            }
            let ratio = mine.rate / best;
            rates.push(format!("ours {:.4}", mine.rate));
            println!("{name:8} {size:>5} {round:>5}  {:32} {ratio:>8.3}", rates.join(", "));
            ratios.push(ratio);
        }
        println!("{name:8} {size:>5} median of {rounds}: ours has {:.3} of the best C's rate", median(&mut ratios));
        Ok(())
    }

    fn of_c(&self, output: &str) -> Result<Run, Error> {
        let speed = output.lines().find_map(|line| {
            let fields: Vec<_> = line.split('\t').collect();
            fields.get(1)?.ends_with(self.speed[0]).then(|| fields.get(3)?.trim().parse().ok())?
        });
        self.run(speed, number(output, self.result[0]), output)
    }

    fn of_ours(&self, output: &str) -> Result<Run, Error> {
        self.run(number(output, self.speed[1]), number(output, self.result[1]), output)
    }

    fn run(&self, speed: Option<f64>, result: Option<f64>, output: &str) -> Result<Run, Error> {
        let rate = speed.map(|speed| match self.is_time {
            false => speed,
            // Runs a second, of milliseconds in C.
            true if output.contains('\t') => 1e3 / speed,
            true => 1.0 / speed,
        });
        match (rate, result) {
            (Some(rate), Some(result)) => Ok(Run { rate, result }),
            _ => Err(Error::Failed(format!("{}: expected a speed and a result, got `{output}`", self.name))),
        }
    }
}

/// The number behind a text.
fn number(output: &str, name: &str) -> Option<f64> {
    let rest = output.lines().find_map(|line| line.split_once(name))?.1;
    rest.split([' ', ',', '\t']).next()?.parse().ok()
}

/// Of an even number the lower one of the two.
fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get((numbers.len().max(1) - 1) / 2).copied().unwrap_or(f64::NAN)
}

#[derive(Debug, PartialEq)]
struct Arguments {
    source: PathBuf,
    rounds: usize,
    size: String,
    class: String,
}

impl Arguments {
    fn of(arguments: &[String]) -> Result<Self, Error> {
        const EXPECTED: &str = "--source DIR, --rounds N, --size SIZE or --class CLASS";
        let mut found = Self { source: PathBuf::new(), rounds: ROUNDS, size: "M".into(), class: "A".into() };
        for pair in arguments.chunks(2) {
            match pair {
                [flag, value] if flag == "--source" => found.source = value.into(),
                [flag, value] if flag == "--size" => found.size = value.clone(),
                [flag, value] if flag == "--class" => found.class = value.clone(),
                [flag, value] if flag == "--rounds" => {
                    let rounds = value.parse().ok().filter(|rounds| *rounds > 0);
                    found.rounds = rounds.ok_or_else(|| Error::unknown(value, "a number of rounds"))?;
                }
                [other, ..] => return Err(Error::unknown(other, EXPECTED)),
                [] => {}
            }
        }
        match ["himeno.c", "cg.c"].iter().find(|file| !found.source.join(file).is_file()) {
            None => Ok(found),
            Some(file) => Err(Error::Usage(format!(
                "expected --source with a folder that has {file}, got `{}`",
                found.source.display()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn benchmark(is_time: bool) -> Benchmark {
        Benchmark {
            name: "b",
            size: "S".into(),
            builds: 1,
            arguments: [&[], &[]],
            speed: if is_time { ["time", "time "] } else { ["all iterations", "MFLOPS measured : "] },
            is_time,
            result: if is_time { ["zeta=", "zeta "] } else { ["gosa=", "Gosa : "] },
        }
    }

    #[test]
    fn speeds_and_results_are_read() {
        let himeno = benchmark(false);
        let c = "x\tjacobi 2x1, all iterations\tM\t1234.50\t-\tMFLOPS\nx\tjacobi, one\tM\t1\t-\tus\n# x gosa=1.5e-3 hash=0\n";
        assert_eq!(himeno.of_c(c).expect("both"), Run { rate: 1234.5, result: 1.5e-3 });
        let ours = "rehearsal: MFLOPS: 1, gosa: 3\nGosa : 1.5e-3\nMFLOPS measured : 99.5\n";
        assert_eq!(himeno.of_ours(ours).expect("both"), Run { rate: 99.5, result: 1.5e-3 });
        let cg = benchmark(true);
        let c = "x\tcg 1x2, time\tA\t500.0\t-\tms\n# cg zeta=17.13 error=0\n";
        assert_eq!(cg.of_c(c).expect("both"), Run { rate: 2.0, result: 17.13 });
        let ours = "zeta 1.713e1, error 0\ntime 0.250 s, 3 Mop/s\n";
        assert_eq!(cg.of_ours(ours).expect("both"), Run { rate: 4.0, result: 17.13 });
        assert!(cg.of_c("nothing").is_err() && cg.of_ours("zeta 1").is_err());
    }

    #[test]
    fn the_folder_has_both_programs() {
        let text = |arguments: &[&str]| {
            let arguments: Vec<_> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
            Arguments::of(&arguments).expect_err("refused").to_string()
        };
        assert!(text(&[]).contains("himeno.c, got ``"), "{}", text(&[]));
        assert!(text(&["--source", "/proc"]).contains("/proc"));
        assert!(text(&["--rounds", "0"]).contains("a number of rounds"));
        assert!(text(&["--what"]).contains("--source DIR"));
        assert_eq!(median(&mut [3.0, 1.0, 2.0, 4.0]), 2.0);
    }
}
