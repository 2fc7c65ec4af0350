//! The `hamr` binary: the common commands of `hamr::cli`, and those that need the handlers of
//! `hamr-kernels`.
//!
//! It contains little: everything that a user's own tool may need is in the library. No other
//! package depends on this one.

// A stream that is closed or full must not end a program by a panic: `io::{print, note}`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod demo;
mod dot;

use hamr::cli::{Cli, Commands, Failure, Tool};
use std::process::ExitCode;

#[derive(clap::Subcommand)]
enum Command {
    /// Inner product of two vectors in NumPy files, computed on the device
    Dot(dot::Args),
}

impl Commands for Command {
    fn run(self, cli: &Cli) -> Result<(), Failure> {
        let Self::Dot(args) = self;
        dot::run(&args, cli)
    }

    fn welcome(cli: &Cli) -> Result<(), Failure> {
        demo::run(cli)
    }
}

fn main() -> ExitCode {
    hamr::cli::main::<Command>(Tool {
        name: "hamr",
        about: "Calls functions on a device. Without a command: a short demonstration",
        version: env!("CARGO_PKG_VERSION"),
        image: "hamr-demo",
        runtime: hamr::Runtime::new,
    })
}
