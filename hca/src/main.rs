//! A host channel adapter in software, which a host program starts beside a device.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let port = hamr_hca::wire::port::Port::from_arguments(std::env::args().skip(1));
    match port.and_then(hamr_hca::server::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("hamr-hca: {why}");
            ExitCode::FAILURE
        }
    }
}
