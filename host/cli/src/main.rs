//! The `hamr` binary: the common commands of `hamr::cli`, and those that need the handlers of
//! `hamr-kernels`.
//!
//! It contains little: everything that a user's own tool may need is in the library. No other
//! package depends on this one.

// A stream that is closed or full must not end a program by a panic: `io::{print, note}`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod demo;
mod dot;

use hamr::Image;
use hamr::cli::{Cli, Commands, Failure, Tool};
use std::process::ExitCode;

#[derive(clap::Subcommand)]
enum Command {
    /// Inner product of two vectors in NumPy files, computed on the device
    Dot(dot::Args),
    /// Measure calls and transfers, each beside what the machine allows
    #[command(long_about = bench::ABOUT)]
    Bench(bench::Args),
}

impl Commands for Command {
    fn run(self, cli: &Cli) -> Result<(), Failure> {
        match self {
            Self::Dot(args) => dot::run(&args, cli),
            Self::Bench(args) => {
                let Cli { global, .. } = cli;
                let image = if global.image.is_some() { cli.image()? } else { Image::find("hamr-bench")? };
                bench::run(&args, cli.runtime(), &image, global).map_err(|e| {
                    // Handled apart, because a reader that closed its end is no failure.
                    match e.downcast::<std::io::Error>() {
                        Ok(io) => Failure::from(*io),
                        Err(other) => Failure::new(other.to_string()),
                    }
                })
            }
        }
    }

    fn welcome(cli: &Cli) -> Result<(), Failure> {
        demo::run(cli)
    }
}

fn main() -> ExitCode {
    // `hamr bench` runs this program under callgrind; in that run only the counted calls may run.
    match bench::counted_run() {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(_) => return ExitCode::from(2),
    }
    hamr::cli::main::<Command>(Tool {
        name: "hamr",
        about: "Calls functions on a device. Without a command: a short demonstration",
        version: env!("CARGO_PKG_VERSION"),
        image: "hamr-demo",
        // Of `hamr bench`, which has an image of its own for them.
        optional: &["hamr_verbs"],
        runtime: hamr::Runtime::new,
    })
}
