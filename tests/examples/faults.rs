//! Five calls on each device: four that end in a fault, and one that works. What a person sees of a handler that panics, follows a
//! null pointer, overflows its stack, loops for ever.
//!
//! `cargo run --release -p hamr-tests --example faults`, or with the devices of your choice as arguments.

use hamr::{CallError, CallOptions};
use hamr_kernels::bench::sum_4;
use hamr_kernels::faults::panics;
use hamr_tests::conformance::options;
use hamr_tests::devices;
use hamr_tests_kernels::crashes::{loops, null, overflows};
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

const DEVICES: [&str; 4] = ["shm", "qemu:x86_64", "qemu:aarch64", "qemu:riscv64"];

fn main() -> ExitCode {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    if chosen.iter().any(|argument| argument == "--help") {
        println!("usage: faults [DEVICE]…");
        return ExitCode::SUCCESS;
    }
    let specs = if chosen.is_empty() { DEVICES.map(String::from).to_vec() } else { chosen };
    for spec in specs {
        println!("== {spec}");
        if let Err(e) = run(&spec) {
            eprintln!("faults: {spec}: {e}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn run(spec: &str) -> Result<(), Box<dyn Error>> {
    let node = devices::open(spec, options());
    let limited = CallOptions { limit: Some(Duration::from_millis(100)), ..CallOptions::default() };
    report("panics", node.sync(panics::with(7)))?;
    report("null", node.sync(null::with()))?;
    report("overflows", node.sync(overflows::with(u64::MAX)))?;
    report("loops", node.offload_with(loops::with(), limited)?.wait())?;
    println!("the fifth call: 1 + 2 + 3 + 4 = {}\n", node.sync(sum_4::with(1, 2, 3, 4))?);
    Ok(())
}

/// Shows the fault that a call must have ended in.
fn report<T, E: std::fmt::Debug>(name: &str, outcome: Result<T, CallError<E>>) -> Result<(), Box<dyn Error>> {
    match outcome {
        Err(CallError::Fault(fault)) => {
            println!("{fault}\n");
            Ok(())
        }
        Err(other) => Err(format!("{name}: expected a fault, got {other:?}").into()),
        Ok(_) => Err(format!("{name}: expected a fault, and it returned").into()),
    }
}
