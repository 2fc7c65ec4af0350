//! A program that leaves its start to `#[hamr::main]`. It prints what it was given; with `fail` as its
//! first argument it fails.

use hamr_tests_kernels::echo;
use std::error::Error;

#[hamr::main(image = "hamr-checks")]
fn main(dev: &hamr::Node) -> Result<(), Box<dyn Error>> {
    let arguments = hamr::start::arguments();
    if arguments.first().is_some_and(|first| first == "fail") {
        return Err("as asked".into());
    }
    println!("{} of {} bytes: {} {arguments:?}", dev.info().name, dev.free_bytes(), dev.sync(echo::with(7u64))?);
    Ok(())
}
