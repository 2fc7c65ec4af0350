//! A host channel adapter in software, which a host program starts beside a device; with a command, a program for people.
#![forbid(unsafe_code)]

use hamr_hca::{command, server, wire::port::Port};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_command = arguments.first().is_some_and(|first| command::is_one(first));
    let done =
        if is_command { command::run(&arguments) } else { Port::from_arguments(arguments).and_then(server::run) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("hamr-hca: {why}");
            ExitCode::from(if is_command { 2 } else { 1 })
        }
    }
}
