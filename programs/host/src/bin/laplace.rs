//! `laplace N NI NJ STEPS [DEVICES]`
use hamr_programs::laplace::laplace;
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, n, ni, nj, steps, devices @ ..] = &args[..] else {
        return Err("usage: laplace N NI NJ STEPS [DEVICES]".into());
    };
    let (n, nodes, steps): (i64, _, u32) = (n.parse()?, [ni.parse()?, nj.parse()?], steps.parse()?);
    let devices = devices.first().map_or("shm", |devices| devices);
    let world = hamr_programs_host::world(devices, nodes[0] * nodes[1], 2 * 8 * (n * n) as u64)?;
    let start = Instant::now();
    let change = world.run(laplace::with(n, nodes, steps))?;
    println!("{n} x {n} points on {} x {} devices, {steps} steps: {:?}", nodes[0], nodes[1], start.elapsed());
    println!("change of the last step: {change:e}");
    Ok(())
}
