//! `laplace N NI NJ STEPS [DEVICES]`
use hamr_programs::laplace::laplace;
use hamr_programs_host::{Failure, bytes_of, number, run, say, words, world};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: laplace N NI NJ STEPS [DEVICES]

STEPS of Jacobi's method for N x N points, on NI x NJ devices.";

fn main() -> ExitCode {
    run(USAGE, solve)
}

fn solve(args: Vec<OsString>) -> Result<(), Failure> {
    let args = words(args)?;
    let [n, ni, nj, steps, devices @ ..] = &args[..] else {
        return Err(USAGE.lines().next().unwrap_or_default().into());
    };
    let (n, nodes, steps): (i64, [u32; 2], u32) = (number(n)?, [number(ni)?, number(nj)?], number(steps)?);
    let world = world(devices, nodes, bytes_of(2, 8, &[n, n])?, 0)?;
    let start = Instant::now();
    let change = world.run(laplace::with(n, nodes, steps))?;
    say(format_args!("{n} x {n} points on {} x {} devices, {steps} steps: {:?}", nodes[0], nodes[1], start.elapsed()))?;
    say(format_args!("change of the last step: {change:e}"))?;
    Ok(())
}
