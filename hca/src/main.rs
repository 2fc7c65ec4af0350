//! A host channel adapter in software, which a host program starts beside a device; with a command, a program for people.
#![forbid(unsafe_code)]
// A stream that is closed or full must not end a program by a panic: `hamr::io`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use hamr_hca::{command, server, wire::port::Port};
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let is_command = arguments.first().is_some_and(|first| command::is_one(&first.to_string_lossy()));
    let done = if is_command {
        command::of(arguments).and_then(|arguments| command::run(&arguments))
    } else {
        match Port::from_arguments(arguments) {
            Ok(port) => server::run(port),
            // A host says it to whoever has started that.
            Err(why) if server::tell(&why.to_string()) => return ExitCode::FAILURE,
            Err(why) => Err(why),
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            hamr::io::note(format_args!("hamr-hca: {why}"));
            ExitCode::from(2)
        }
    }
}
