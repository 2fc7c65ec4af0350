//! `cargo xtask TASK`: everything this repository automates, one file per task. CI calls nothing
//! else, so that what fails there fails here.
//!
//! May use: `hamr-linker`, `hamr-qemu`, the libraries that its manifest names, and programs of the
//! toolchain as children.
//!
//! Exit codes: 0 done, 1 the task failed, 2 the command line was not understood.

#[macro_use]
mod output;

mod bless;
mod child;
mod fuzz;
mod gasnet;
mod guest;
mod image;
mod instructions;
mod kernels;
mod machines;
mod metadata;
mod mpi;
mod new;
mod parallel;
mod passed;
mod performance;
mod process;
mod programs;
mod setup;
mod size;
mod sloc;
mod soak;
mod test;
mod toolchain;

use passed::Program;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Why a task did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Error {
    /// The command line was not understood; the text names what was expected.
    Usage(String),
    /// The task ran and failed.
    Failed(String),
    /// As [`Self::Usage`], and a program has printed the text.
    Said,
}

impl Error {
    /// The usage error for `argument`, where `expected` was wanted.
    pub(crate) fn unknown(argument: &str, expected: &str) -> Self {
        Self::Usage(format!("`{argument}` is not known here, expected {expected}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Failed(text) => f.write_str(text),
            Self::Said => f.write_str("a program has refused its arguments"),
        }
    }
}

impl From<hamr_qemu::Error> for Error {
    fn from(error: hamr_qemu::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// One line of the list that `cargo xtask` prints.
struct Task {
    name: &'static str,
    about: &'static str,
    run: Run,
}

enum Run {
    /// A function here.
    Task(fn(&[String]) -> Result<(), Error>),
    /// A program of the workspace, which reads its arguments itself.
    Program(Program),
}

const TASKS: &[Task] = &[
    Task {
        name: "setup",
        about: "install what the tests need, or name the command that does",
        run: Run::Task(setup::task),
    },
    Task {
        name: "test",
        about: "everything CI checks; --list names the steps, --only a,b and --changed [BASE] run some",
        run: Run::Task(test::task),
    },
    Task {
        name: "image",
        about: "build a device image and print its path: [NAME] [--device DEVICE]",
        run: Run::Task(image::task),
    },
    Task {
        name: "size",
        about: "compare the size of the bare-metal images with their limit: [--json]",
        run: Run::Task(size::task),
    },
    Task {
        name: "bench",
        about: "measure calls and transfers, each beside what the machine allows: [ARGS...]",
        run: Run::Program(Program { package: "hamr-bench", binary: "hamr-bench", arguments: &["rows"] }),
    },
    Task {
        name: "performance",
        about: "measure beside other systems, write docs/performance.md: [--launches N | --redraw | --others]",
        run: Run::Task(performance::task),
    },
    Task {
        name: "paper-figures",
        about: "model the figures of the papers on HAM, write docs/papers.md: [--check | --measure]",
        run: Run::Task(performance::paper::task),
    },
    Task {
        name: "rivals",
        about: "Himeno and CG beside programs in C with MPI, in the same rounds: --source DIR [--rounds N] [--size XS..XL] \
                [--class S..E]",
        run: Run::Task(performance::pairs::task),
    },
    Task {
        name: "instructions",
        about: "count the instructions of an empty call, compare them with their limit",
        run: Run::Task(instructions::task),
    },
    Task {
        name: "kernels",
        about: "count the instructions of loops over arrays, compare them with those of C",
        run: Run::Task(kernels::task),
    },
    Task {
        name: "credits",
        about: "simulate flow control in large worlds: [--ranks N] [--messages N] [--seed N]",
        run: Run::Program(Program { package: "hamr-gas-sim", binary: "hamr-gas-sim", arguments: &[] }),
    },
    Task {
        name: "put-out",
        about: "measure puts to memory of another process, by pinning",
        run: Run::Program(Program { package: "hamr-gas-process", binary: "hamr-put-out", arguments: &[] }),
    },
    Task {
        name: "programs",
        about: "run Himeno and CG in their larger sizes, compare them with what they should be: [--large]",
        run: Run::Task(programs::task),
    },
    Task {
        name: "sloc",
        about: "count the lines of the programs, beside those of the XcalableACC paper and of serial C",
        run: Run::Task(sloc::task),
    },
    Task {
        name: "soak",
        about: "repeat nested calls, kills of ranks and launchers, and active messages: [calls [N] | kills [N] | messages [N]]",
        run: Run::Task(soak::task),
    },
    Task {
        name: "fuzz",
        about: "bytes that others write, as long as no input does harm: [TARGET] [--seconds N]; a minute each",
        run: Run::Task(fuzz::task),
    },
    Task {
        name: "guest",
        about: "a host on a real bus: Linux in one QEMU, an image in another: [--isa NAME]; stock RDMA tools: \
                --rdma [--only NAME,NAME] [--own [--device DEVICE] [--loss] | --peer COMMAND] [--role client|server] \
                [--beside]",
        run: Run::Task(guest::task),
    },
    Task {
        name: "gasnet",
        about: "programs in C on GASNet's interface: [--source DIR] [--mode seq|par] [--ranks 1,2] [--shared] [--dev] [--jobs N] \
                [--prefix DIR] [NAME[:ARG,ARG]...]",
        run: Run::Task(gasnet::task),
    },
    Task {
        name: "mpi",
        about: "devices over MPI: build the workspace mpi/, check it, run its tests in jobs of mpirun",
        run: Run::Task(mpi::task),
    },
    Task {
        name: "new",
        about: "make a project that uses this checkout: NAME [DIR] [--kind handlers|program]",
        run: Run::Task(new::task),
    },
    Task { name: "bless", about: "rewrite the golden files from what the code does now", run: Run::Task(bless::task) },
];

fn main() -> ExitCode {
    match run(std::env::args_os().skip(1).collect()) {
        Ok(()) if output::is_lost() => {
            eprintln!("xtask: standard output took not all that was printed");
            ExitCode::FAILURE
        }
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if !matches!(error, Error::Said) {
                eprintln!("xtask: {error}");
            }
            ExitCode::from(if matches!(error, Error::Failed(_)) { 1 } else { 2 })
        }
    }
}

fn run(arguments: Vec<OsString>) -> Result<(), Error> {
    let text = |argument: OsString| {
        let odd = |odd: OsString| odd.as_encoded_bytes().escape_ascii().to_string();
        argument
            .into_string()
            .map_err(|argument| Error::Usage(format!("expected text in UTF-8, got `{}`", odd(argument))))
    };
    let arguments = arguments.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
    let is_help = |argument: &str| matches!(argument, "--help" | "-h");
    let Some((name, rest)) = arguments.split_first().filter(|(name, _)| *name != "help" && !is_help(name)) else {
        print_tasks();
        return Ok(());
    };
    let task = TASKS.iter().find(|task| task.name == name);
    let Task { about, run, .. } = task.ok_or_else(|| Error::unknown(name, &format!("a task: {}", task_names())))?;
    match run {
        Run::Program(program) => program.run(rest),
        Run::Task(_) if rest.iter().any(|argument| is_help(argument)) => {
            println!("cargo xtask {name}: {about}");
            Ok(())
        }
        Run::Task(run) => run(rest),
    }
}

/// Whether this run is CI's, where a check that cannot run is a failure and not a skip.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("HAMR_CI").is_some_and(|value| value == "1")
}

/// The folder of the workspace. Asked at run time: a target folder may serve several checkouts.
pub(crate) fn root() -> PathBuf {
    let mut manifest =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.pop();
    manifest
}

/// Refuses arguments, for tasks that take none.
pub(crate) fn no_arguments(arguments: &[String]) -> Result<(), Error> {
    match arguments.first() {
        None => Ok(()),
        Some(argument) => Err(Error::unknown(argument, "no argument")),
    }
}

fn print_tasks() {
    println!("cargo xtask TASK, where TASK is one of:");
    for task in TASKS {
        println!("  {:<13} {}", task.name, task.about);
    }
}

fn task_names() -> String {
    TASKS.iter().map(|task| task.name).collect::<Vec<_>>().join(", ")
}
