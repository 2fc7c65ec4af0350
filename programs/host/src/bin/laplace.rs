//! `laplace N NI NJ STEPS [DEVICES]`
use hamr_programs::laplace::laplace;
use hamr_programs_host::{Failure, bytes_of, number, run, world};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    run(solve)
}

fn solve(args: Vec<String>) -> Result<(), Failure> {
    let [n, ni, nj, steps, devices @ ..] = &args[..] else {
        return Err("usage: laplace N NI NJ STEPS [DEVICES]".into());
    };
    let (n, nodes, steps): (i64, [u32; 2], u32) = (number(n)?, [number(ni)?, number(nj)?], number(steps)?);
    let world = world(devices, nodes, bytes_of(2, 8, &[n, n])?, 0)?;
    let start = Instant::now();
    let change = world.run(laplace::with(n, nodes, steps))?;
    println!("{n} x {n} points on {} x {} devices, {steps} steps: {:?}", nodes[0], nodes[1], start.elapsed());
    println!("change of the last step: {change:e}");
    Ok(())
}
