//! `hamr-mpi`: the commands of `hamr` in a job of MPI. Rank 0 runs the command, with the devices of the others as `mpi:RANK`; each
//! other rank serves a device until that is over.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bench;

use hamr::cli::{self, Cli, Commands, Failure, Tool, note};
use hamr::serve::Keeper;
use hamr::{Error, Options, Runtime};
use hamr_mpi::{Job, MpiLauncher, serve};
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

const NAME: &str = "hamr-mpi";
/// Which device a rank serves.
const SERVE: &str = "--serve";
/// Options that a serving rank takes from the command line, each with a value.
const THEIRS: [&str; 2] = ["--image", "--option"];
/// The command of a serving rank.
const KEEP: &str = "keep-for-other-ranks";

static JOB: OnceLock<Arc<Job>> = OnceLock::new();

fn tool() -> Tool {
    Tool {
        name: NAME,
        about: "Calls functions on devices of other ranks: mpirun -n 2 hamr-mpi call … --device mpi:1. Each rank but 0 serves \
                one, of the kind behind --serve (shm)",
        version: env!("CARGO_PKG_VERSION"),
        image: "hamr-demo",
        runtime,
    }
}

fn runtime() -> Result<Runtime, Error> {
    let mut runtime = Runtime::new()?;
    // A rank that serves waits for no other one's device.
    if let Some(job) = JOB.get().filter(|job| job.rank() == 0) {
        runtime.register("mpi", MpiLauncher::new(job));
    }
    Ok(runtime)
}

/// What rank 0 can run besides.
#[derive(clap::Subcommand)]
enum Own {
    /// Measure empty calls of a device at another rank, beside a ping-pong of MPI with as many bytes; the image is one with the
    /// handlers of `hamr-kernels`' feature `bench`
    Bench,
}

impl Commands for Own {
    fn run(self, cli: &Cli) -> Result<(), Failure> {
        let Self::Bench = self;
        bench::run(cli)
    }
}

/// What a serving rank runs.
#[derive(clap::Subcommand)]
enum Keep {
    /// Keep a device for the other ranks
    #[command(name = KEEP)]
    Keep,
}

impl Commands for Keep {
    fn run(self, cli: &Cli) -> Result<(), Failure> {
        let Self::Keep = self;
        let Some(job) = JOB.get() else { return Ok(()) };
        let (image, rank) = (cli.image().map_err(|e| e.to_string()), job.rank());
        let start = |_: &str, window| {
            let options = cli.global.apply(Options::default());
            // As long as the host's layout needs, and its own front.
            let options = Options { heap: options.heap.max(window), ..options };
            let name = format!("mpi-{rank}-{}", std::process::id());
            Keeper::start(cli.runtime(), &cli.global.device, image.clone()?, &options, &name).map_err(|e| e.to_string())
        };
        serve(job, start, move |what| note(format_args!("{NAME}: rank {rank}: {what}")));
        Ok(())
    }
}

/// The arguments without `--serve SPEC`, and that.
fn split(arguments: impl Iterator<Item = OsString>) -> Result<(Vec<OsString>, Option<OsString>), Failure> {
    let (mut others, mut spec, mut arguments) = (Vec::new(), None, arguments);
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            others.push(argument);
            others.extend(arguments.by_ref());
        } else if let Some(value) = value_of(SERVE, &argument, &mut arguments) {
            let none =
                || Failure::new(format!("{SERVE}: expected a kind of device behind it, such as shm, got nothing"));
            spec = Some(value.filter(|value| !value.is_empty()).ok_or_else(none)?);
        } else {
            others.push(argument);
        }
    }
    Ok((others, spec))
}

/// The value of `--name VALUE` or `--name=VALUE`, if it is that; `None` inside where there is none.
fn value_of(name: &str, argument: &OsStr, more: &mut impl Iterator<Item = OsString>) -> Option<Option<OsString>> {
    use std::os::unix::ffi::OsStrExt;
    if argument == name {
        return Some(more.next());
    }
    let value = argument.as_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
    Some(Some(OsStr::from_bytes(value).into()))
}

/// The command line of a serving rank.
fn theirs(arguments: Vec<OsString>, spec: Option<OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> =
        vec![NAME.into(), KEEP.into(), "--device".into(), spec.unwrap_or_else(|| "shm".into())];
    let mut arguments = arguments.into_iter().skip(1).take_while(|argument| argument != "--");
    while let Some(argument) = arguments.next() {
        for name in THEIRS {
            if let Some(Some(value)) = value_of(name, &argument, &mut arguments) {
                all.extend([name.into(), value]);
            }
        }
    }
    all
}

fn main() -> ExitCode {
    // Before MPI has threads or files.
    let arguments = split(std::env::args_os());
    let membership = match Job::join() {
        Ok(membership) => membership,
        Err(e) => {
            note(format_args!("{NAME}: {e}"));
            return ExitCode::from(2);
        }
    };
    let job = JOB.get_or_init(|| membership.job().clone());
    let code = if job.rank() == 0 {
        match arguments {
            Ok((arguments, _)) => cli::main_with::<Own>(tool(), arguments),
            Err(failure) => failure.report(NAME),
        }
    } else {
        keep(job, arguments);
        ExitCode::SUCCESS
    };
    drop(membership);
    code
}

/// Serves until rank 0 says that the job is over. What this rank cannot do it tells who asks for its device.
fn keep(job: &Arc<Job>, arguments: Result<(Vec<OsString>, Option<OsString>), Failure>) {
    let served = arguments.and_then(|(arguments, spec)| cli::run::<Keep>(tool(), theirs(arguments, spec)));
    if let Err(failure) = served {
        let why = failure.to_string();
        serve(job, |_, _| Err(why.clone()), |_| {});
    }
}
